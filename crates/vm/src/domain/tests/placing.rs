//! Placement of virtual CPUs, memory, devices and limits.

use super::*;
use crate::{
    domain::{GuestHardware, Topology, guest::MAX_VCPUS},
    remedy::Remedy,
};
use manycore_topology::{SysTree, synthetic::MachineSpec};

fn topology(planned: &DomainPlan) -> [u32; 5] {
    let Topology { sockets, dies, clusters, cores, threads } = planned.guest.topology.unwrap();
    [sockets, dies, clusters, cores, threads]
}

fn cells(guest: &GuestHardware) -> Vec<(String, u64, Vec<u32>, String)> {
    let cell = |cell: &crate::domain::Cell| {
        (cell.vcpus.to_string(), cell.memory_kib >> 20, cell.distances.clone(), cell.host_nodes.to_string())
    };
    guest.cells.iter().map(cell).collect()
}

#[test]
fn guest_on_all_nodes_mirrors_the_host() {
    let planned = planned(&domain(32, ""), &machine(2, 2, 2, 2, 2), "close");
    assert_eq!(topology(&planned), [2, 2, 1, 4, 2]);
    let pins: Vec<String> = planned.guest.pins.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(pins, (0..32).map(|cpu| cpu.to_string()).collect::<Vec<_>>());
    assert_eq!(
        cells(&planned.guest),
        [
            ("0-7".to_owned(), 2, vec![10, 12, 32, 32], "0".to_owned()),
            ("8-15".to_owned(), 2, vec![12, 10, 32, 32], "1".to_owned()),
            ("16-23".to_owned(), 2, vec![32, 32, 10, 12], "2".to_owned()),
            ("24-31".to_owned(), 2, vec![32, 32, 12, 10], "3".to_owned()),
        ]
    );
    assert!(planned.guest.cache_passthrough && planned.xml.contains("<cpu mode='host-passthrough'"));
    assert_eq!(planned.guest.caches.len(), 1);
    assert_eq!(planned.guest.emulator, Some((0..32).collect()));
}

#[test]
fn siblings_on_amd_need_a_feature_that_qemu_leaves_out() {
    let mut amd = machine(1, 2, 1, 4, 2);
    amd.system.cpu_flags = vec!["topoext".to_owned()];
    let planned_amd = planned(&domain(8, ""), &amd, "close");
    assert!(planned_amd.xml.contains("<feature policy='require' name='topoext'/>"), "{}", planned_amd.xml);
    assert_eq!(planned(&planned_amd.xml, &amd, "close").xml, planned_amd.xml);
    assert!(!planned(&domain(8, ""), &machine(1, 2, 1, 4, 2), "close").xml.contains("topoext"));
}

#[test]
fn a_spread_guest_counts_its_cpus_node_by_node() {
    let planned = planned(&domain(8, ""), &machine(2, 1, 2, 2, 2), "spread");
    let pins: Vec<String> = planned.guest.pins.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(pins, ["0", "2", "4", "6", "8", "10", "12", "14"]);
    assert_eq!(topology(&planned), [2, 1, 1, 4, 1]);
    let vcpus: Vec<String> = planned.guest.cells.iter().map(|cell| cell.vcpus.to_string()).collect();
    assert_eq!(vcpus, ["0-3", "4-7"]);
}

#[test]
fn groups_never_lie_in_two_of_the_host() {
    // Seven virtual CPUs take three of a node's four cores, and one thread of the fourth.
    for (vcpus, wanted) in
        [(7, [1, 1, 1, 7, 1]), (6, [1, 1, 1, 3, 2]), (12, [3, 1, 1, 2, 2]), (1, [1, 1, 1, 1, 1])]
    {
        let planned = planned(&domain(vcpus, ""), &machine(2, 1, 2, 2, 2), "close");
        assert_eq!(topology(&planned), wanted, "{vcpus}");
        assert_eq!(topology(&planned).iter().product::<u32>(), vcpus);
    }
}

