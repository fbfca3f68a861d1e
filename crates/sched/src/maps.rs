//! The maps that describe the machine to the BPF programs, word by word as in `bpf/select.h`.

use crate::{error::Result, layout::Layout};
use manycore_bpf::{Loader, map::MappedArray, program::Loaded};
use manycore_topology::CpuSet;

/// Words of `struct cpu` in `bpf/select.h`.
pub mod cpu {
    pub const CLUSTER: usize = 0;
    pub const CORE: usize = 1;
    pub const MANAGED: usize = 2;
    pub const IDLE: usize = 3;
    pub const TID: usize = 4;
    pub const SINCE: usize = 7;
    pub const DIRECT: usize = 8;
    pub const QUEUED: usize = 9;
    pub const STOLEN: usize = 10;
    pub const MOVED: usize = 11;
    pub const BUSY: usize = 12;
    pub const CHOICES: usize = 13;
    pub const CHOICE: usize = 14;
    pub const WAKEUPS: usize = 15;
    pub const WAIT: usize = 16;
    pub const WAITS: usize = 17;
}

/// Words of `struct cluster` in `bpf/select.h`.
pub mod cluster {
    pub const IDLE: usize = 4;
}

/// Sets the sizes of the maps, as constants too.
pub fn declare(object: &mut Loader, layout: &Layout, possible: &CpuSet) -> Result {
    let count = possible.last().map_or(1, |last| last + 1);
    let (clusters, llcs) = (layout.clusters.len() as u32, layout.llcs.len() as u32);
    for (map, entries) in [
        ("cpus", count),
        ("cores", layout.cores.len() as u32),
        ("clusters", clusters),
        ("llcs", llcs),
        ("cpu_order", count),
        ("llc_order", llcs * llcs),
    ] {
        object.set_entries(map, entries)?;
    }
    for (constant, value) in [("cpu_count", count), ("cluster_count", clusters), ("llc_count", llcs)] {
        object.set(constant, u64::from(value));
    }
    Ok(())
}

/// Writes the layout into the maps. All CPUs are idle at first, as for the kernel: those that are not are found to be
/// busy when their next task runs.
pub fn fill(loaded: &Loaded, layout: &Layout) -> Result {
    let map = |name: &str| -> Result<MappedArray> { Ok(loaded.map(name)?.mapped()?) };
    let (cpus, cores, order) = (map("cpus")?, map("cores")?, map("cpu_order")?);
    for (index, core) in layout.cores.iter().enumerate() {
        cores.set_word(index, 0, core.len() as u64);
        cores.set_word(index, 1, core.len() as u64);
        for &number in core {
            cpus.set_word(number as usize, cpu::CORE, index as u64);
        }
    }
    let clusters = map("clusters")?;
    let mut place = 0;
    for (index, cluster) in layout.clusters.iter().enumerate() {
        let size = cluster.cpus.len() as u64;
        let words = [place as u64, size, cluster.llc as u64, u64::from(cluster.capacity), size];
        for (word, value) in words.into_iter().enumerate() {
            clusters.set_word(index, word, value);
        }
        for &number in &cluster.cpus {
            for (word, value) in [(cpu::CLUSTER, index as u64), (cpu::MANAGED, 1), (cpu::IDLE, 1)] {
                cpus.set_word(number as usize, word, value);
            }
            order.set_word(place, 0, u64::from(number));
            place += 1;
        }
    }
    let (llcs, nearest) = (map("llcs")?, map("llc_order")?);
    for (index, llc) in layout.llcs.iter().enumerate() {
        let idle: usize =
            layout.clusters[llc.first..llc.first + llc.clusters].iter().map(|one| one.cpus.len()).sum();
        for (word, value) in [llc.first, llc.clusters, idle, llc.clusters].into_iter().enumerate() {
            llcs.set_word(index, word, value as u64);
        }
        for (rank, &other) in llc.nearest.iter().enumerate() {
            nearest.set_word(index * layout.llcs.len() + rank, 0, other as u64);
        }
    }
    Ok(())
}
