//! Replanning of planned domains: which parts of the old plan must not remain.

use super::*;

/// Returns the virtual CPUs and the memory in GiB of each cell.
fn cells(planned: &DomainPlan) -> Vec<(String, u64)> {
    planned.guest.cells.iter().map(|cell| (cell.vcpus.to_string(), cell.memory_kib >> 20)).collect()
}

#[test]
fn same_number_of_nodes_redistributes_memory() {
    let machine = machine(4, 1, 2, 2, 2);
    let uneven = planned(&domain(8, ""), &machine, "cpus=0-5,8-9");
    assert_eq!(cells(&uneven), [("0-5".to_owned(), 6), ("6-7".to_owned(), 2)]);
    let even = planned(&uneven.xml, &machine, "cpus=16-19,24-27");
    assert_eq!(cells(&even), [("0-3".to_owned(), 4), ("4-7".to_owned(), 4)]);
    assert_eq!(even.xml, planned(&domain(8, ""), &machine, "cpus=16-19,24-27").xml);
    let reported = "4 GiB + 4 GiB; before: 6 GiB + 2 GiB";
    assert!(even.notes.iter().any(|note| note.text.contains(reported)), "{:?}", even.notes);
    // One of three nodes keeps its memory, a size that the user chose.
    let three = planned(&domain(12, ""), &machine, "cpus=0-3,8-13,16-17");
    let [first, second, third] = [2_u64 << 20, 4 << 20, 2 << 20].map(|kib| kib.to_string());
    assert_eq!(three.guest.cells[0].memory_kib, 2_795_520, "whole huge pages");
    let chosen = three.guest.cells.iter().zip([&first, &second, &third]).fold(
        three.xml.clone(),
        |xml, (cell, new)| {
            xml.replacen(&format!("memory='{}'", cell.memory_kib), &format!("memory='{new}'"), 1)
        },
    );
    let other = planned(&chosen, &machine, "cpus=0-3,8-11,16-19");
    assert_eq!(cells(&other), [("0-3".to_owned(), 2), ("4-7".to_owned(), 3), ("8-11".to_owned(), 3)]);
}

#[test]
fn empty_expanders_are_removed_with_ports() {
    let machine = machine(4, 1, 2, 2, 2);
    let port = "    <controller type='pci' index='1' model='pcie-root-port'/>\n    \
                <controller type='pci' index='2' model='pcie-expander-bus'>\n      <target busNr='100'/>\n    \
                </controller>\n";
    let text = domain(8, &(port.to_owned() + &hostdev(0) + &hostdev(1)));
    let first = planned(&text, &machine, "cpus=0-3,8-11");
    assert_eq!(first.guest.expanders.len(), 2);
    let other = planned(&first.xml, &machine, "cpus=16-19,24-27");
    assert!(other.guest.expanders.is_empty(), "{}", other.xml);
    // The user's own expander, which has no node, stays; the free port is used, and one more is added.
    assert_eq!(other.xml.matches("model='pcie-expander-bus'").count(), 1, "{}", other.xml);
    assert_eq!(other.xml.matches("model='pcie-root-port'").count(), 2, "{}", other.xml);
    assert!(
        other.xml.contains("<address type='pci' domain='0x0000' bus='0x01' slot='0x00'"),
        "{}",
        other.xml
    );
    assert!(other.guest.devices.iter().all(|device| device.node.is_none()));
    assert_eq!(planned(&other.xml, &machine, "cpus=16-19,24-27").xml, other.xml);
    let back = planned(&other.xml, &machine, "cpus=0-3,8-11");
    assert_eq!(back.guest.devices.iter().map(|device| device.node).collect::<Vec<_>>(), [Some(0), Some(1)]);
    // A device that moves to another node uses that node's expander, and its old one is removed.
    let moved = planned(&first.xml, &machine, "cpus=8-11,16-19");
    assert_eq!(moved.guest.devices.iter().map(|device| device.node).collect::<Vec<_>>(), [None, Some(0)]);
    assert_eq!(moved.guest.expanders.len(), 1, "{}", moved.xml);
}

