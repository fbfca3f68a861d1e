//! Text output of PCI devices.

use manycore_topology::{Machine, machine::Device};
use std::collections::BTreeMap;

/// Returns whether a device gets a line of its own: devices with a name (network interface, disk, card),
/// network and display controllers, accelerators and `NVMe` controllers.
pub(crate) fn is_relevant(device: &Device) -> bool {
    !device.names.is_empty()
        || matches!(device.class >> 16, 0x02 | 0x03 | 0x12)
        || device.class >> 8 == 0x0108
}

/// Returns a line such as `eth0: Ethernet controller 0000:03:00.0, ixgbe`.
pub fn line(device: &Device) -> String {
    let names =
        if device.names.is_empty() { String::new() } else { format!("{}: ", device.names.join(", ")) };
    let driver =
        device.driver.as_ref().map_or_else(|| ", no driver".to_owned(), |driver| format!(", {driver}"));
    format!("{names}{} {}{driver}", device.class_name, device.address)
}

/// Returns a sentence that counts, by class, the devices without a line of their own.
pub fn summary(machine: &Machine) -> Option<String> {
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for device in machine.devices.iter().filter(|device| !is_relevant(device)) {
        *classes.entry(&device.class_name).or_default() += 1;
    }
    let counts: Vec<String> = classes
        .iter()
        .map(|(name, count)| if *count > 1 { format!("{count} × {name}") } else { (*name).to_owned() })
        .collect();
    (!counts.is_empty()).then(|| format!("Other PCI devices: {}", counts.join(", ")))
}
