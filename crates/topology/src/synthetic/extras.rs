//! Additions to a synthetic machine: devices, limits, and files on disk.

use super::NODE;
use crate::capture::{Capture, Entry};
use std::{fs, io, path::Path};

/// A PCI device to add to a machine.
#[derive(Clone, Copy, Debug)]
pub struct PciDevice<'a> {
    /// Address, such as `0000:03:00.0`.
    pub address: &'a str,
    /// Class code.
    pub class: u32,
    /// Kernel driver.
    pub driver: &'a str,
    /// NUMA node; -1 for none.
    pub node: i32,
    /// Folder and name, such as `net/eth0` or `block/nvme0n1`.
    pub name: &'a str,
}

/// Adds a PCI device.
pub fn add_device(files: &mut Capture, device: PciDevice) {
    let folder = format!("sys/bus/pci/devices/{}", device.address);
    let local = files.file(&format!("{NODE}/node{}/cpulist", device.node)).unwrap_or_default().to_owned();
    for (name, text) in [
        ("class", format!("0x{:06x}", device.class)),
        ("vendor", "0x8086".to_owned()),
        ("device", "0x1592".to_owned()),
        ("numa_node", device.node.to_string()),
        ("local_cpulist", local),
    ] {
        files.add_file(&format!("{folder}/{name}"), &text);
    }
    files.add_link(&format!("{folder}/driver"), &format!("../../../../bus/pci/drivers/{}", device.driver));
    let (kind, name) = device.name.split_once('/').unwrap_or(("net", device.name));
    let class = if kind == "block" { "sys/block".to_owned() } else { format!("sys/class/{kind}") };
    files.add_link(
        &format!("{class}/{name}"),
        &format!("../../devices/pci0000:00/{}/{kind}/{name}", device.address),
    );
}

/// Puts this process into a control group of version 2 with these CPUs and this quota (`cpu.max`).
pub fn add_cgroup(files: &mut Capture, group: &str, cpus: &str, quota: &str) {
    files.add_file("proc/self/cgroup", &format!("0::{group}"));
    files.add_file("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw");
    files.add_file(&format!("sys/fs/cgroup{group}/cpuset.cpus.effective"), cpus);
    files.add_file(&format!("sys/fs/cgroup{group}/cpu.max"), quota);
    files.add_file("proc/self/status", &format!("Cpus_allowed_list:\t{cpus}"));
}

/// Writes a capture as files below a folder.
///
/// # Errors
/// The folder cannot be written.
pub fn write_to(capture: &Capture, root: &Path) -> io::Result<()> {
    for (path, entry) in capture.entries() {
        let place = root.join(path.trim_end_matches('/'));
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        match entry {
            Entry::Folder => fs::create_dir_all(&place)?,
            Entry::File(text) => fs::write(&place, format!("{text}\n"))?,
            Entry::Link(target) => std::os::unix::fs::symlink(target, &place)?,
        }
    }
    Ok(())
}
