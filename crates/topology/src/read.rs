//! Reads the description of the whole machine.

pub mod allowed;
pub mod caches;
pub mod cpuinfo;
pub mod cpus;
pub mod devices;
pub mod kinds;
pub mod nodes;
pub mod pci;
pub mod system;

use crate::machine::{MACHINE_SCHEMA, Machine};
use crate::{read::cpuinfo::CpuInfo, sys_tree::SysTree};

/// Reasons why a tree does not describe a machine.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The tree has no CPUs.
    #[error(
        "{root} has no CPUs in sys/devices/system/cpu; pass the root of a copied sysfs and procfs, or a file written by 'manycore topo --save'"
    )]
    NoCpus {
        /// The root folder or the capture.
        root: String,
    },
    /// A file has contents that the kernel does not write.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file, below its root or in its capture.
        file: String,
        /// What was found and what was expected.
        problem: String,
    },
}

/// Reads the machine of a tree.
///
/// # Errors
/// The tree has no CPUs, or one of its CPU lists is malformed. Anything else that is missing or malformed
/// is left out of the result.
pub fn read(tree: &SysTree) -> Result<Machine, ReadError> {
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
