use super::*;
use manycore_host::{
    Tree,
    capture::Capture,
    resctrl::{Files, Mount},
};
use std::collections::BTreeMap;

fn files() -> Files {
    let mut capture = Capture::default();
    for (path, text) in [
        ("schemata", "    L3:0=fffff;1=fffff\n    MB:0=100;1=100"),
        ("tasks", "1\n2\n3"),
        ("cpus_list", "0-15"),
        ("info/L3/cbm_mask", "fffff"),
        ("info/L3/min_cbm_bits", "1"),
        ("info/L3/num_closids", "16"),
        ("info/L3_MON/num_rmids", "64"),
        ("info/MB/min_bandwidth", "10"),
        ("info/MB/bandwidth_gran", "10"),
        ("mon_data/mon_L3_00/llc_occupancy", "1048576"),
        ("mon_data/mon_L3_00/mbm_total_bytes", "25282281472"),
        ("mon_data/mon_L3_01/llc_occupancy", "1048576"),
        ("mon_data/mon_L3_01/mbm_total_bytes", "0"),
        ("qemu-3-web1/schemata", "L3:0=3ff;1=fffff\nMB:0=50;1=50"),
        ("qemu-3-web1/tasks", "812\n813"),
        ("qemu-3-web1/mode", "exclusive"),
        ("qemu-3-web1/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable"),
        ("qemu-3-web1/mon_groups/vcpus_0-3/tasks", "813"),
        ("held/schemata", "L3:0=f;1=f\nMB:0=20;1=20"),
        ("held/cpus_list", "4-5"),
    ] {
        capture.add_file(path, text);
    }
    let options = ["rw", "relatime"].map(str::to_owned).to_vec();
    Files::new(
        Tree::from_capture(capture),
        Some("GenuineIntel"),
        Mount { point: "/sys/fs/resctrl".into(), options },
    )
}

#[test]
fn groups_of_a_host_read_well() {
    let ours = BTreeMap::from([("/sys/fs/resctrl/held".into(), "qos-7".to_owned())]);
    let mut shown = state(&files().state(&ours), None);
    assert!(shown.lines().all(|line| line.chars().count() <= 110), "{shown}");
    insta::assert_snapshot!("qos_of_a_host", shown);
    let mut one = files().state(&ours);
    one.groups.retain(|group| group.name == "qemu-3-web1");
    shown = state(&one, Some(&[812, 813]));
    insta::assert_snapshot!("qos_of_a_group", shown);
}
