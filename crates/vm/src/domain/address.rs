//! PCI addresses, as libvirt writes them in attributes and the kernel in names.

use manycore_text::xml::{Node, is_element, number};
use std::fmt;

/// An address `domain:bus:slot.function`. In a guest's XML, the bus is the index of a controller, not the bus
/// number that the guest's firmware assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u32,
    /// Slot (device), 0 to 31.
    pub slot: u32,
    /// Function, 0 to 7.
    pub function: u32,
}

impl PciAddress {
    /// Parses `<address domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/>`. Missing attributes count as
    /// 0. Returns `None` if it is not a PCI address or has no bus.
    pub fn from_node(address: Node) -> Option<Self> {
        if address.attribute("type").is_some_and(|kind| kind != "pci") {
            return None;
        }
        let part = |name: &str, most: u64| match address.attribute(name) {
            Some(text) => number(text).filter(|value| *value <= most).map(|value| value as u32),
            None => Some(0),
        };
        address.attribute("bus")?;
        Some(Self {
            domain: part("domain", u64::from(u32::MAX))?,
            bus: part("bus", 0xffff)?,
            slot: part("slot", 31)?,
            function: part("function", 7)?,
        })
    }

    /// Returns the address of a device in the guest: the device's own `<address type='pci'>`.
    pub fn in_guest(device: Node) -> Option<Self> {
        let own = device.children().find(|node| is_element(*node, "address"))?;
        if own.attribute("type") == Some("pci") { Self::from_node(own) } else { None }
    }

    /// Returns the type of a device's own `<address>` if it is not a PCI address: `ccw`, or `unassigned` for
    /// a device that the guest does not get. Such a device cannot be placed on a PCI bus.
    pub fn non_pci_address_type<'a>(device: Node<'a, '_>) -> Option<&'a str> {
        let own = device.children().find(|node| is_element(*node, "address"))?;
        Some(own.attribute("type").unwrap_or_default()).filter(|kind| *kind != "pci")
    }

    /// Returns the address on the host of a device that is passed through: `<source><address>` of a PCI
    /// `<hostdev>` or of an `<interface type='hostdev'>`.
    pub fn on_host(device: Node) -> Option<Self> {
        let passed = match device.tag_name().name() {
            "hostdev" => {
                device.attribute("type") == Some("pci")
                    && device.attribute("mode").is_none_or(|mode| mode == "subsystem")
            }
            "interface" => device.attribute("type") == Some("hostdev"),
            _ => false,
        };
        if !passed {
            return None;
        }
        let source = device.children().find(|node| is_element(*node, "source"))?;
        Self::from_node(source.children().find(|node| is_element(*node, "address"))?)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.slot, self.function)
    }
}

impl std::str::FromStr for PciAddress {
    type Err = String;

    /// Parses the kernel's form: `0000:3b:02.1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a PCI address such as 0000:3b:02.1");
        let hex = |digits: &str| {
            let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| all).ok_or_else(bad)
        };
        let (place, function) = text.split_once('.').ok_or_else(bad)?;
        let parts: Vec<&str> = place.split(':').collect();
        let [domain, bus, slot] = parts.as_slice() else { return Err(bad()) };
        Ok(Self { domain: hex(domain)?, bus: hex(bus)?, slot: hex(slot)?, function: hex(function)? })
    }
}
