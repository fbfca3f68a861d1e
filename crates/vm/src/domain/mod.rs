//! libvirt domains: parsing of their XML, and planning of a domain for a machine.
//!
//! [`plan()`] edits the XML of a domain so that the guest sees the hardware it runs on: each virtual CPU
//! pinned to a CPU of its own, NUMA nodes with the distances of the host and memory from the host node, the
//! topology, the caches, and each passed-through device on its own NUMA node. Everything else stays byte for
//! byte: comments, order, quotes, unknown elements. [`Guest`] is the guest's hardware as an XML describes it.
//! [`check`] compares it with a running domain and with what the guest sees.

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

    /// Returns the guest's hardware as the XML of a domain describes it.
    fn from_str(text: &str) -> Result<Self, XmlError> {
        Self::of(&xml::Xml::parse(text)?)
    }
}

/// Returns the architecture of a domain's guest (`<type arch=>`), if the XML has one.
///
/// # Errors
/// [`XmlError`] if the text is not the XML of a domain.
pub fn architecture(text: &str) -> Result<Option<String>, XmlError> {
    let xml = xml::Xml::parse(text)?;
    Ok(read::os_type(&xml, "arch").map(str::to_owned))
}

/// Returns the UUID of a domain (`<uuid>`), if the XML has one.
///
/// # Errors
/// [`XmlError`] if the text is not the XML of a domain.
pub fn uuid(text: &str) -> Result<Option<String>, XmlError> {
    let uuid = read::text(&xml::Xml::parse(text)?, "uuid");
    Ok(Some(uuid).filter(|uuid| !uuid.is_empty()))
}
