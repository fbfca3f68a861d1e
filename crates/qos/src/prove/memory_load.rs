//! Processes that load memory, with a limit and without.

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
use manycore_linux::{
    clock::now_ns,
    resctrl::put::{is_gone, put},
};
use manycore_text::units::counted;
use manycore_topology::{CpuId, Machine, machine::Node};
use manycore_workload::stream::{Kernel, RUN_BYTES, Stores, Task, Work};
use std::{fmt, path::PathBuf, rc::Rc};

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
        // A second set of processes, which competes in some checks, holds as many.
        let arrays = workers as u64 * 2;
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

/// Processes on one node whose work is measured, and for some checks others that compete for memory from other CPUs.
///
/// The same processes are measured with the limit and without: they are moved between two groups. Other processes have
/// other pages of memory, and are faster or slower for that reason alone.
pub(super) struct MemoryLoad {
    workers: PoolSubject,
    mode: SamplingMode,
    /// Number of processes whose work is counted.
    measured_workers: usize,
    /// Of the groups with the limit and without: the files to which the ids of their tasks are written.
    tasks: [PathBuf; 2],
    /// The index in `tasks` of the group in which the processes are; absent before the first sample.
    group: Option<usize>,
}

impl MemoryLoad {
    /// Starts the processes; returns when all have allocated their arrays. `tasks` are the files of the groups with the
    /// limit and without; the groups are needed when the first sample is taken.
    ///
    /// # Errors
    /// As [`memory_loaders::start`]; [`manycore_experiment::Error::Interrupted`] after a signal.
    pub(super) fn start(
        node: &LoadNode,
        machine: &Machine,
        check: LimitCheck,
        tasks: [PathBuf; 2],
    ) -> Result<Self> {
        let (own, others) = if check.has_competitors() {
            node.cpus.split_at(node.cpus.len() / 2)
        } else {
            (&node.cpus[..], &[][..])
        };
        let (pool, all) = memory_loaders::start(&[own, others].concat(), node.task(machine, own.len()))?;
        let trial = |orders: &[WorkerOrder]| Trial {
            orders: orders.to_vec(),
            servers: Vec::new(),
            unit_per_tick: all.unit_per_tick,
        };
        // In the order of the treatments of the check.
        let trials = vec![trial(&all.orders), trial(&all.orders), trial(&all.orders[..own.len()])];
        let mode = slices(machine);
        let mut workers =
            PoolSubject::new(pool, Rc::new(CounterReader::new(machine)), mode, trials, now_ns());
        workers.prepare()?;
        Ok(Self { workers, mode, measured_workers: own.len(), tasks, group: None })
    }

    /// Returns how samples are taken.
    pub(super) fn method(&self) -> Method {
        self.mode.method()
    }

    /// Returns the number of processes whose work is counted.
    pub(super) fn measured_workers(&self) -> usize {
        self.measured_workers
    }

    /// Returns the ids of the processes whose work is counted.
    pub(super) fn measured_ids(&self) -> Vec<u32> {
        let mut ids = self.workers.worker_ids();
        ids.truncate(self.measured_workers);
        ids
    }

    /// Moves the measured processes into the group of a treatment.
    fn enter_group(&mut self, treatment: usize) -> Result<(), manycore_experiment::Error> {
        let group = treatment.min(1);
        if self.group != Some(group) {
            let file = &self.tasks[group];
            for id in self.measured_ids() {
                match put(file, &format!("{id}\n")) {
                    // The next sample reports that it has ended.
                    Err(error) if !is_gone(&error, id) => {
                        let what = format!("process {id} cannot be moved to {}: {error}", file.display());
                        return Err(manycore_experiment::Error::Failed(what));
                    }
                    _ => {}
                }
            }
            self.group = Some(group);
        }
        Ok(())
    }

    /// Returns the rate in bytes per second before the processes are in a group: the median of some slices.
    ///
    /// # Errors
    /// As [`PoolSubject::measure`].
    pub(super) fn rate_without(&mut self) -> Result<f64> {
        const SLICES: usize = 7;
        let rates =
            (0..SLICES).map(|_| self.sample(1).map(|sample| sample.rate())).collect::<Result<Vec<_>, _>>()?;
        Ok(manycore_stats::median(&rates).unwrap_or(0.0))
    }

    /// Measures one sample. The work of the competing processes is not counted.
    fn sample(&mut self, treatment: usize) -> Result<Sample, manycore_experiment::Error> {
        let mut sample = self.workers.measure(treatment)?;
        sample.per_worker.truncate(self.measured_workers);
        sample.work = sample.per_worker.iter().sum();
        Ok(sample)
    }
}

impl Subject for MemoryLoad {
    type Error = manycore_experiment::Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample, Self::Error> {
        self.enter_group(treatment)?;
        self.sample(treatment)
    }

    fn now_ns(&self) -> u64 {
        self.workers.now_ns()
    }
}
