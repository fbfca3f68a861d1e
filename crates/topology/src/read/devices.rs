//! Reads PCI devices and the network interfaces, disks and accelerators that belong to them
//! (`/sys/bus/pci/devices`, `Documentation/ABI/testing/sysfs-bus-pci`).

use crate::{CpuSet, Error, machine::Device, read::pci, sys_tree::SysTree};
use std::collections::BTreeMap;

const PCI: &str = "sys/bus/pci/devices";
/// Folders of links to named devices. `sys/block` has whole disks without partitions.
const CLASS_FOLDERS: [&str; 5] =
    ["sys/class/net", "sys/block", "sys/class/infiniband", "sys/class/drm", "sys/class/accel"];

/// Reads all PCI devices, ordered by address.
///
/// # Errors
/// A device's CPU list is malformed.
pub fn read(tree: &SysTree, online: &CpuSet) -> Result<Vec<Device>, Error> {
    let addresses = tree.list(PCI);
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = names(tree);
    let mut devices = Vec::new();
    for address in addresses {
        let folder = format!("{PCI}/{address}");
        let Some(class) = tree.read(&format!("{folder}/class")).as_deref().and_then(pci::hexadecimal) else {
            continue;
        };
        let id = ["vendor", "device"]
            .map(|name| tree.read(&format!("{folder}/{name}")).as_deref().and_then(pci::hexadecimal));
        devices.push(Device {
            class,
            class_name: pci::class_name(class).to_owned(),
            id: if let [Some(vendor), Some(device)] = id {
                Some(format!("{vendor:04x}:{device:04x}"))
            } else {
                None
            },
            driver: tree
                .link(&format!("{folder}/driver"))
                .and_then(|link| Some(link.rsplit('/').next()?.to_owned())),
            node: tree
                .number::<i64>(&format!("{folder}/numa_node"))
                .and_then(|node| u32::try_from(node).ok()),
            cpus: local_cpus(tree, &folder)?.unwrap_or_default().intersection(online),
            names: names.remove(&address).unwrap_or_default(),
            address,
        });
    }
    Ok(devices)
}

fn local_cpus(tree: &SysTree, folder: &str) -> Result<Option<CpuSet>, Error> {
    match tree.cpu_list(&format!("{folder}/local_cpulist"))? {
        Some(cpus) => Ok(Some(cpus)),
        None => tree.cpu_mask(&format!("{folder}/local_cpus")),
    }
}

/// Returns the names by PCI address. This reads one link per name; looking into every device for every
/// class would read one folder for each.
fn names(tree: &SysTree) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for class in CLASS_FOLDERS {
        for name in tree.list(class).into_iter().filter(|name| identifies_device(name)) {
            let target = tree.link(&format!("{class}/{name}")).unwrap_or_default();
            // Before Linux 2.6.26 the name was a folder that contained a link to the device.
            let address = last_pci_address(&target).map(str::to_owned).or_else(|| {
                last_pci_address(&tree.link(&format!("{class}/{name}/device"))?).map(str::to_owned)
            });
            if let Some(address) = address {
                found.entry(address).or_default().push(name);
            }
        }
    }
    found
}

/// Returns whether a name identifies a device: `card0-HDMI-A-1` is a connector of `card0`, and `renderD128`
/// is another node of the same device.
fn identifies_device(name: &str) -> bool {
    let plug = name.starts_with("card") && name.contains('-');
    let door = name.starts_with("renderD") || name.starts_with("controlD");
    !plug && !door
}

/// Returns the last PCI address in the path of a device: `0000:00:02.0` for
/// `../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda`.
fn last_pci_address(target: &str) -> Option<&str> {
    target.rsplit('/').find(|part| pci::is_address(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;

    #[test]
    fn a_name_belongs_to_the_nearest_device() {
        let disk = "../devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(last_pci_address(disk), Some("0000:03:00.0"));
        assert_eq!(last_pci_address("../devices/virtual/block/loop0"), None);
    }

    #[test]
    fn devices_carry_driver_node_and_names() {
        let mut capture = Capture::default();
        let folder = format!("{PCI}/0000:03:00.0");
        for (name, text) in [
            ("class", "0x020000"),
            ("vendor", "0x8086"),
            ("device", "0x10fb"),
            ("numa_node", "1"),
            ("local_cpulist", "2-9"),
        ] {
            capture.add_file(&format!("{folder}/{name}"), text);
        }
        capture.add_link(&format!("{folder}/driver"), "../../../../bus/pci/drivers/ixgbe");
        capture.add_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:03:00.0/net/eth0");
        capture.add_folder(&format!("{PCI}/0000:04:00.0"));
        let devices = read(&SysTree::from_capture(capture), &"0-3".parse().unwrap()).unwrap();
        assert_eq!(
            devices,
            [Device {
                address: "0000:03:00.0".into(),
                class: 0x02_0000,
                class_name: "Ethernet controller".into(),
                id: Some("8086:10fb".into()),
                driver: Some("ixgbe".into()),
                node: Some(1),
                cpus: "2-3".parse().unwrap(),
                names: vec!["eth0".into()],
            }]
        );
    }
}
