use super::*;
use crate::{
    enforcement::{ENFORCEMENT_SCHEMA, EnforcementCheck, EnforcementReport},
    limit_outcome::LimitOutcome,
};
use manycore_analysis::limits::{LimitCheck, LimitProof, LimitResult};
use manycore_linux::resctrl::{Files, Mount};
use manycore_stats::{
    Estimate,
    verdict::{DecisionRule, Verdict},
};
use manycore_topology::{SysTree, capture::Capture};
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
        SysTree::from_capture(capture),
        Some("GenuineIntel"),
        Mount { point: "/sys/fs/resctrl".into(), options },
    )
}

#[test]
fn groups_as_text() {
    let option: OptionOfLine = |line| (line == "MB").then_some("an option");
    let created = BTreeMap::from([("/sys/fs/resctrl/held".into(), "qos-7".to_owned())]);
    let mut shown = state(&files().state(&created), None, option).to_string();
    assert!(shown.lines().all(|line| line.chars().count() <= 110), "{shown}");
    insta::assert_snapshot!("qos_of_a_host", shown);
    let mut one = files().state(&created);
    one.groups.retain(|group| group.name == "qemu-3-web1");
    shown = state(&one, Some(&[812, 813]), option).to_string();
    insta::assert_snapshot!("qos_of_a_group", shown);
}

#[test]
fn enforcement_as_text() {
    let capabilities = files().state(&BTreeMap::new()).capabilities;
    // Twenty rates around the given one, and verdicts over twenty equal pairs.
    let rates = |rate: f64| {
        Estimate::from_samples(&(0..20).map(|n| rate * (0.99 + f64::from(n) / 1e3)).collect::<Vec<_>>())
    };
    let verdict = |ratio: f64| Verdict::new(&[ratio.ln(); 20], DecisionRule::default(), None);
    let limit = LimitOutcome {
        line: "MB".to_owned(),
        domain: 0,
        requested: "bandwidth 5%".to_owned(),
        before: Some(100),
        written: 5,
        in_force: Some(10),
        why: Some("the kernel raises it to the minimum".to_owned()),
        ignored: false,
    };
    let measured = |check, shown, ratio: f64, alone| EnforcementCheck {
        limits: vec![limit.clone()],
        measured: LimitProof {
            check,
            shown,
            with: rates(1e10 * ratio),
            without: rates(1e10),
            alone,
            verdict: verdict(ratio),
        },
    };
    let fails = LimitResult::Fails("the load gets as much bandwidth with the limit as without".to_owned());
    let why = "MBMIN cannot be set: only MPAM of openEuler has a minimum bandwidth, and this is Intel RDT"
        .to_owned();
    let all = [
        measured(LimitCheck::Bandwidth, LimitResult::Holds, 0.11, None),
        measured(LimitCheck::Bandwidth, fails, 1.0, None),
        measured(LimitCheck::Priority, LimitResult::Inconclusive, 1.2, rates(2e10)),
        EnforcementCheck { measured: LimitProof::not_measured(LimitCheck::Minimum, why), limits: Vec::new() },
    ];
    let report = EnforcementReport {
        schema: ENFORCEMENT_SCHEMA.to_owned(),
        dialect: capabilities.dialect,
        node: Some(0),
        cpus: (0..16).collect(),
        proofs: all.to_vec(),
        capabilities,
    };
    let text = enforcement(&report).to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    insta::assert_snapshot!("qos_proofs", text);
}