#[test]
fn clusters_need_qemu_support() {
    let arm = domain(16, "").replace("arch='x86_64' machine='q35'", "arch='aarch64' machine='virt'");
    let machine = machine(2, 1, 2, 4, 1);
    let with =
        |qemu: Option<Version>| plan(&arm, &machine, &PlanRequest { qemu, ..request("close") }).unwrap();
    let supported = with(Some(Version(6, 2, 0)));
    assert_eq!(topology(&supported), [2, 1, 2, 4, 1]);
    assert!(!supported.notes.iter().any(|note| note.text.contains("cluster")));
    for (qemu, why, remedy) in [
        (Some(Version(6, 1, 9)), "QEMU 6.1.9 does not support clusters", None),
        (None, "QEMU's version is unknown", Some(Remedy::QemuVersion)),
    ] {
        let left_out = with(qemu);
        assert_eq!(topology(&left_out), [2, 1, 1, 8, 1]);
        let is_note = |note: &PlanNote| note.text.contains(why) && note.remedy == remedy;
        assert!(left_out.notes.iter().any(is_note), "{:?}", left_out.notes);
    }
    let x86 = plan(&domain(16, ""), &machine, &request("close")).unwrap();
    assert!(x86.notes.iter().any(|note| note.text.contains("modules")), "{:?}", x86.notes);
}

#[test]
fn clusters_need_libvirt_support() {
    let arm = domain(16, "").replace("arch='x86_64' machine='q35'", "arch='aarch64' machine='virt'");
    let machine = machine(2, 1, 2, 4, 1);
    // Debian 12 has QEMU 7.2 and libvirt 9.0.
    let with = |text: &str, libvirt: Option<Version>, dialect: LibvirtDialect| {
        plan(
            text,
            &machine,
            &PlanRequest { qemu: Some(Version(7, 2, 0)), libvirt, dialect, ..request("close") },
        )
        .unwrap()
    };
    for (libvirt, why) in [
        (Some(Version(9, 0, 0)), "libvirt 9.0.0 does not support them"),
        (None, "libvirt's version is unknown"),
    ] {
        let left_out = with(&arm, libvirt, LibvirtDialect::Upstream);
        assert_eq!(topology(&left_out), [2, 1, 1, 8, 1]);
        assert!(!left_out.xml.contains("clusters="), "{}", left_out.xml);
        let is_note =
            |note: &PlanNote| note.text.contains(why) && note.remedy == Some(Remedy::LibvirtVersion);
        assert!(left_out.notes.iter().any(is_note), "{:?}", left_out.notes);
    }
    let supported = with(&arm, Some(Version(10, 1, 0)), LibvirtDialect::Upstream);
    assert_eq!(topology(&supported), [2, 1, 2, 4, 1]);
    assert_eq!(topology(&with(&arm, Some(Version(9, 10, 0)), LibvirtDialect::OpenEuler)), [2, 1, 2, 4, 1]);
    // A libvirt that printed the attribute supports it.
    assert_eq!(topology(&with(&supported.xml, None, LibvirtDialect::Upstream)), [2, 1, 2, 4, 1]);
}

#[test]
fn node_wide_pins_stay_in_their_cell() {
    let planned = planned(&domain(6, ""), &machine(2, 1, 2, 2, 2), "spread@node");
    assert_eq!(planned.guest.pins[0].as_ref().unwrap().to_string(), "0-7");
    assert_eq!(planned.guest.cells.len(), 2);
    assert_eq!(topology(&planned), [2, 1, 1, 3, 1]);
    let free = super::planned(&domain(6, ""), &machine(2, 1, 2, 2, 2), "free");
    assert!(free.guest.cells.is_empty() && !free.xml.contains("numatune"), "{}", free.xml);
    assert!(free.notes.iter().any(|note| note.text.contains("use several nodes")));
}

