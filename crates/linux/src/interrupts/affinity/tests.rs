use super::*;
use crate::interrupts::counts;
use manycore_topology::{
    capture::Capture,
    synthetic::{
        MachineSpec,
        extras::{PciDevice, add_device},
    },
};
use proptest::prelude::*;

/// A server with a network card of eight queues and one interrupt for events, a disk whose queues the kernel
/// manages, and a card without a NUMA node on an interrupt line that it shares with a device without a name.
fn server() -> Capture {
    let mut files = MachineSpec { packages: 2, cores: 4, threads: 1, ..MachineSpec::default() }.capture();
    let device = |address, class, driver, node, name| PciDevice { address, class, driver, node, name };
    for device in [
        device("0000:03:00.0", 0x02_0000, "ixgbe", 1, "net/eth0"),
        device("0000:04:00.0", 0x01_0802, "nvme", 0, "block/nvme0n1"),
        device("0000:00:1f.3", 0x0c_0500, "i801_smbus", -1, "misc/none"),
        device("0000:05:00.0", 0x02_0000, "e1000", -1, "net/eth9"),
    ] {
        add_device(&mut files, device);
    }
    let mut text = vec!["CPU0 CPU1 CPU2 CPU3 CPU4 CPU5 CPU6 CPU7".to_owned()];
    let mut line = |irq: u32, cpu: u32, about: &str| {
        let counts: String =
            (0..8).map(|other| if other == cpu { "       100 " } else { "         0 " }).collect();
        text.push(format!("{irq:>4}: {counts} {about}"));
    };
    for queue in 0..9 {
        let irq = 60 + queue;
        let name = if queue < 8 { format!("eth0-TxRx-{queue}") } else { "eth0".to_owned() };
        line(irq, queue % 8, &format!("IR-PCI-MSIX-0000:03:00.0   {queue}-edge      {name}"));
        files.add_file(&format!("sys/bus/pci/devices/0000:03:00.0/msi_irqs/{irq}"), "msix");
        files.add_file(&format!("proc/irq/{irq}/smp_affinity_list"), "0-7");
        files.add_file(&format!("proc/irq/{irq}/effective_affinity_list"), &(queue % 8).to_string());
    }
    for queue in 0..3 {
        let irq = 80 + queue;
        line(irq, queue, &format!("IR-PCI-MSIX-0000:04:00.0   {queue}-edge      nvme0q{queue}"));
        files.add_file(&format!("sys/bus/pci/devices/0000:04:00.0/msi_irqs/{irq}"), "msix");
        files.add_file(&format!("proc/irq/{irq}/smp_affinity_list"), ["0-7", "0-3", "4-7"][queue as usize]);
        let state =
            if queue == 0 { "IRQD_ACTIVATED" } else { "IRQD_ACTIVATED\n            IRQD_AFFINITY_MANAGED" };
        files.add_file(
            &format!("sys/kernel/debug/irq/irqs/{irq}"),
            &format!("dstate:   0x1\n            {state}"),
        );
    }
    line(16, 5, "IR-IO-APIC  16-fasteoi   i801_smbus, eth9");
    for address in ["0000:00:1f.3", "0000:05:00.0"] {
        files.add_file(&format!("sys/bus/pci/devices/{address}/irq"), "16");
    }
    line(4, 0, "IR-IO-APIC   4-edge      ttyS0");
    files.add_file("proc/interrupts", &text.join("\n"));
    files
}

fn read_all(files: Capture) -> Vec<Interrupt> {
    let tree = SysTree::from_capture(files);
    let machine = manycore_topology::read(&tree).unwrap();
    read(&tree, &machine, &counts::counts(&tree).unwrap().unwrap()).unwrap()
}

#[test]
fn queues_belong_to_their_card() {
    let all = read_all(server());
    let card: Vec<&Interrupt> =
        all.iter().filter(|one| one.device.as_deref() == Some("0000:03:00.0")).collect();
    assert_eq!(card.len(), 9);
    for (queue, interrupt) in (0..).zip(&card) {
        assert_eq!((interrupt.irq, interrupt.node, interrupt.unmovable), (60 + queue, Some(1), false));
        assert_eq!(interrupt.device_names, ["eth0"]);
        assert_eq!(interrupt.allowed, "0-7".parse().ok());
        assert_eq!(interrupt.handled_on, Some(CpuSet::single(queue % 8)));
        assert_eq!(interrupt.counts, BTreeMap::from([(queue % 8, 100)]));
    }
    assert_eq!(card[3].name, "eth0-TxRx-3");
}

