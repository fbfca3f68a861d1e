//! Reads the description of the whole machine.

mod allowed;
mod caches;
mod cpuinfo;
mod cpus;
mod devices;
mod kinds;
mod modules;
mod nodes;
mod pci;
mod smbios;
mod system;

use crate::{
    Error,
    machine::{MACHINE_SCHEMA, Machine},
    read::cpuinfo::CpuInfo,
    sys_tree::SysTree,
};

/// Reads the machine of a tree.
///
/// # Errors
/// The tree has no CPUs, or one of its CPU lists is malformed. Anything else that is missing or malformed
/// is left out of the result.
pub fn read(tree: &SysTree) -> Result<Machine, Error> {
    let cpuinfo = CpuInfo::read(tree);
    let cpus = cpus::read(tree, &cpuinfo)?;
    let mut caches = caches::read(tree, &cpus)?;
    let nodes = nodes::read(tree, &cpus)?;
    if cpuinfo.is_xeon_phi() {
        caches::correct_xeon_phi(&mut caches, &nodes);
    }
    let core_kinds = kinds::read(tree, &cpus)?;
    let devices = devices::read(tree, &cpus.online)?;
    let allowed = allowed::read(tree, &cpus.online)?;
    Ok(Machine {
        schema: MACHINE_SCHEMA.to_owned(),
        system: system::read(tree, &cpuinfo),
        online: cpus.online,
        offline: cpus.offline,
        isolated: cpus.isolated,
        packages: cpus.packages,
        dies: cpus.dies,
        clusters: cpus.clusters,
        cores: cpus.cores,
        caches,
        nodes,
        core_kinds,
        devices,
        allowed,
    })
}
