//! Where the memory of processes is, seen from the CPUs on which they ran.

use super::Picture;
use manycore_topology::{CpuSet, Level};
use std::collections::BTreeMap;

/// Returns the share of memory on other nodes than `used`; `None` without memory.
pub(crate) fn remote(node_kib: &BTreeMap<u32, u64>, used: &CpuSet) -> Option<f64> {
    let all: u64 = node_kib.values().sum();
    let remote: u64 = node_kib.iter().filter(|(node, _)| !used.contains(**node)).map(|(_, kib)| kib).sum();
    (all > 0).then(|| remote as f64 / all as f64)
}

impl Picture {
    /// Returns the nodes of the last CPUs of a process's threads: of those that ran, if any did.
    pub(crate) fn nodes_of(&self, pid: u32) -> CpuSet {
        let node_of = |cpu: u32| self.units_of(Level::Node).find(|node| node.cpus.contains(cpu));
        let first = self.tasks.partition_point(|task| task.id.pid < pid);
        let threads = || self.tasks[first..].iter().take_while(|task| task.id.pid == pid);
        let has_run = threads().any(|task| task.run > 0.0);
        let chosen = threads().filter(|task| task.run > 0.0 || !has_run);
        chosen.filter_map(|task| node_of(task.cpu)).map(|node| node.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_remote_to_the_nodes_of_the_last_cpus() {
        let kib = BTreeMap::from([(0, 1 << 20), (1, 3 << 20)]);
        assert_eq!(remote(&kib, &CpuSet::single(1)), Some(0.25));
        assert_eq!(remote(&kib, &CpuSet::default()), Some(1.0));
        assert_eq!(remote(&BTreeMap::new(), &CpuSet::single(1)), None);
    }
}
