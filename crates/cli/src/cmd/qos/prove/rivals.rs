//! Processes that load memory, some with a limit and some without.

use crate::failure::{Failure, Outcome};
use manycore_analysis::limits::LimitCheck;
use manycore_experiment::pace::slices;
use manycore_experiment::record::{Method, Sample, id::TIMES_CACHES};
use manycore_experiment::{
    engine::Subject,
    live::{Live, Order, Trial},
    loaders,
    observe::Observer,
    pace::Pace,
};
use manycore_linux::clock::now_ns;
use manycore_text::units::counted;
use manycore_topology::{CpuId, Machine, machine::Node};
use manycore_workload::stream::{Kernel, RUN_BYTES, Stores, Task, Work};
use std::rc::Rc;

/// Maximum number of CPUs. More processes would use more memory without showing more.
const MOST_CPUS: usize = 16;

/// Assumed size in bytes of all last-level caches, where the kernel does not report it.
const ASSUMED_CACHES: u64 = 32 << 20;

/// The NUMA node whose memory is loaded, and the CPUs that load it.
pub(super) struct Ground {
    /// Absent if the kernel has no NUMA nodes.
    pub(super) node: Option<u32>,
    pub(super) cpus: Vec<CpuId>,
    machine: Machine,
}

impl Ground {
    /// Returns the requested node, or the first node with memory and usable CPUs.
    ///
    /// # Errors
    /// [`Failure::Input`] if the requested node has none, [`Failure::Missing`] if no node has both.
    pub(super) fn of(machine: &Machine, asked: Option<u32>) -> Outcome<Self> {
        let whole = [Node { cpus: machine.usable(), ..Node::default() }];
        let nodes = if machine.nodes.is_empty() { &whole[..] } else { &machine.nodes };
        let fits = |node: &&Node| {
            asked.is_none_or(|asked| node.id == asked)
                && node.memory_bytes != Some(0)
                && !node.memory_only
                && !node.cpus.intersection(&machine.usable()).is_empty()
        };
        let node = nodes.iter().find(fits).ok_or_else(|| match asked {
            Some(asked) => {
                Failure::input(format!("--node {asked}: no such node with memory and usable CPUs"))
            }
            None => Failure::missing("no node has both memory and usable CPUs"),
        })?;
        let cpus = node.cpus.intersection(&machine.usable()).iter().take(MOST_CPUS).collect();
        let id = (!machine.nodes.is_empty()).then_some(node.id);
        Ok(Self { node: id, cpus, machine: machine.clone() })
    }

    /// Returns the node as text: `node 1 (16 CPUs)`.
    pub(super) fn words(&self) -> String {
        let cpus = counted(self.cpus.len(), "CPU");
        self.node.map_or_else(|| cpus.clone(), |node| format!("node {node} ({cpus})"))
    }

    /// Returns the task of each of `workers` processes: a triad over three arrays, which together exceed the
    /// caches. The memory is bound to the node if there are several.
    fn task(&self, workers: usize) -> Task {
        let caches: u64 = self.machine.last_level_caches().filter_map(|cache| cache.size_bytes).sum();
        let caches = if caches == 0 { ASSUMED_CACHES } else { caches };
        let memory = self.machine.system.memory_bytes.unwrap_or(u64::MAX);
        // Two or three sets of processes hold arrays; one or two of the sets work at a time.
        let arrays = workers as u64 * 3;
        let array = (caches * TIMES_CACHES / arrays).min(memory / 4 / (3 * arrays)).max(RUN_BYTES);
        let bound = self.machine.nodes.len() > 1;
        Task {
            work: Work { kernel: Kernel::Triad, stores: Stores::Ordinary },
            node: self.node.filter(|_| bound).and_then(|node| u16::try_from(node).ok()),
            bytes: array.next_multiple_of(RUN_BYTES),
        }
    }
}

/// Sets of processes on one node: one with the limit and one without, on the same CPUs, and for some checks a
/// third one that competes for memory from other CPUs.
pub(super) struct Rivals {
    live: Live,
    pace: Pace,
    /// Number of processes of a set whose work is counted.
    favoured: usize,
}

impl Rivals {
    /// Starts the processes; returns when all have allocated their arrays.
    ///
    /// # Errors
    /// As [`loaders::hire`]; [`Failure::Interrupted`] after a signal.
    pub(super) fn hire(ground: &Ground, check: LimitCheck) -> Outcome<Self> {
        let (own, others) = if check.has_rivals() {
            ground.cpus.split_at(ground.cpus.len() / 2)
        } else {
            (&ground.cpus[..], &[][..])
        };
        let cpus = [own, own, others].concat();
        let (crew, all) = loaders::hire(&cpus, ground.task(own.len()))?;
        let sets = |ranges: &[std::ops::Range<usize>]| Trial {
            orders: ranges
                .iter()
                .flat_map(|range| &all.orders[range.clone()])
                .cloned()
                .collect::<Vec<Order>>(),
            servers: Vec::new(),
            unit_per_tick: all.unit_per_tick,
        };
        let count = own.len();
        let (with, without, rest) = (0..count, count..2 * count, 2 * count..cpus.len());
        // In the order of the treatments of the check.
        let trials = vec![sets(&[with, rest.clone()]), sets(&[without.clone(), rest]), sets(&[without])];
        let observer = Rc::new(Observer::new(&ground.machine));
        let pace = slices(&ground.machine);
        let mut live = Live::new(crew, observer, pace, trials, now_ns());
        live.get_ready()?;
        Ok(Self { live, pace, favoured: count })
    }

    /// Returns how samples are taken.
    pub(super) fn method(&self) -> Method {
        self.pace.method()
    }

    /// Returns the number of processes whose work is counted.
    pub(super) fn favoured(&self) -> usize {
        self.favoured
    }

    /// Returns the ids of the processes with the limit, and of those without.
    pub(super) fn groups(&self) -> [Vec<u32>; 2] {
        let ids = self.live.worker_ids();
        let (with, without) = ids.split_at(self.favoured);
        [with.to_vec(), without.to_vec()]
    }

    /// Returns the rate without a limit in bytes per second: the median of some slices.
    ///
    /// # Errors
    /// As [`Subject::measure`].
    pub(super) fn rate_without(&mut self) -> Outcome<f64> {
        const SLICES: usize = 7;
        let rates =
            (0..SLICES).map(|_| self.measure(1).map(|sample| sample.rate())).collect::<Outcome<Vec<_>>>()?;
        Ok(manycore_stats::median(&rates).unwrap_or(0.0))
    }
}

impl Subject for Rivals {
    type Error = Failure;

    /// Measures one sample. The work of the competing processes is not counted.
    fn measure(&mut self, treatment: usize) -> Outcome<Sample> {
        let mut sample = self.live.measure(treatment)?;
        sample.per_worker.truncate(self.favoured);
        sample.work = sample.per_worker.iter().sum();
        Ok(sample)
    }

    fn now_ns(&self) -> u64 {
        self.live.now_ns()
    }
}
