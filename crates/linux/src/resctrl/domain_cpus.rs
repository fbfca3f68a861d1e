//! The CPUs of the NUMA nodes and caches that the numbers of domains refer to.

use manycore_topology::{CpuSet, sys_tree::SysTree};
use std::collections::BTreeMap;

/// The CPUs of each NUMA node and cache, to which the numbers of domains refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainCpus {
    /// CPUs by NUMA node.
    pub nodes: BTreeMap<u32, CpuSet>,
    /// CPUs by level and id of a cache.
    pub caches: BTreeMap<(u32, u32), CpuSet>,
}

/// Reads the CPUs of nodes (`/sys/devices/system/node`) and caches
/// (`cpuN/cache/indexM/{id,level,shared_cpu_list}`). Those that the kernel does not report are left out.
pub fn domain_cpus(system: &SysTree) -> DomainCpus {
    let folder = "sys/devices/system/node";
    let list = |path: String| system.cpu_list(&path).ok().flatten().unwrap_or_default();
    let node = |node| (node, list(format!("{folder}/node{node}/cpulist")));
    let nodes = system.numbered_entries(folder, "node").iter().map(node).collect();
    let mut caches: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
    let folder = "sys/devices/system/cpu";
    for cpu in system.numbered_entries(folder, "cpu").iter() {
        if caches.iter().any(|((level, _), cpus)| *level == 3 && cpus.contains(cpu))
            && caches.iter().any(|((level, _), cpus)| *level == 2 && cpus.contains(cpu))
        {
            continue;
        }
        let cache = format!("{folder}/cpu{cpu}/cache");
        for index in system.numbered_entries(&cache, "index").iter() {
            let number = |file: &str| system.number::<u32>(&format!("{cache}/index{index}/{file}"));
            if let (Some(level), Some(id)) = (number("level").filter(|level| *level > 1), number("id")) {
                let cpus = list(format!("{cache}/index{index}/shared_cpu_list"));
                caches.entry((level, id)).or_insert(cpus);
            }
        }
    }
    DomainCpus { nodes, caches }
}
