//! Cases from libvirt's own test inputs: machine types, modes and nodes that a plan must not break.

use super::*;
use crate::domain::{HugePagePool, NodeAvailableMemory};
use std::collections::BTreeMap;

fn domain_of(arch: &str, machine: &str, kind: &str) -> String {
    domain(8, "")
        .replace("arch='x86_64' machine='q35'", &format!("arch='{arch}' machine='{machine}'"))
        .replace("type='kvm'", &format!("type='{kind}'"))
}

/// Returns a machine with two nodes of four cores with two threads each.
fn host(arch: &str) -> Machine {
    let mut host = machine(2, 1, 2, 2, 2);
    host.system.architecture = Some(arch.to_owned());
    host
}

/// Returns a machine with two nodes of two cores with two threads each.
fn small(arch: &str) -> Machine {
    let mut host = machine(2, 1, 1, 2, 2);
    host.system.architecture = Some(arch.to_owned());
    host
}

fn again(first: &DomainPlan, machine: &Machine, policy: &str) {
    assert_eq!(planned(&first.xml, machine, policy).xml, first.xml);
}

#[test]
fn machines_without_nodes_get_pins_only() {
    for (arch, machine) in [
        ("s390x", "s390-ccw-virtio"),
        ("armv7l", "versatilepb"),
        ("aarch64", "realview-eb"),
        ("armv7l", "vexpress-a9"),
        ("ppc64", "powernv9"),
        ("ppc64", "mac99"),
        ("ppc", "g3beige"),
        ("ppc", "ppce500"),
        ("alpha", "clipper"),
        ("x86_64", "isapc"),
    ] {
        let host = host(arch);
        let first = planned(&domain_of(arch, machine, "qemu"), &host, "spread");
        let words = ["<cpu>", "<cpu ", "numatune", "threads="];
        assert!(words.iter().all(|word| !first.xml.contains(word)), "{}", first.xml);
        assert_eq!(first.xml.matches("<vcpupin").count(), 8);
        assert!(
            first.notes.iter().any(|note| note.text.contains("cannot show NUMA nodes or a topology")),
            "{:?}",
            first.notes
        );
        again(&first, &host, "spread");
    }
}

#[test]
fn smt_threads_depend_on_machine_type() {
    for (arch, machine, kind, threads) in [
        ("x86_64", "pc-i440fx-9.0", "qemu", 2),
        ("aarch64", "virt-9.0", "qemu", 2),
        ("ppc64le", "pseries", "kvm", 2),
        ("ppc64", "pseries-7.2", "qemu", 1),
        ("riscv64", "virt", "qemu", 1),
    ] {
        let guest = planned(&domain_of(arch, machine, kind), &small(arch), "spread").guest;
        assert_eq!(
            (guest.cells.len(), guest.topology.unwrap().threads),
            (2, threads),
            "{arch} {machine} {kind}"
        );
    }
}

#[test]
fn kvm_of_another_architecture_is_refused() {
    for (host_arch, guest, runs) in [
        ("x86_64", "aarch64", false),
        ("x86_64", "i686", true),
        ("aarch64", "x86_64", false),
        ("aarch64", "armv7l", true),
        ("ppc64le", "ppc64", true),
        ("s390x", "ppc64", false),
    ] {
        let text = domain_of(guest, "virt", "kvm");
        let planned = plan(&text, &host(host_arch), &request("close"));
        assert_eq!(planned.is_ok(), runs, "{host_arch} {guest}");
        if let Err(refused) = planned {
            assert!(
                refused.to_string().contains("KVM runs only guests of the host's architecture"),
                "{refused}"
            );
        }
        assert!(plan(&text.replace("'kvm'", "'qemu'"), &host(host_arch), &request("close")).is_ok());
    }
}

