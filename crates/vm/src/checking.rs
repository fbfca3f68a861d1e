//! Check of a running domain against its XML or a plan.

use crate::{
    domain::{
        self, GuestHardware,
        check::{CheckReport, check_running},
    },
    error::Error,
    libvirt,
};
use manycore_linux::{
    targets::TargetError,
    vms::{DomainIdentity, ReadOptions, RunningDomains},
};
use manycore_topology::{Machine, SysTree};
use std::path::Path;

/// Options of [`check_domain`].
#[derive(Clone, Debug)]
pub struct CheckOptions<'a> {
    /// Name, id or UUID of the running domain.
    pub domain: &'a str,
    /// The expected hardware; if absent, that of the domain's own XML, which libvirt has.
    pub plan: Option<GuestHardware>,
    /// Connection URI of libvirt; if absent, virsh's default.
    pub connect: Option<&'a str>,
}

/// Result of the check of a running domain.
#[derive(Clone, Debug)]
pub struct DomainCheck {
    /// The compared properties.
    pub report: CheckReport,
    /// Process id of the emulator whose memory should have been compared but cannot be read; absent if the check is
    /// complete.
    pub unreadable_memory: Option<u32>,
}

/// Compares a domain that runs on this host with its XML or a plan for it.
///
/// # Errors
/// [`Error::Virsh`] and [`Error::Xml`] if there is no plan and libvirt has no usable XML; [`Error::NotRunning`] if no
/// such domain runs; [`Error::UnnamedThreads`] if its virtual CPUs cannot be identified.
pub fn check_domain(options: CheckOptions, machine: &Machine) -> Result<DomainCheck, Error> {
    let name = options.domain;
    let (guest, uuid) = match options.plan {
        Some(plan) => (plan, None),
        None => xml_of_libvirt(name, options.connect)?,
    };
    let identity = find(name, uuid.as_deref())?;
    let running = libvirt::running_domain(identity.pid)
        .ok_or_else(|| Error::UnnamedThreads { name: name.to_owned(), pid: identity.pid })?;
    let guest = GuestHardware { name: identity.name, ..guest };
    let is_unreadable = guest.has_bound_memory() && running.memory.is_none();
    Ok(DomainCheck {
        report: check_running(&guest, &running, machine),
        unreadable_memory: is_unreadable.then_some(running.pid),
    })
}

/// Finds the running domain by its UUID if libvirt has one for it, or else by the name that the user gave.
fn find(name: &str, uuid: Option<&str>) -> Result<DomainIdentity, Error> {
    let tree = SysTree::open(Path::new("/"))?;
    let domains = RunningDomains::new(&tree, ReadOptions::default());
    domains.find(uuid.unwrap_or(name)).map_err(|error| {
        // The message names the domain as the user did, not by the UUID that libvirt has for it.
        let error = match error {
            TargetError::NotFound { what, near, .. } => {
                TargetError::NotFound { what, name: name.to_owned(), near }
            }
            other => other,
        };
        Error::NotRunning { name: name.to_owned(), error }
    })
}

/// Returns the hardware in the XML that libvirt has for a domain, and the domain's UUID.
fn xml_of_libvirt(name: &str, connect: Option<&str>) -> Result<(GuestHardware, Option<String>), Error> {
    let xml = libvirt::dumpxml(connect, name)?;
    let unusable = |error| Error::Xml { name: name.to_owned(), error };
    Ok((xml.parse().map_err(unusable)?, domain::uuid(&xml).map_err(unusable)?))
}
