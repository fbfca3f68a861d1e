//! The CPUs that domains of resctrl are numbered by.

use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Which CPUs belong to what domains can be numbered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// By node.
    pub nodes: BTreeMap<u32, CpuSet>,
    /// By level and id of a cache.
    pub caches: BTreeMap<(u32, u32), CpuSet>,
}