#[test]
fn unassigned_devices_keep_their_address() {
    let devices =
        hostdev(0).replace("</source>\n", "</source>\n      <address type='unassigned'/>\n") + &hostdev(1);
    let host = host("x86_64");
    let first = planned(&domain(8, &devices), &host, "spread");
    assert_eq!(first.xml.matches("type='unassigned'").count(), 1);
    assert_eq!(first.guest.devices.iter().map(|device| device.node).collect::<Vec<_>>(), [None, Some(1)]);
    let expected = "device 0000:10:00.0 is not moved: its <address> is of type 'unassigned'";
    assert!(first.notes.iter().any(|note| note.text == expected), "{:?}", first.notes);
    again(&first, &host, "spread");
    // An address with only the type PCI can be given a location.
    let bare = devices.replace("unassigned", "pci");
    let first = planned(&domain(8, &bare), &host, "spread");
    assert_eq!(first.guest.devices.iter().map(|device| device.node).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(!first.xml.contains("<address type='pci'/>"), "{}", first.xml);
    again(&first, &host, "spread");
}

fn with_pages(vcpus: u32, pages: &str) -> String {
    domain(vcpus, "").replace(
        "  <os>",
        &format!("  <memoryBacking>\n    <hugepages>\n{pages}    </hugepages>\n  </memoryBacking>\n  <os>"),
    )
}

#[test]
fn huge_pages_name_the_nodes_that_the_plan_makes() {
    let host = host("x86_64");
    let page = |nodes: &str| format!("      <page size='2' unit='M' nodeset='{nodes}'/>\n");
    let wide = planned(&with_pages(8, &page("0")), &host, "spread");
    assert!(wide.xml.contains("nodeset='0-1'/>\n    </hugepages>"), "{}", wide.xml);
    again(&wide, &host, "spread");
    let narrow = planned(&wide.xml, &host, "close");
    assert!(narrow.xml.contains("nodeset='0'/>\n    </hugepages>"), "{}", narrow.xml);
    // With different page sizes, the same number of nodes keeps them; for another number, the sizes are
    // undefined.
    let mixed = wide.xml.replace(
        "      <page size='2' unit='M' nodeset='0-1'/>\n",
        "      <page size='2' unit='M' nodeset='0'/>\n      <page size='4' unit='M' nodeset='1'/>\n",
    );
    assert!(mixed.contains("size='4'"));
    assert_eq!(planned(&mixed, &host, "spread").xml, mixed);
    let expected = refused(&mixed, &host, &request("close")).to_string();
    assert!(expected.contains("pages of one size"), "{expected}");
}

#[test]
fn memory_that_numad_places_keeps_its_placement() {
    let text = domain(8, "")
        .replace("<vcpu>", "<vcpu placement='auto'>")
        .replace("  <os>", "  <numatune>\n    <memory mode='preferred'/>\n  </numatune>\n  <os>");
    let single = machine(1, 1, 2, 2, 2);
    let first = planned(&text, &single, "close");
    assert!(first.xml.contains("<vcpu placement='static'>"));
    assert!(first.xml.contains("<memory mode='preferred' placement='auto'/>"), "{}", first.xml);
    again(&first, &single, "close");
    let bound = planned(&text, &host("x86_64"), "spread");
    assert!(bound.xml.contains("<memory mode='strict' nodeset='0-1'/>"), "{}", bound.xml);
    assert!(
        bound.notes.iter().any(|note| note.text.contains("mode 'preferred' of <numatune> changes to strict"))
    );
}

#[test]
fn modules_of_memory_get_a_node_where_the_guest_gets_nodes() {
    let module = "    <memory model='dimm'>\n      <target>\n        <size unit='MiB'>512</size>\n      </target>\n    </memory>\n";
    let host = host("ppc64");
    let text = domain_of("ppc64", "pseries", "qemu")
        .replace("  <devices>\n", &format!("  <devices>\n{module}{module}{module}"));
    let first = planned(&text, &host, "spread");
    assert_eq!(
        (first.xml.matches("<node>0</node>").count(), first.xml.matches("<node>1</node>").count()),
        (2, 1)
    );
    assert!(first.notes.iter().any(|note| note.text.contains("3 <memory> modules without a <node> get one")));
    again(&first, &host, "spread");
}

#[test]
fn implicit_choices_are_noted() {
    let host = host("x86_64");
    let is_noted = |text: &str, what: &str| {
        let notes = planned(text, &host, "spread").notes;
        notes.iter().any(|note| note.text.contains(what))
    };
    assert!(is_noted(
        &domain(8, ""),
        "gets the mode host-passthrough: while it runs, the guest can be migrated only"
    ));
    let cpu = |inner: &str| {
        domain(8, "").replace("  <os>", &format!("  <cpu mode='host-passthrough'>{inner}</cpu>\n  <os>"))
    };
    assert!(!is_noted(&cpu(""), "host-passthrough"));
    assert!(is_noted(
        &cpu("<cache mode='emulate' level='3'/>"),
        "<cache mode='emulate'/> changes to passthrough"
    ));
    assert!(!is_noted(&cpu("<cache mode='passthrough'/>"), "changes to passthrough"));
}

#[test]
fn removed_expander_is_noted() {
    let host = host("x86_64");
    let wide = planned(&domain(8, &(hostdev(1) + &hostdev(0))), &host, "spread");
    let index = wide.guest.expanders.iter().find(|expander| expander.node == 1).unwrap().index;
    let narrow = planned(&wide.xml, &host, "close");
    let expected = format!("expander bus {index}, on the guest's node 1, is removed with its 1 port");
    assert!(narrow.notes.iter().any(|note| note.text.contains(&expected)), "{:?}", narrow.notes);
}

fn numa(cells: &str) -> String {
    domain(8, "").replace("  <os>", &format!("  <cpu>\n    <numa>\n{cells}    </numa>\n  </cpu>\n  <os>"))
}

#[test]
fn cells_that_are_not_numbered_from_0_on_are_refused() {
    let cell = |id: u32, cpus: &str| format!("      <cell id='{id}' cpus='{cpus}' memory='4' unit='GiB'/>\n");
    for ids in [[1, 2], [0, 2], [1, 1]] {
        let text = numa(&(cell(ids[0], "0-3") + &cell(ids[1], "4-7")));
        let expected = refused(&text, &host("x86_64"), &request("spread")).to_string();
        assert!(expected.contains("the numbers from 0 on, each once"), "{expected}");
    }
    assert!(plan(&numa(&(cell(1, "0-3") + &cell(0, "4-7"))), &host("x86_64"), &request("spread")).is_ok());
}

#[test]
fn virtual_cpus_that_no_cell_names_are_in_the_first() {
    let cells =
        "      <cell id='0' memory='4' unit='GiB'/>\n      <cell id='1' cpus='4-7' memory='4' unit='GiB'/>\n";
    let first = planned(&numa(cells), &host("x86_64"), "spread");
    assert_eq!(first.guest.cells[0].vcpus.to_string(), "0-3");
    assert!(first.xml.contains("<cell id='0' memory='4' unit='GiB' cpus='0-3'>"), "{}", first.xml);
}

#[test]
fn memory_only_cells_stay_beside_planned_cells() {
    let cells = "      <cell id='0' cpus='0-3' memory='2' unit='GiB'/>\n      <cell id='1' memory='4' unit='GiB'>\n        \
                 <distances>\n          <sibling id='0' value='20'/>\n          <sibling id='1' value='10'/>\n          \
                 <sibling id='2' value='25'/>\n        </distances>\n      </cell>\n      <cell id='2' cpus='4-7' \
                 memory='2' unit='GiB'>\n        <distances>\n          <sibling id='1' value='25'/>\n        \
                 </distances>\n      </cell>\n";
    let tune = "  <numatune>\n    <memory mode='strict' nodeset='0-1'/>\n    <memnode cellid='1' mode='preferred' \
                nodeset='1'/>\n  </numatune>\n  <cpu>\n    <numa>";
    let text = numa(cells).replace("  <cpu>\n    <numa>", tune);
    let host = host("x86_64");
    let first = planned(&text, &host, "spread");
    let [a, b, c] = first.guest.cells.as_slice() else { panic!("{:?}", first.guest.cells) };
    assert_eq!([&a.vcpus, &b.vcpus, &c.vcpus].map(ToString::to_string), ["0-3", "", "4-7"]);
    assert_eq!([a.memory_kib, b.memory_kib, c.memory_kib], [2 << 20, 4 << 20, 2 << 20]);
    assert_eq!([&a.host_nodes, &b.host_nodes, &c.host_nodes].map(ToString::to_string), ["0", "1", "1"]);
    assert!(first.xml.contains("<memnode cellid='1' mode='preferred' nodeset='1'/>"), "{}", first.xml);
    assert!(first.xml.contains("<sibling id='2' value='32'/>"), "{}", first.xml);
    assert!(first.xml.contains("<sibling id='1' value='25'/>"), "{}", first.xml);
    again(&first, &host, "spread");
    // On one host node, the guest keeps both nodes.
    let close = planned(&first.xml, &host, "close");
    let [a, b, c] = close.guest.cells.as_slice() else { panic!("{:?}", close.guest.cells) };
    assert_eq!([&a.vcpus, &b.vcpus, &c.vcpus].map(ToString::to_string), ["0-3", "", "4-7"]);
    assert_eq!([&a.host_nodes, &b.host_nodes, &c.host_nodes].map(ToString::to_string), ["0", "1", "0"]);
    assert!(close.xml.contains("<sibling id='2' value='11'/>"), "{}", close.xml);
    again(&close, &host, "close");
}

/// Regression: a guest with memory-only nodes was refused if its number of nodes with CPUs differed from the
/// plan's.
#[test]
fn memory_only_nodes_survive_other_node_counts() {
    let host = host("x86_64");
    let cell = |id: u32, cpus: &str| {
        let cpus = if cpus.is_empty() { String::new() } else { format!("cpus='{cpus}' ") };
        format!("      <cell id='{id}' {cpus}memory='2' unit='GiB'/>\n")
    };
    let links = "      <interconnects>\n        <latency initiator='0' target='1' type='access' value='5'/>\n      \
                 </interconnects>\n";
    let ends = |planned: &DomainPlan| -> Vec<String> {
        planned.guest.cells.iter().map(|cell| format!("{}@{}", cell.vcpus, cell.host_nodes)).collect()
    };
    // Three nodes, one of which would span both host nodes.
    let three = [cell(0, "0-2"), cell(1, "3-4"), cell(2, "5-7"), cell(3, ""), links.to_owned()].concat();
    let spread = planned(&numa(&three), &host, "spread");
    assert_eq!(ends(&spread), ["0-1@0", "2-3@0", "4-7@1", "@0-1"]);
    assert!(spread.xml.contains(links.trim()), "{}", spread.xml);
    again(&spread, &host, "spread");
    // One node: the second one comes last.
    let one = [cell(0, "0-7"), cell(1, ""), links.to_owned()].concat();
    let spread = planned(&numa(&one), &host, "spread");
    assert_eq!(ends(&spread), ["0-3@0", "@0-1", "4-7@1"]);
    assert!(
        spread.xml.contains(links.trim()) && spread.xml.contains("<cell id='2' cpus='4-7'"),
        "{}",
        spread.xml
    );
    again(&spread, &host, "spread");
}

#[test]
fn virtual_cpus_that_the_guest_starts_with_are_spread_too() {
    let host = small("x86_64");
    let some = |current: u32| domain(8, "").replace("<vcpu>", &format!("<vcpu current='{current}'>"));
    let on = |planned: &DomainPlan, vcpus: std::ops::Range<u32>| -> Vec<u32> {
        let count = |cell: &crate::domain::Cell| {
            vcpus.clone().filter(|vcpu| cell.vcpus.contains(*vcpu)).count() as u32
        };
        planned.guest.cells.iter().map(count).collect()
    };
    let half = planned(&some(4), &host, "spread");
    assert_eq!((on(&half, 0..4), on(&half, 4..8)), (vec![2, 2], vec![2, 2]));
    assert_eq!(half.guest.topology.unwrap().threads, 2);
    let expected = "of 8 virtual CPUs the guest starts with 4: they are spread evenly over the nodes (2 + 2)";
    assert!(half.notes.iter().any(|note| note.text == expected), "{:?}", half.notes);
    again(&half, &host, "spread");
    assert_eq!(on(&planned(&some(3), &host, "spread"), 0..3), [2, 1]);
    assert_eq!(on(&planned(&some(8), &host, "spread"), 0..4), [4, 0]);
    // The virtual CPUs that start are named one by one.
    let mut named = String::new();
    for vcpu in 0..8 {
        let enabled = if vcpu < 4 { "no" } else { "yes" };
        named += &format!("    <vcpu id='{vcpu}' enabled='{enabled}' hotpluggable='yes'/>\n");
    }
    let text = some(4).replace("  <os>", &format!("  <vcpus>\n{named}  </vcpus>\n  <os>"));
    assert_eq!(on(&planned(&text, &host, "spread"), 4..8), [2, 2]);
}

#[test]
fn insufficient_memory_and_huge_pages_are_noted() {
    let host = host("x86_64");
    let available = |free: u64, pages: u64| AvailableMemory {
        nodes: (0..2)
            .map(|node| {
                let pages = BTreeMap::from([(2048, HugePagePool { total: pages + 10, free: pages })]);
                (node, NodeAvailableMemory { free_bytes: Some(free << 30), pages })
            })
            .collect(),
        default_page_kib: Some(2048),
    };
    let notes = |text: &str, available: AvailableMemory| {
        texts(&plan(text, &host, &PlanRequest { available, ..request("spread") }).unwrap().notes)
    };
    let usual = domain(8, "");
    assert!(
        notes(&usual, available(3, 0))
            .contains("node 0 of the host has 3 GiB free now, and 4 GiB of the guest's memory")
    );
    assert!(!notes(&usual, available(4, 0)).contains("free"));
    for pages in ["", "      <page size='2' unit='MiB'/>\n", "      <page size='2' unit='M' nodeset='0'/>\n"]
    {
        let huge = with_pages(8, pages);
        let few = notes(&huge, available(1, 2000));
        assert!(few.contains("2000 of 2010 huge pages of 2 MiB free, but the guest needs 2048"), "{few}");
        assert!(
            few.contains("echo 2058 >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"),
            "{few}"
        );
        assert!(!notes(&huge, available(1, 2048)).contains("free"));
    }
}
