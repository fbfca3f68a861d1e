//! The whole machine, put together from its parts.

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
use crate::{read::cpuinfo::CpuInfo, tree::Tree};

/// Why a tree does not describe a machine.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There are no CPUs in it.
    #[error(
        "{root} has no CPUs in sys/devices/system/cpu; give the root of a copied sysfs and procfs, or a file that 'manycore topo --save' wrote"
    )]
    NoCpus {
        /// The root folder or capture.
        root: String,
    },
    /// A file holds something else than the kernel writes there.
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
/// The tree has no CPUs, or one of its CPU lists is malformed. Anything else that is missing or makes no
/// sense is left out of the result.
pub fn read(tree: &Tree) -> Result<Machine, ReadError> {
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
