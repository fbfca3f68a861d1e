//! The CPUs that domains of resctrl are numbered by.

use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// The CPUs of each NUMA node and cache, to which the numbers of domains refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// CPUs by NUMA node.
    pub nodes: BTreeMap<u32, CpuSet>,
    /// CPUs by level and id of a cache.
    pub caches: BTreeMap<(u32, u32), CpuSet>,
}
