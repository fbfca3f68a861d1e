//! The result of a placement: the CPUs and the memory of every worker.

use crate::{CanonicalPlan, PlacementError, canonical};
use manycore_topology::{CpuSet, Machine};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Value of [`PlacementPlan::schema`] that this version writes.
pub const PLAN_SCHEMA: &str = "manycore/plan/1";

/// Maximum number of workers of a plan.
pub const MAX_WORKERS: usize = 65_536;

/// Maximum number of usable CPUs of a machine. The largest machines that run Linux have 8,192.
pub const MAX_CPUS: usize = 65_536;

/// The CPUs and the memory of every worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementPlan {
    /// Always [`PLAN_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = PLAN_SCHEMA)))]
    pub schema: String,
    /// [`Machine::fingerprint`] of the machine that the plan is for.
    pub machine_fingerprint: String,
    /// The policy that the plan was made with, as on the command line: `close`, `spread@llc`.
    pub policy: String,
    /// All workers, in order.
    pub workers: Vec<PlannedWorker>,
}

/// The CPUs and the memory of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// CPUs that the worker may use.
    pub cpus: CpuSet,
    /// NUMA nodes with the memory nearest to these CPUs, ascending. Empty if the machine reports no nodes.
    pub memory_nodes: Vec<u32>,
    /// A short sentence that explains the choice.
    pub why: String,
}

/// To what extent workers share CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSharing {
    /// Number of workers that may use a CPU which another worker may use as well.
    pub workers: usize,
    /// Maximum number of workers that may use the same CPU.
    pub most: usize,
}

impl PlacementPlan {
    /// Returns the CPUs that any worker may use.
    pub fn cpus(&self) -> CpuSet {
        CpuSet::union_of(self.classes().into_keys())
    }

    /// Returns a plan with one worker that has the CPUs of all workers: for one program, one container or
    /// one unit.
    pub fn together(&self) -> Self {
        let nodes = self.workers.iter().flat_map(|worker| worker.memory_nodes.iter().copied());
        let nodes: BTreeSet<u32> = nodes.collect();
        let why = format!("the CPUs of all {} workers", self.workers.len());
        let all = PlannedWorker { cpus: self.cpus(), memory_nodes: nodes.into_iter().collect(), why };
        Self { workers: vec![all], ..self.clone() }
    }

    /// Returns whether every worker has exactly one CPU, so that each of its threads runs there.
    pub fn one_cpu_each(&self) -> bool {
        self.workers.iter().all(|worker| worker.cpus.len() == 1)
    }

    /// Returns how many workers share CPUs, and how many use the busiest CPU.
    pub fn cpu_sharing(&self) -> CpuSharing {
        let classes = self.classes();
        let mut edges: BTreeMap<u32, isize> = BTreeMap::new();
        for (cpus, &count) in &classes {
            for (first, last) in cpus.ranges() {
                *edges.entry(first).or_default() += count.cast_signed();
                *edges.entry(last + 1).or_default() -= count.cast_signed();
            }
        }
        let (mut level, mut most, mut from, mut oversubscribed) = (0, 0, 0, Vec::new());
        for (&at, change) in &edges {
            if level > 1 {
                oversubscribed.push((from, at - 1));
            }
            level += change;
            most = most.max(level);
            from = at;
        }
        let oversubscribed = CpuSet::from_ranges(oversubscribed);
        let workers =
            classes.iter().filter(|(cpus, _)| cpus.intersects(&oversubscribed)).map(|(_, count)| count).sum();
        CpuSharing { workers, most: most.unsigned_abs() }
    }

    /// Checks that there is a CPU for each worker: in total, and for each set of CPUs among the workers
    /// with exactly this set.
    ///
    /// # Errors
    /// Returns the CPUs that have more workers than there are CPUs.
    pub fn check_exclusive(&self) -> Result<(), PlacementError> {
        let all = self.cpus();
        let sets = std::iter::once((&all, self.workers.len())).chain(self.classes());
        let mut oversubscribed = sets.filter(|(cpus, count)| *count > cpus.len());
        oversubscribed.next().map_or(Ok(()), |(cpus, workers)| {
            Err(PlacementError::NotExclusive { workers, cpus: cpus.clone() })
        })
    }

    /// Returns the canonical form of the plan on a machine, by which equivalent plans are recognized; see
    /// [`CanonicalPlan`].
    pub fn canonical(&self, machine: &Machine) -> CanonicalPlan {
        canonical::canonical_form(self, machine)
    }

    /// Returns the number of workers for each set of CPUs.
    pub(crate) fn classes(&self) -> BTreeMap<&CpuSet, usize> {
        let mut classes = BTreeMap::new();
        self.workers.iter().for_each(|worker| *classes.entry(&worker.cpus).or_default() += 1);
        classes
    }
}