#[test]
fn the_reserve_is_for_the_emulator_and_io_threads() {
    let text = domain(4, "").replace(
        "  <os>",
        "  <iothreads>2</iothreads>\n  <iothreadids><iothread id='7'/></iothreadids>\n  <os>",
    );
    let request = PlanRequest { reserve: "cpus=0-1".parse().unwrap(), ..request("close") };
    let guest = plan(&text, &machine(2, 1, 2, 2, 2), &request).unwrap().guest;
    assert_eq!(guest.emulator.unwrap().to_string(), "0-1");
    assert_eq!(guest.iothreads.keys().copied().collect::<Vec<_>>(), [1, 7]);
    assert!(guest.iothreads.values().all(|cpus| cpus.to_string() == "0-1"));
    assert!(guest.pins.iter().flatten().all(|cpus| cpus.first() > Some(1)));
}

/// Regression test: 16 virtual CPUs on 14 of one cache and 2 of another were 8 dies of one core.
#[test]
fn a_level_without_even_groups_is_left_out_with_a_note() {
    // Two caches of eight cores with two threads, in one node.
    let host = MachineSpec { caches: 2, cores: 8, threads: 2, ..MachineSpec::default() };
    let host = manycore_topology::read(&SysTree::from_capture(host.capture())).unwrap();
    let shape = |vcpus: u32, policy: &str| {
        let planned = planned(&domain(vcpus, ""), &host, policy);
        (topology(&planned), texts(&planned.notes))
    };
    let (even, said) = shape(16, "close");
    assert_eq!(even, [1, 1, 1, 8, 2]);
    assert!(!said.contains("not distributed evenly"), "{said}");
    let (two, said) = shape(32, "close");
    assert_eq!(two, [1, 2, 1, 8, 2]);
    assert!(!said.contains("not distributed evenly"), "{said}");
    // 16 and 4 of two caches.
    let (uneven, said) = shape(20, "close");
    assert_eq!(uneven, [1, 1, 1, 10, 2]);
    assert!(said.contains("does not see the host's last-level caches"), "{said}");
    let (odd, said) = shape(7, "close");
    assert_eq!(odd, [1, 1, 1, 7, 1]);
    assert!(said.contains("does not see the host's SMT siblings"), "{said}");
}

/// Regression test: on a host with one node, the emulator got the CPUs of the virtual CPUs, also isolated ones.
#[test]
fn the_emulator_runs_beside_the_virtual_cpus() {
    let emulator = |machine: &Machine, policy: &str, vcpus: u32| {
        planned(&domain(vcpus, ""), machine, policy).guest.emulator.unwrap().to_string()
    };
    let (one, two) = (machine(1, 1, 1, 4, 2), machine(2, 1, 1, 4, 2));
    assert_eq!(emulator(&one, "close", 4), "4-7");
    // The rest of the node that it runs on, not of all nodes.
    assert_eq!(emulator(&two, "close", 4), "4-7");
    assert_eq!(emulator(&two, "close", 8), "8-15");
    assert_eq!(emulator(&two, "close", 16), "0-15");
    let isolated = Machine { isolated: "2-3,6-7".parse().unwrap(), ..one };
    assert_eq!(emulator(&isolated, "cpus=2,3", 2), "0-1,4-5");
}

