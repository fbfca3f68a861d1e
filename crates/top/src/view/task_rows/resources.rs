//! What processes use beside CPU time: memory by node, pressure of their control groups, memory bandwidth.

use crate::{
    details::{Pressure, ProcessDetails},
    picture::{BandwidthUse, Picture, remote},
};
use manycore_text::units;
use std::{cmp::Reverse, collections::BTreeMap};

/// The resources of one process, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(in crate::view) struct ProcessResources {
    /// The last part of the path of its control group of version 2; all of it is in the details.
    pub group: Option<String>,
    /// Shares of the last 10 s in percent in which a task of its control group waited for CPUs, memory and disks.
    pub pressure: [Option<f64>; 3],
    /// Memory in KiB by node.
    pub node_kib: BTreeMap<u32, u64>,
    /// Share of its memory on other nodes than those where it ran last.
    pub remote: Option<f64>,
    /// Bytes per second to and from memory, of its group of resctrl.
    pub bandwidth: Option<f64>,
    /// Bytes of the cache that hold data of that group.
    pub cache_bytes: Option<u64>,
}

impl ProcessResources {
    /// Returns those of all processes of which a picture has details.
    pub fn of(picture: &Picture) -> BTreeMap<u32, Self> {
        let one = |(pid, details): &(u32, ProcessDetails)| (*pid, Self::of_process(picture, *pid, details));
        picture.details.iter().map(one).collect()
    }

    fn of_process(picture: &Picture, pid: u32, details: &ProcessDetails) -> Self {
        let counted =
            || picture.bandwidth.iter().filter(|one| details.monitor.as_deref() == Some(&*one.group));
        let sum = |rates: Vec<f64>| (!rates.is_empty()).then(|| rates.iter().sum());
        let percent = |pressure: Option<Pressure>| pressure.map(|pressure| pressure.some_percent);
        let cache = counted().filter_map(|one: &BandwidthUse| one.cache_bytes).reduce(|a, b| a + b);
        let node_kib = details.node_kib.clone().unwrap_or_default();
        Self {
            group: details.cgroup.as_deref().map(last_part),
            pressure: [details.cpu, details.memory, details.io].map(percent),
            remote: remote(&node_kib, &picture.nodes_of(pid)),
            node_kib,
            bandwidth: sum(counted().filter_map(|one| one.total).collect()),
            cache_bytes: cache,
        }
    }

    /// Returns its memory by node, most first (`1:3 GiB 0:1 GiB`).
    pub fn nodes_text(&self) -> String {
        let mut nodes: Vec<(u32, u64)> = self.node_kib.iter().map(|(&node, &kib)| (node, kib)).collect();
        nodes.sort_by_key(|&(node, kib)| (Reverse(kib), node));
        let parts: Vec<String> =
            nodes.iter().map(|(node, kib)| format!("{node}:{}", units::bytes(kib << 10))).collect();
        if parts.is_empty() { "-".to_owned() } else { parts.join(" ") }
    }
}

/// Returns the last part of a path; that of the root is `/`.
fn last_part(path: &str) -> String {
    let last = path.rsplit('/').find(|part| !part.is_empty());
    last.unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_by_the_last_part_of_their_path() {
        assert_eq!(["/a/b.service", "/"].map(last_part), ["b.service", "/"]);
    }

    #[test]
    fn memory_by_node_is_named_from_the_largest_down() {
        let kib = BTreeMap::from([(0, 1 << 20), (1, 3 << 20)]);
        let one = ProcessResources { node_kib: kib, ..ProcessResources::default() };
        assert_eq!(one.nodes_text(), "1:3 GiB 0:1 GiB");
    }
}
