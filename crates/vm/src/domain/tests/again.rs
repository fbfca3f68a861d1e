//! Replanning of planned domains with another policy: nothing may refer to removed nodes.

use super::*;

/// Returns a domain that spans two nodes with a device on each, and its machine with two nodes.
fn spread(more: &str) -> (DomainPlan, Machine) {
    let machine = machine(2, 1, 2, 2, 2);
    let devices = hostdev(1) + &hostdev(0) + more;
    (planned(&domain(8, &devices), &machine, "spread"), machine)
}

fn nodes(planned: &DomainPlan) -> Vec<Option<u32>> {
    planned.guest.devices.iter().map(|device| device.node).collect()
}

#[test]
fn expanders_of_removed_nodes_are_removed() {
    let (wide, machine) = spread("");
    assert_eq!(nodes(&wide), [Some(1), Some(0)]);
    let narrow = planned(&wide.xml, &machine, "close");
    assert_eq!((narrow.guest.cells.len(), narrow.guest.expanders.len()), (1, 1));
    assert_eq!(nodes(&narrow), [None, Some(0)]);
    assert!(!narrow.xml.contains("<node>1</node>"), "{}", narrow.xml);
    assert_eq!(narrow.xml.matches("pcie-root-port").count(), 2, "{}", narrow.xml);
    let reported = texts(&narrow.notes);
    assert!(
        reported.contains("0000:11:00.0 is no longer on a node of the guest: it is on node 1"),
        "{reported}"
    );
    let again = planned(&narrow.xml, &machine, "close");
    assert_eq!(again.xml, narrow.xml);
    let wide_again = planned(&narrow.xml, &machine, "spread");
    assert_eq!(nodes(&wide_again), [Some(1), Some(0)]);
    assert_eq!(wide_again.guest.expanders.len(), 2);
    // On the other node only: its device is on the guest's only node, and the other device on none.
    let other = planned(&wide.xml, &machine, "cpus=8-15");
    assert_eq!(nodes(&other), [Some(0), None]);
    assert_eq!(planned(&other.xml, &machine, "cpus=8-15").xml, other.xml);
}

#[test]
fn used_expander_stays_without_a_node() {
    let (wide, machine) = spread("");
    let expander = wide.guest.expanders.iter().find(|expander| expander.node == 1).unwrap();
    let card = format!(
        "    <controller type='pci' index='9' model='pcie-root-port'>\n      <address type='pci' domain='0x0000' \
         bus='{:#04x}' slot='0x05' function='0x0'/>\n    </controller>\n    <interface type='user'>\n      <address \
         type='pci' domain='0x0000' bus='0x09' slot='0x00' function='0x0'/>\n    </interface>\n  </devices>",
        expander.index
    );
    let narrow = planned(&wide.xml.replace("  </devices>", &card), &machine, "close");
    assert!(!narrow.xml.contains("<node>1</node>"), "{}", narrow.xml);
    assert_eq!(narrow.xml.matches("model='pcie-expander-bus'").count(), 2, "{}", narrow.xml);
    let reported = format!("controller {} and the devices behind it are no longer on a node", expander.index);
    assert!(narrow.notes.iter().any(|note| note.text.contains(&reported)), "{:?}", narrow.notes);
    assert_eq!(planned(&narrow.xml, &machine, "close").xml, narrow.xml);
}

#[test]
fn openeuler_devices_name_no_removed_node() {
    let machine = machine(2, 1, 2, 2, 2);
    let with = |text: &str, policy: &str| {
        plan(text, &machine, &PlanRequest { dialect: LibvirtDialect::OpenEuler, ..request(policy) }).unwrap()
    };
    let wide = with(&domain(8, &(hostdev(1) + &hostdev(0))), "spread");
    assert_eq!(nodes(&wide), [Some(1), Some(0)]);
    let narrow = with(&wide.xml, "close");
    assert_eq!(nodes(&narrow), [None, Some(0)]);
    assert!(!narrow.xml.contains("<numa node='1'/>"), "{}", narrow.xml);
}

#[test]
fn memory_modules_on_removed_nodes_are_refused() {
    let module = "    <memory model='dimm'>\n      <target>\n        <size unit='GiB'>1</size>\n        \
                  <node>1</node>\n      </target>\n    </memory>\n";
    let (wide, machine) = spread(module);
    assert_eq!(wide.guest.cells.len(), 2);
    let reported = refused(&wide.xml, &machine, &request("close")).to_string();
    assert!(
        reported.contains("kind 'dimm' on the guest's node 1, but by this plan the guest has only 1 node"),
        "{reported}"
    );
}

