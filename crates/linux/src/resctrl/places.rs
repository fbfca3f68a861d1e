//! Returns the CPUs of the NUMA nodes and caches that the numbers of domains refer to.

use crate::resctrl::domains::Places;
use manycore_topology::CpuSet;
use manycore_topology::sys_tree::SysTree;
use std::collections::BTreeMap;

/// Reads the CPUs of nodes (`/sys/devices/system/node`) and caches
/// (`cpuN/cache/indexM/{id,level,shared_cpu_list}`). Those that the kernel does not report are left out.
pub fn places(system: &SysTree) -> Places {
    let folder = "sys/devices/system/node";
    let list = |path: String| system.cpu_list(&path).ok().flatten().unwrap_or_default();
    let node = |node| (node, list(format!("{folder}/node{node}/cpulist")));
    let nodes = system.numbered(folder, "node").iter().map(node).collect();
    let mut caches: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
    let folder = "sys/devices/system/cpu";
    for cpu in system.numbered(folder, "cpu").iter() {
        if caches.iter().any(|((level, _), cpus)| *level == 3 && cpus.contains(cpu))
            && caches.iter().any(|((level, _), cpus)| *level == 2 && cpus.contains(cpu))
        {
            continue;
        }
        let cache = format!("{folder}/cpu{cpu}/cache");
        for index in system.numbered(&cache, "index").iter() {
            let number = |file: &str| system.number::<u32>(&format!("{cache}/index{index}/{file}"));
            if let (Some(level), Some(id)) = (number("level").filter(|level| *level > 1), number("id")) {
                let cpus = list(format!("{cache}/index{index}/shared_cpu_list"));
                caches.entry((level, id)).or_insert(cpus);
            }
        }
    }
    Places { nodes, caches }
}