#[test]
fn managed_queues_are_fixed_and_the_admin_queue_is_not() {
    let all = read_all(server());
    let disk: Vec<(&str, bool)> = all
        .iter()
        .filter(|one| one.device_names == ["nvme0n1"])
        .map(|one| (one.name.as_str(), one.unmovable))
        .collect();
    assert_eq!(disk, [("nvme0q0", false), ("nvme0q1", true), ("nvme0q2", true)]);
}

#[test]
fn a_shared_line_is_the_one_with_a_name_and_a_device_may_have_no_node() {
    let all = read_all(server());
    let line = all.iter().find(|one| one.irq == 16).unwrap();
    assert_eq!((line.device.as_deref(), line.node), (Some("0000:05:00.0"), None));
    assert_eq!((line.name.as_str(), &line.allowed, &line.handled_on), ("i801_smbus, eth9", &None, &None));
    let serial = all.iter().find(|one| one.irq == 4).unwrap();
    assert_eq!((serial.device.as_deref(), serial.name.as_str()), (None, "ttyS0"));
}

#[test]
fn a_line_of_a_device_without_a_driver_is_ignored() {
    let mut files = server();
    files.add_file("sys/bus/pci/devices/0000:06:00.0/class", "0x020000");
    files.add_file("sys/bus/pci/devices/0000:06:00.0/irq", "4");
    assert_eq!(read_all(files).iter().find(|one| one.irq == 4).unwrap().device, None);
}

#[test]
fn an_affinity_is_opened_before_it_is_changed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("proc/irq/24");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("smp_affinity_list"), "0-3\n").unwrap();
    let mut affinity = Affinity::open(root.path(), 24).unwrap();
    assert_eq!((affinity.old(), affinity.path()), ("0-3", folder.join("smp_affinity_list").as_path()));
    affinity.write(&"1,3".parse().unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(affinity.path()).unwrap(), "1,3\n");
    assert!(matches!(Affinity::open(root.path(), 25), Err(AffinityError::Gone)));
}

#[test]
fn a_read_only_mode_means_unmovable() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("proc/irq/24");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("smp_affinity_list");
    std::fs::write(&path, "0-3\n").unwrap();
    let tree = SysTree::open(root.path()).unwrap();
    assert!(!read_affinity(&tree, 24).unwrap().unmovable);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    assert!(read_affinity(&tree, 24).unwrap().unmovable);
}

#[test]
fn kernel_errors_are_distinguished() {
    for (errno, words) in [
        (Errno::IO, "manages"),
        (Errno::PERM, "manages"),
        (Errno::ACCESS, "root"),
        (Errno::INVAL, "online"),
        (Errno::NOSPC, "vector"),
        (Errno::ROFS, "read-only"),
        (Errno::NODEV, "No such device"),
    ] {
        let refusal = AffinityError::from(io::Error::from(errno));
        assert!(refusal.to_string().contains(words), "{errno:?}: {refusal}");
    }
}

proptest! {
    #[test]
    fn any_file_may_hold_anything(
        path in prop::sample::select(vec![
            "proc/interrupts",
            "proc/irq/60/smp_affinity_list",
            "proc/irq/60/effective_affinity_list",
            "sys/bus/pci/devices/0000:05:00.0/irq",
            "sys/kernel/debug/irq/irqs/80",
            "sys/bus/pci/devices/0000:03:00.0/msi_irqs/-1",
        ]),
        text in "(CPU0 CPU1\n)?(\\PC|\n|,|-|:|[0-9]| ){0,80}",
    ) {
        let mut files = server();
        files.add_file(path, &text);
        let tree = SysTree::from_capture(files);
        let machine = manycore_topology::read(&tree).unwrap();
        if let Ok(Some(counts)) = counts::counts(&tree)
            && let Err(error) = read(&tree, &machine, &counts)
        {
            prop_assert!(error.to_string().contains(path), "{}", error);
        }
    }
}