/// Regression test: it was replaced without a word.
#[test]
fn cpus_that_the_xml_gives_the_emulator_are_kept_if_no_virtual_cpu_runs_there() {
    let with = |cpus: &str| {
        let tune = format!(
            "<cputune><emulatorpin cpuset='{cpus}'/><iothreadpin iothread='1' cpuset='15'/></cputune>"
        );
        domain(4, "").replace("  <os>", &format!("  <iothreads>1</iothreads>\n  {tune}\n  <os>"))
    };
    let machine = machine(2, 1, 1, 4, 2);
    let run = |text: &str, request: &PlanRequest| plan(text, &machine, request).unwrap();
    let kept = run(&with("14"), &request("close"));
    assert_eq!(kept.guest.emulator.as_ref().unwrap().to_string(), "14");
    assert_eq!(kept.guest.iothreads[&1].to_string(), "15");
    let said = texts(&kept.notes);
    assert!(said.contains("the emulator stays on CPU 14, as the XML says"), "{said}");
    assert!(said.contains("I/O thread 1 stays on CPU 15, as the XML says"), "{said}");
    for (own, why) in [("0", "virtual CPUs run on"), ("14,99", "not all that the XML gives it are online")] {
        let moved = run(&with(own), &request("close"));
        assert_eq!(moved.guest.emulator.as_ref().unwrap().to_string(), "4-7");
        let said = texts(&moved.notes);
        assert!(said.contains(&format!("{own} to 4-7: {why}")), "{said}");
    }
    let reserve = PlanRequest { reserve: "cpus=8".parse().unwrap(), ..request("close") };
    let moved = run(&with("14"), &reserve);
    assert_eq!(moved.guest.emulator.as_ref().unwrap().to_string(), "8");
    assert!(texts(&moved.notes).contains("the emulator moves from CPU 14 to 8: they are reserved for it"));
    // Planned again, nothing changes.
    assert_eq!(run(&kept.xml, &request("close")).xml, kept.xml);
}

#[test]
fn each_device_is_behind_the_expander_of_its_own_node() {
    let devices: String = [3, 0, 1, 0, 2].into_iter().map(hostdev).collect();
    let planned = planned(&domain(32, &devices), &machine(2, 2, 1, 4, 2), "close");
    let nodes: Vec<Option<u32>> = planned.guest.devices.iter().map(|device| device.node).collect();
    assert_eq!(nodes, [Some(3), Some(0), Some(1), Some(0), Some(2)]);
    assert_eq!(planned.guest.devices[0].id.as_deref(), Some("8086:0003"));
    let mut buses: Vec<(u32, u32)> = planned
        .guest
        .expanders
        .iter()
        .map(|expander| (expander.bus.unwrap(), expander.last_bus.unwrap()))
        .collect();
    buses.sort_unstable();
    assert_eq!(buses.len(), 4);
    assert!(buses.windows(2).all(|pair| pair[0].1 < pair[1].0), "{buses:?}");
    assert_eq!(planned.notes.len(), 1, "{:?}", planned.notes);
    assert!(planned.notes[0].text.contains("gets the mode host-passthrough"), "{:?}", planned.notes);
}

#[test]
fn functions_of_one_slot_stay_together() {
    let at = |function: u32| {
        hostdev(1).replace(
            "    </hostdev>",
            &format!(
                "      <address type='pci' domain='0x0000' bus='0x03' slot='0x04' function='{function:#x}'{}/>\n    </hostdev>",
                if function == 0 { " multifunction='on'" } else { "" }
            ),
        )
    };
    let text = domain(16, &(at(0) + &at(1)));
    let planned = planned(&text, &machine(2, 1, 2, 2, 2), "close");
    assert_eq!(planned.xml.matches("pcie-root-port").count(), 1);
    assert!(
        planned.xml.contains("bus='0x02' slot='0x00' function='0x0' multifunction='on'"),
        "{}",
        planned.xml
    );
    assert!(planned.xml.contains("bus='0x02' slot='0x00' function='0x1'"), "{}", planned.xml);
}