#[test]
fn vcpus_away_from_bound_memory_are_refused() {
    let machine = machine(2, 2, 2, 2, 2);
    let first = planned(&domain(16, ""), &machine, "close");
    assert_eq!(first.guest.cells.len(), 2);
    for (policy, reported) in [
        (
            "free",
            "binds the memory of the guest's node 0 to node 0 of the host, but with free its virtual CPUs (0-7)",
        ),
        ("spread@package", "(0-7) may run on CPUs 8-15 of other nodes: remove <numatune> from the XML"),
    ] {
        let refused = refused(&first.xml, &machine, &request(policy)).to_string();
        assert!(refused.contains(reported), "{refused:?} should contain {reported:?}");
    }
    let bound = |mode: &str, nodes: &str| {
        let tune =
            format!("  <numatune>\n    <memory mode='{mode}' nodeset='{nodes}'/>\n  </numatune>\n  <os>");
        plan(&domain(4, "").replace("  <os>", &tune), &machine, &request("free"))
    };
    let reported = bound("strict", "1").unwrap_err().to_string();
    assert!(reported.contains("binds the memory to node 1 of the host"), "{reported}");
    assert!(bound("restrictive", "0-1").is_err());
    assert!(bound("preferred", "1").is_ok(), "only a preference");
    assert!(bound("strict", "0-3").is_ok(), "all nodes are near to all CPUs");
}

#[test]
fn openeuler_elements_are_removed_for_upstream() {
    let machine = machine(2, 1, 2, 2, 2);
    let tune = TuneRequest {
        bandwidth: Some(60),
        min_bandwidth: Some(10),
        hardlimit: Some(true),
        priority: Some(2),
        ..TuneRequest::default()
    };
    let openeuler = PlanRequest { dialect: LibvirtDialect::OpenEuler, tune, ..request("close") };
    let first = plan(&domain(8, &hostdev(0)), &machine, &openeuler).unwrap();
    assert!(first.xml.contains("min_bandwidth") && first.xml.contains("<numa node='0'/>"), "{}", first.xml);
    let upstream = planned(&first.xml, &machine, "spread");
    for removed in ["min_bandwidth", "hardlimit", "priority", "<numa node"] {
        assert!(!upstream.xml.contains(removed), "{removed}: {}", upstream.xml);
    }
    assert!(upstream.xml.contains("<node id='0' bandwidth='60'/>"), "{}", upstream.xml);
    let reported = texts(&upstream.notes);
    let expected = "<numa> of device 0000:10:00.0; hardlimit, min_bandwidth, priority of <memorytune>";
    assert!(reported.contains(expected), "{reported}");
    assert_eq!(upstream.guest.devices[0].node, Some(0), "by an expander now");
    // The openEuler dialect keeps them.
    let again =
        plan(&first.xml, &machine, &PlanRequest { dialect: LibvirtDialect::OpenEuler, ..request("close") })
            .unwrap();
    assert_eq!(again.xml, first.xml);
    // Without a bandwidth, nothing remains that upstream libvirt accepts.
    let bare = planned(&first.xml.replace(" bandwidth='60'", ""), &machine, "close");
    assert!(!bare.xml.contains("memorytune"), "{}", bare.xml);
}

#[test]
fn uncovered_limits_are_reported() {
    let machine = machine(2, 1, 2, 2, 2);
    let tune =
        TuneRequest { bandwidth: Some(50), cache: vec!["l3=50%".parse().unwrap()], ..TuneRequest::default() };
    let first =
        plan(&domain(8, ""), &machine, &PlanRequest { tune: tune.clone(), ..request("close") }).unwrap();
    assert!(first.xml.contains("<node id='0'") && !first.xml.contains("<node id='2'"), "{}", first.xml);
    let uncovered_limits = |planned: &DomainPlan| {
        planned.notes.iter().filter(|note| note.text.contains("without a limit")).count()
    };
    assert_eq!(uncovered_limits(&planned(&first.xml, &machine, "close")), 0);
    let wide = planned(&first.xml, &machine, "spread");
    assert_eq!(uncovered_limits(&wide), 2, "{:?}", wide.notes);
    let reported =
        "<memorytune> for virtual CPUs 0-7 is unchanged and limits the ids 0; the virtual CPUs now use 2";
    assert!(wide.notes.iter().any(|note| note.text.contains(reported)), "{:?}", wide.notes);
    let anew = plan(&first.xml, &machine, &PlanRequest { tune, ..request("spread") }).unwrap();
    assert_eq!(uncovered_limits(&anew), 0, "{:?}", anew.notes);
}
