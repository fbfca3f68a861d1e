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

/// Processes beyond which more would hold more memory and show no more.
const MOST_CPUS: usize = 16;

/// Bytes of last-level caches where the kernel does not tell.
const ASSUMED_CACHES: u64 = 32 << 20;

/// The node whose memory is loaded, and the CPUs that do.
pub(super) struct Ground {
    /// Absent where the kernel knows of no nodes.
    pub(super) node: Option<u32>,
    pub(super) cpus: Vec<CpuId>,
    machine: Machine,
}

impl Ground {
    /// The node that was asked for, or the first that has CPUs that may be used, and memory.
    ///
    /// # Errors
    /// [`Failure::Input`] where that was asked for has none, [`Failure::Missing`] where there is none.
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
                Failure::input(format!("--node {asked}: no such node has memory and CPUs that may be used"))
            }
            None => Failure::missing("no node has both memory and CPUs that may be used"),
        })?;
        let cpus = node.cpus.intersection(&machine.usable()).iter().take(MOST_CPUS).collect();
        let id = (!machine.nodes.is_empty()).then_some(node.id);
        Ok(Self { node: id, cpus, machine: machine.clone() })
    }

    /// `node 1 (16 CPUs)`.
    pub(super) fn words(&self) -> String {
        let cpus = counted(self.cpus.len(), "CPU");
        self.node.map_or_else(|| cpus.clone(), |node| format!("node {node} ({cpus})"))
    }

    /// What each of `workers` processes does: three arrays, which together are beyond the caches, bound to the node
    /// where there are several.
    fn task(&self, workers: usize) -> Task {
        let caches: u64 = self.machine.last_level_caches().filter_map(|cache| cache.size_bytes).sum();
        let caches = if caches == 0 { ASSUMED_CACHES } else { caches };
        let memory = self.machine.system.memory_bytes.unwrap_or(u64::MAX);
        // Two or three sets of processes hold arrays, of which one or two work.
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

/// Processes on the same CPUs: a set with the limit, one without, and for checks that need it one that wants the
/// same memory from other CPUs.
pub(super) struct Rivals {
    live: Live,
    pace: Pace,
    /// Processes of a set whose work is counted.
    favoured: usize,
}

impl Rivals {
    /// Starts the processes; all have their arrays when this comes back.
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

    /// How samples are taken.
    pub(super) fn method(&self) -> Method {
        self.pace.method()
    }

    /// Processes whose work is counted.
    pub(super) fn favoured(&self) -> usize {
        self.favoured
    }

    /// The ids of the processes with the limit, and of those without.
    pub(super) fn groups(&self) -> [Vec<u32>; 2] {
        let ids = self.live.worker_ids();
        let (with, without) = ids.split_at(self.favoured);
        [with.to_vec(), without.to_vec()]
    }

    /// Bytes a second without a limit, of some slices: the median.
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

    /// What the rivals move does not count.
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