#[test]
fn unplaceable_devices_are_noted() {
    let mut machine = machine(2, 1, 2, 2, 2);
    machine.devices[1].node = None;
    let unknown = hostdev(1) + &hostdev(0x20);
    let planned_all = planned(&domain(16, &unknown), &machine, "close");
    assert!(planned_all.guest.expanders.is_empty());
    let reported = texts(&planned_all.notes);
    assert!(
        reported.contains("0000:11:00.0 is not moved: the host's firmware reports no node"),
        "{reported}"
    );
    assert!(reported.contains("0000:30:00.0 is not moved: the machine has no such device"), "{reported}");
    let elsewhere = planned(&domain(2, &hostdev(0)), &machine, "cpus=8-9");
    let reported = texts(&elsewhere.notes);
    assert!(reported.contains("it is on node 0 of the host, where no virtual CPU runs"), "{reported}");
    let pc = domain(16, &hostdev(0)).replace("q35", "pc-i440fx-7.2");
    assert!(
        planned(&pc, &machine, "close").notes.iter().any(|note| note.text.contains("has no PCI express"))
    );
}

#[test]
fn openeuler_takes_the_node_in_the_device() {
    let request = PlanRequest {
        dialect: LibvirtDialect::OpenEuler,
        tune: TuneRequest {
            bandwidth: Some(60),
            min_bandwidth: Some(10),
            hardlimit: Some(false),
            priority: Some(2),
            cache: Vec::new(),
        },
        ..request("close")
    };
    let devices = hostdev(1) + &hostdev(0);
    let planned = plan(&domain(16, &devices), &machine(2, 1, 2, 2, 2), &request).unwrap();
    assert!(planned.guest.expanders.is_empty() && !planned.xml.contains("pcie-expander-bus"));
    let nodes: Vec<Option<u32>> = planned.guest.devices.iter().map(|device| device.node).collect();
    assert_eq!(nodes, [Some(1), Some(0)]);
    assert!(planned.xml.contains("      <numa node='1'/>\n    </hostdev>"), "{}", planned.xml);
    let memory = "    <memorytune vcpus='0-15'>\n      \
                  <node id='0' bandwidth='60' min_bandwidth='10' hardlimit='0' priority='2'/>\n      \
                  <node id='2' bandwidth='60' min_bandwidth='10' hardlimit='0' priority='2'/>\n    </memorytune>\n";
    assert!(planned.xml.contains(memory), "{}", planned.xml);
}

#[test]
fn openeuler_limits_bandwidth_by_node_on_arm() {
    let arm = domain(16, "").replace("arch='x86_64' machine='q35'", "arch='aarch64' machine='virt'");
    let mut kunpeng = machine(2, 1, 2, 4, 1);
    kunpeng.caches.iter_mut().zip([1, 122]).for_each(|(cache, id)| cache.id = Some(id));
    let with = |machine: &Machine, dialect: LibvirtDialect, cache: &[&str]| {
        let cache = cache.iter().map(|part| part.parse().unwrap()).collect();
        let tune = TuneRequest { bandwidth: Some(60), cache, ..TuneRequest::default() };
        plan(&arm, machine, &PlanRequest { dialect, tune, ..request("close") }).unwrap().xml
    };
    let both = with(&kunpeng, LibvirtDialect::OpenEuler, &["l3=50%"]);
    let nodes = "<node id='0' bandwidth='60'/>\n      <node id='1' bandwidth='60'/>";
    assert!(both.contains(nodes) && both.contains("<cache id='122' "), "{both}");
    // The upstream kernel numbers bandwidth domains like the caches.
    assert!(with(&kunpeng, LibvirtDialect::Upstream, &[]).contains("<node id='122' bandwidth='60'/>"));
    kunpeng.caches.clear();
    assert!(with(&kunpeng, LibvirtDialect::OpenEuler, &[]).contains(nodes), "nodes need no L3");
}

