//! Processes that load memory, some with a limit and some without.

use crate::error::{Error, Result};
use manycore_analysis::limits::LimitCheck;
use manycore_experiment::{
    counters::CounterReader,
    engine::Subject,
    memory_loaders,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{Method, Sample, id::TIMES_CACHES},
    sampling::{SamplingMode, slices},
};
use manycore_linux::clock::now_ns;
use manycore_text::units::counted;
use manycore_topology::{CpuId, Machine, machine::Node};
use manycore_workload::stream::{Kernel, RUN_BYTES, Stores, Task, Work};
use std::{fmt, ops::Range, rc::Rc};

/// Maximum number of CPUs. More processes would use more memory without showing more.
const MAX_CPUS: usize = 16;

/// Assumed size in bytes of all last-level caches, where the kernel does not report it.
const ASSUMED_CACHES: u64 = 32 << 20;

/// The NUMA node whose memory is loaded, and the CPUs that load it.
pub(crate) struct LoadNode {
    /// Absent if the kernel has no NUMA nodes.
    pub(crate) id: Option<u32>,
    pub(crate) cpus: Vec<CpuId>,
}

impl LoadNode {
    /// Returns the requested node, or the first node with memory and usable CPUs.
    ///
    /// # Errors
    /// [`Error::Node`] if the requested node has none, [`Error::NoNode`] if no node has both.
    pub(super) fn select(machine: &Machine, requested: Option<u32>) -> Result<Self> {
        let whole = [Node { cpus: machine.usable(), ..Node::default() }];
        let nodes = if machine.nodes.is_empty() { &whole[..] } else { &machine.nodes };
        let fits = |node: &&Node| {
            requested.is_none_or(|requested| node.id == requested)
                && node.memory_bytes != Some(0)
                && !node.memory_only
                && !node.cpus.intersection(&machine.usable()).is_empty()
        };
        let node = nodes.iter().find(fits).ok_or(requested.map_or(Error::NoNode, Error::Node))?;
        let cpus = node.cpus.intersection(&machine.usable()).iter().take(MAX_CPUS).collect();
        Ok(Self { id: (!machine.nodes.is_empty()).then_some(node.id), cpus })
    }

    /// Returns the task of each of `workers` processes: a triad over three arrays, which together exceed the
    /// caches. The memory is bound to the node if there are several.
    fn task(&self, machine: &Machine, workers: usize) -> Task {
        let caches: u64 = machine.last_level_caches().filter_map(|cache| cache.size_bytes).sum();
        let caches = if caches == 0 { ASSUMED_CACHES } else { caches };
        let memory = machine.system.memory_bytes.unwrap_or(u64::MAX);
        // Two or three sets of processes hold arrays; one or two of the sets work at a time.
        let arrays = workers as u64 * 3;
        let array = (caches * TIMES_CACHES / arrays).min(memory / 4 / (3 * arrays)).max(RUN_BYTES);
        let bound = machine.nodes.len() > 1;
        Task {
            work: Work { kernel: Kernel::Triad, stores: Stores::Ordinary },
            node: self.id.filter(|_| bound).and_then(|node| u16::try_from(node).ok()),
            bytes: array.next_multiple_of(RUN_BYTES),
        }
    }
}

/// Formats the node as text: `node 1 (16 CPUs)`.
impl fmt::Display for LoadNode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let cpus = counted(self.cpus.len(), "CPU");
        match self.id {
            Some(node) => write!(f, "node {node} ({cpus})"),
            None => f.write_str(&cpus),
        }
    }
}

/// Sets of processes on one node: one with the limit and one without, on the same CPUs, and for some checks a
/// third one that competes for memory from other CPUs.
pub(super) struct MemoryLoad {
    workers: PoolSubject,
    mode: SamplingMode,
    /// Number of processes of a set whose work is counted.
    measured_workers: usize,
}

impl MemoryLoad {
    /// Starts the processes; returns when all have allocated their arrays.
    ///
    /// # Errors
    /// As [`memory_loaders::start`]; [`manycore_experiment::Error::Interrupted`] after a signal.
    pub(super) fn start(node: &LoadNode, machine: &Machine, check: LimitCheck) -> Result<Self> {
        let (own, others) = if check.has_competitors() {
            node.cpus.split_at(node.cpus.len() / 2)
        } else {
            (&node.cpus[..], &[][..])
        };
        let cpus = [own, own, others].concat();
        let (pool, all) = memory_loaders::start(&cpus, node.task(machine, own.len()))?;
        let sets = |ranges: &[Range<usize>]| Trial {
            orders: ranges
                .iter()
                .flat_map(|range| &all.orders[range.clone()])
                .cloned()
                .collect::<Vec<WorkerOrder>>(),
            servers: Vec::new(),
            unit_per_tick: all.unit_per_tick,
        };
        let count = own.len();
        let (with, without, rest) = (0..count, count..2 * count, 2 * count..cpus.len());
        // In the order of the treatments of the check.
        let trials = vec![sets(&[with, rest.clone()]), sets(&[without.clone(), rest]), sets(&[without])];
        let mode = slices(machine);
        let mut workers =
            PoolSubject::new(pool, Rc::new(CounterReader::new(machine)), mode, trials, now_ns());
        workers.prepare()?;
        Ok(Self { workers, mode, measured_workers: count })
    }

    /// Returns how samples are taken.
    pub(super) fn method(&self) -> Method {
        self.mode.method()
    }

    /// Returns the number of processes whose work is counted.
    pub(super) fn measured_workers(&self) -> usize {
        self.measured_workers
    }

    /// Returns the ids of the processes with the limit, and of those without.
    pub(super) fn groups(&self) -> [Vec<u32>; 2] {
        let ids = self.workers.worker_ids();
        let (with, without) = ids.split_at(self.measured_workers);
        [with.to_vec(), without.to_vec()]
    }

    /// Returns the rate without a limit in bytes per second: the median of some slices.
    ///
    /// # Errors
    /// As [`Subject::measure`].
    pub(super) fn rate_without(&mut self) -> Result<f64> {
        const SLICES: usize = 7;
        let rates = (0..SLICES)
            .map(|_| self.measure(1).map(|sample| sample.rate()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(manycore_stats::median(&rates).unwrap_or(0.0))
    }
}

impl Subject for MemoryLoad {
    type Error = manycore_experiment::Error;

    /// Measures one sample. The work of the competing processes is not counted.
    fn measure(&mut self, treatment: usize) -> Result<Sample, Self::Error> {
        let mut sample = self.workers.measure(treatment)?;
        sample.per_worker.truncate(self.measured_workers);
        sample.work = sample.per_worker.iter().sum();
        Ok(sample)
    }

    fn now_ns(&self) -> u64 {
        self.workers.now_ns()
    }
}
