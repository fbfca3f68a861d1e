//! libvirt domains: parsing of their XML, and planning of a domain for a machine.
//!
//! [`plan()`] edits the XML of a domain so that the guest sees the hardware it runs on: each virtual CPU
//! pinned to a CPU of its own, NUMA nodes with the distances of the host and memory from the host node, the
//! topology, the caches, and each passed-through device on its own NUMA node. Everything else stays byte for
//! byte: comments, order, quotes, unknown elements. [`GuestHardware`] is the guest's hardware as an XML describes it.
//! [`check`] compares it with a running domain and with what the guest sees.

mod address;
mod buses;
pub mod check;
mod edit;
mod guest;
mod plan;
mod read;
mod request;
#[cfg(test)]
mod tests;
mod xml;

pub use guest::{
    BoundMemory, Cell, ExpanderBus, GUEST_SCHEMA, GuestCache, GuestDevice, GuestHardware, MAX_VCPUS, Topology,
};
pub use plan::{DomainPlan, PrintedPlan, plan};
pub use request::{
    AvailableMemory, BandwidthUnit, CacheShare, CacheShareRequest, HugePagePool, LibvirtDialect,
    NodeAvailableMemory, PlanRequest, TuneRequest, Version,
};
pub use xml::DomainXmlError;

impl std::str::FromStr for GuestHardware {
    type Err = DomainXmlError;

    /// Returns the guest's hardware as the XML of a domain describes it.
    fn from_str(text: &str) -> Result<Self, DomainXmlError> {
        Self::from_xml(&xml::DomainXml::parse(text)?)
    }
}

/// Returns the architecture of a domain's guest (`<type arch=>`), if the XML has one.
///
/// # Errors
/// [`DomainXmlError`] if the text is not the XML of a domain.
pub fn architecture(text: &str) -> Result<Option<String>, DomainXmlError> {
    let xml = xml::DomainXml::parse(text)?;
    Ok(read::os_type(&xml, "arch").map(str::to_owned))
}

/// Returns the UUID of a domain (`<uuid>`), if the XML has one.
///
/// # Errors
/// [`DomainXmlError`] if the text is not the XML of a domain.
pub(crate) fn uuid(text: &str) -> Result<Option<String>, DomainXmlError> {
    let uuid = read::text(&xml::DomainXml::parse(text)?, "uuid");
    Ok(Some(uuid).filter(|uuid| !uuid.is_empty()))
}
