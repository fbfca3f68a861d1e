//! Planning of a domain with facts of the running system: versions of the installed programs, available memory, and the
//! unit of bandwidth limits.

use crate::{
    domain::{self, AvailableMemory, BandwidthUnit, DomainPlan, PlanRequest, Version},
    error::{Error, PlanError},
    libvirt,
};
use manycore_linux::resctrl::{self, Files, dialect::ValueRange};
use manycore_topology::{Machine, SysTree};
use std::path::Path;

/// The system that a plan is for.
#[derive(Clone, Copy, Debug)]
pub struct PlanTarget<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Root directory of the machine's `/proc` and `/sys`; absent for a saved machine, whose available memory is
    /// unknown.
    pub root: Option<&'a Path>,
    /// Whether it is the machine on which this program runs.
    pub is_this_machine: bool,
}

/// Plans a domain. Values that the request leaves open (the versions of QEMU and libvirt, the available memory, the
/// unit of bandwidth limits) are read from the running system.
///
/// # Errors
/// [`Error::Plan`] if the XML cannot be planned for the machine; [`Error::System`] if the root directory does not
/// exist.
pub fn plan(xml: &str, target: PlanTarget, request: PlanRequest) -> Result<DomainPlan, Error> {
    let arch = domain::architecture(xml).map_err(PlanError::from)?;
    let request = PlanRequest {
        qemu: request.qemu.or_else(|| installed_qemu(arch.as_deref(), target.machine)),
        libvirt: request.libvirt.or_else(libvirt::libvirt_version),
        bandwidth_unit: if target.is_this_machine { bandwidth_unit() } else { None },
        available: available_memory(target.root)?,
        ..request
    };
    Ok(domain::plan(xml, target.machine, &request)?)
}

fn available_memory(root: Option<&Path>) -> Result<AvailableMemory, Error> {
    match root {
        Some(root) => Ok(libvirt::available_memory(&SysTree::open(root)?)),
        None => Ok(AvailableMemory::default()),
    }
}

fn installed_qemu(arch: Option<&str>, machine: &Machine) -> Option<Version> {
    let arch = arch.or(machine.system.architecture.as_deref())?;
    // The architecture becomes part of a program's name.
    let is_plain = arch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { libvirt::qemu_version(arch) } else { None }
}

/// Returns the unit in which the mounted resctrl of this system takes bandwidth limits.
fn bandwidth_unit() -> Option<BandwidthUnit> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    let files = Files::open(&tree, &resctrl::find(&tree, None).ok()?).ok()?;
    match files.capabilities().control("MB")?.bounds {
        _ if files.capabilities().megabytes => Some(BandwidthUnit::Megabytes),
        ValueRange::Number { minimum, step, .. } => Some(BandwidthUnit::Percent { minimum, step }),
        ValueRange::Mask { .. } => None,
    }
}