#[test]
fn removed_node_elements_are_reported() {
    let (wide, machine) = spread("");
    let cache = "<cache level='1' associativity='direct' policy='writeback'>\n          <size value='10' \
                 unit='KiB'/>\n          <line value='8' unit='B'/>\n        </cache>\n      </cell>";
    let links = "</cell>\n      <interconnects>\n        <latency initiator='0' target='1' type='access' \
                 value='5'/>\n      </interconnects>\n    </numa>";
    let text = wide.xml.replacen("</cell>", cache, 1).replace("</cell>\n    </numa>", links);
    assert!(text.contains("<cache level='1'") && text.contains("<interconnects>"), "{text}");
    let narrow = planned(&text, &machine, "close");
    assert!(!narrow.xml.contains("<cache level") && !narrow.xml.contains("interconnects"), "{}", narrow.xml);
    let reported = "removed with the guest's old nodes: <cache> and <interconnects>; there were 2 nodes, and the plan \
                replaces them by 1";
    assert!(narrow.notes.iter().any(|note| note.text.contains(reported)), "{:?}", narrow.notes);
    // A plan with the same number of nodes keeps everything in them.
    assert_eq!(planned(&text, &machine, "spread").xml, text);
}

#[test]
fn referenced_bus_without_controller_is_reserved() {
    let machine = machine(2, 1, 2, 2, 2);
    let there = "    <interface type='user'>\n      <address type='pci' domain='0' bus='0x02' slot='0' function='0'/>\n    \
                 </interface>\n";
    let placed = planned(&domain(8, &(hostdev(0) + there)), &machine, "close");
    assert_eq!(nodes(&placed), [Some(0)], "{}", placed.xml);
    assert_eq!(placed.xml.matches("bus='0x02'").count(), 1, "{}", placed.xml);
}

#[test]
fn comments_stay_or_are_reported() {
    let numa = "  <cpu>\n    <numa>\n      <cell id='0' cpus='0-7' memory='4' unit='GiB'>\n        \
                <!-- c1 -->\n        <distances>\n          <!-- c2 -->\n          <sibling id='0' value='10'/>\n        \
                </distances>\n      </cell>\n      <cell id='1' cpus='8-15' memory='4' unit='GiB'/>\n    </numa>\n  \
                </cpu>\n  <os>";
    let text = domain(16, "").replace("  <os>", numa);
    let kept = planned(&text, &machine(2, 1, 2, 2, 2), "spread");
    let distances = "<!-- c1 -->\n        <distances>\n          <!-- c2 -->\n          \
                     <sibling id='0' value='10'/>\n          <sibling id='1' value='32'/>\n        </distances>";
    assert!(kept.xml.contains(distances), "{}", kept.xml);
    assert!(kept.notes.iter().all(|note| !note.text.contains("comment")), "{:?}", kept.notes);
    assert_eq!(kept.guest.cells[0].distances, [10, 32]);
    let without_cells = planned(&text, &machine(2, 2, 1, 2, 2), "spread");
    let expected = "2 comments are removed with the elements around them: <!-- c1 -->, <!-- c2 -->";
    assert!(without_cells.notes.iter().any(|note| note.text == expected), "{:?}", without_cells.notes);
}

#[test]
fn user_bus_numbers_stay_if_they_fit() {
    let own = |bus: u32| {
        format!(
            "    <controller type='pci' index='0' model='pcie-root'/>\n    <controller type='pci' index='200' \
             model='pcie-expander-bus'>\n      <target busNr='{bus}'/>\n    </controller>\n    <disk/>\n    <disk/>\n"
        ) + &hostdev(0)
    };
    let with = |bus: u32| planned(&domain(16, &own(bus)), &machine(2, 1, 2, 2, 2), "close");
    for bus in [4, 100, 254] {
        let kept = with(bus);
        assert!(kept.xml.contains(&format!("<target busNr='{bus}'/>")), "{}", kept.xml);
        assert!(kept.notes.iter().all(|note| !note.text.contains("busNr")), "{:?}", kept.notes);
        let ours = kept.guest.expanders[0].bus.unwrap();
        assert!(ours + 1 < bus || ours > bus, "{ours} beside {bus}");
    }
    let moved = with(1);
    assert!(
        moved.notes.iter().any(|note| note.text.contains("with index 200 gets busNr")),
        "{:?}",
        moved.notes
    );
}