#[test]
fn parts_of_caches_are_whole_ways() {
    let tune = |parts: &[&str]| TuneRequest {
        cache: parts.iter().map(|part| part.parse().unwrap()).collect(),
        ..TuneRequest::default()
    };
    let machine = machine(2, 1, 2, 2, 2);
    let with = |parts: &[&str]| {
        plan(&domain(4, ""), &machine, &PlanRequest { tune: tune(parts), ..request("close") })
    };
    let planned = with(&["l3=30%"]).unwrap();
    // Four of sixteen ways of 2 MiB each. The cache id is that of the kernel.
    assert!(
        planned.xml.contains("<cache id='0' level='3' type='both' size='8192' unit='KiB'/>"),
        "{}",
        planned.xml
    );
    let divided = with(&["l3code=1ways", "l3data=4MiB"]).unwrap().xml;
    assert!(divided.contains("type='code' size='2048'") && divided.contains("type='data' size='4096'"));
    for (parts, why) in [
        (&["l3=3MiB"][..], "The next smaller size is 2048 KiB"),
        (&["l3=17ways"], "17 ways were requested, but the L3 cache has 16"),
        (&["l3=1ways", "l3code=1ways"], "or l3code and l3data"),
    ] {
        let reported = with(parts).unwrap_err().to_string();
        assert!(reported.contains(why), "{reported}");
    }
}

#[test]
fn memory_is_split_into_whole_huge_pages() {
    let text = domain(12, "").replace(
        "  <os>",
        "  <memoryBacking><hugepages><page size='1' unit='GiB'/></hugepages></memoryBacking>\n  <os>",
    );
    let planned = planned(&text, &machine(2, 1, 2, 2, 2), "close");
    let memory: Vec<u64> = planned.guest.cells.iter().map(|cell| cell.memory_kib >> 20).collect();
    assert_eq!(memory, [5, 3], "8 GiB by 8 and 4 virtual CPUs");
}

#[test]
fn cells_keep_their_memory_where_their_virtual_cpus_stay() {
    let numa = "  <cpu mode='host-passthrough'>\n    <numa>\n      \
                <cell id='0' cpus='0-7' memory='1' unit='GiB' memAccess='shared'/>\n      \
                <cell id='1' cpus='8-15' memory='7' unit='GiB'/>\n    </numa>\n  </cpu>\n";
    let text = domain(16, "").replace("  <devices>", &format!("{numa}  <devices>"));
    let first = planned(&text, &machine(2, 1, 2, 2, 2), "close");
    assert!(
        first.xml.contains("<cell id='0' cpus='0-7' memory='1' unit='GiB' memAccess='shared'>"),
        "{}",
        first.xml
    );
    // Each cell has other virtual CPUs: memory by their numbers.
    let text = text.replace("'0-7'", "'0-3'").replace("8-15", "4-15");
    let anew = planned(&text, &machine(2, 1, 2, 2, 2), "close");
    assert!(
        anew.xml.contains("<cell id='0' cpus='0-7' memory='4194304' unit='KiB' memAccess='shared'>"),
        "{}",
        anew.xml
    );
    assert!(
        anew.notes.iter().any(|note| note.text.contains("4 GiB + 4 GiB; before: 1 GiB + 7 GiB")),
        "{:?}",
        anew.notes
    );
    // One host node: one cell with all the memory.
    let one = planned(&text.replace(">16<", ">8<").replace("4-15", "4-7"), &machine(2, 1, 2, 2, 2), "close");
    assert!(
        one.xml.contains("<cell id='0' cpus='0-7' memory='8388608' unit='KiB' memAccess='shared'/>"),
        "{}",
        one.xml
    );
}

#[test]
fn the_largest_domain_is_planned() {
    let machine = machine(8, 4, 16, 4, 2);
    let text = domain(MAX_VCPUS, "").replace(">8<", ">512<");
    let planned = planned(&text, &machine, "close");
    assert_eq!((planned.guest.cells.len(), planned.guest.pins.len()), (32, 4096));
}

#[test]
fn a_comment_inside_the_number_of_virtual_cpus_does_not_end_it() {
    let text = domain(4, "").replace(">4<", ">1<!-- x -->6<");
    assert_eq!(planned(&text, &machine(2, 1, 2, 2, 2), "close").guest.pins.len(), 16);
}
