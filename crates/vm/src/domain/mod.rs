//! Domains of libvirt: the XML that says what a virtual machine gets, and its plan for a machine.
//!
//! [`plan()`] changes the text of a domain so that its guest knows the hardware it runs on: each virtual CPU on a CPU
//! of its own, nodes and distances as on the host with memory from there, the topology, the caches, and each device that
//! is passed through on its own node. Whatever is not changed stays byte for byte: comments, order, quotes, elements
//! that this version has never heard of. [`Guest`] is what a text says that the guest gets, which [`check`] holds
//! against a running domain, and against what the guest sees.

mod address;
mod buses;
pub mod check;
mod edit;
mod guest;
mod plan;
mod read;
#[cfg(test)]
mod tests;
mod wish;

pub use address::PciAddress;
pub use guest::{
    BoundMemory, Cell, Expander, GUEST_SCHEMA, Guest, GuestCache, GuestDevice, MOST_VCPUS, Topology,
};
use manycore_linux::vms::xml;
pub use plan::{Planned, Refused, plan};
pub use wish::{CacheAmount, CacheWish, Dialect, NodeRoom, PageRoom, Room, Steps, Tune, Version, Wish};
pub use xml::{LARGEST, XmlError, decode};

impl std::str::FromStr for Guest {
    type Err = XmlError;

    /// What a domain's XML says that its guest gets.
    fn from_str(text: &str) -> Result<Self, XmlError> {
        Self::of(&xml::Xml::parse(text)?)
    }
}

/// The architecture that a domain's guest has (`<type arch=>`), where it says one.
///
/// # Errors
/// The text is no domain.
pub fn architecture(text: &str) -> Result<Option<String>, XmlError> {
    let xml = xml::Xml::parse(text)?;
    Ok(read::os_type(&xml, "arch").map(str::to_owned))
}

/// The identity of a domain (`<uuid>`), where it has one.
///
/// # Errors
/// The text is no domain.
pub fn uuid(text: &str) -> Result<Option<String>, XmlError> {
    let uuid = read::text(&xml::Xml::parse(text)?, "uuid");
    Ok(Some(uuid).filter(|uuid| !uuid.is_empty()))
}
