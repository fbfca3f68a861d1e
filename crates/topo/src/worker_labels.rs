//! Labels the CPUs of a picture with the workers of a plan.

use crate::layout::text_width;
use manycore_placement::PlacementPlan;
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, HashMap};

/// Number of workers that a label names; more workers are counted.
const MAX_NAMED: usize = 2;

/// The label of each CPU.
pub struct WorkerLabels {
    workers: HashMap<CpuId, Workers>,
    /// Whether labels have space for words.
    in_words: bool,
}

/// Workers that may use one CPU.
#[derive(Clone, Default)]
struct Workers {
    count: usize,
    /// Numbers of the first of them, at most [`MAX_NAMED`].
    first: Vec<usize>,
}

impl Workers {
    fn add(&mut self, others: &Self) {
        self.count += others.count;
        self.first.extend(&others.first);
        self.first.sort_unstable();
        self.first.truncate(MAX_NAMED);
    }
}

impl WorkerLabels {
    /// Returns the labels for all workers. With `wordy`, the label of several workers is written in words.
    pub fn new(plan: &PlacementPlan, wordy: bool) -> Self {
        // Workers with the same CPUs are added at once: thousands of them may have thousands of CPUs each.
        let mut alike: BTreeMap<&CpuSet, Workers> = BTreeMap::new();
        for (at, worker) in plan.workers.iter().enumerate() {
            alike.entry(&worker.cpus).or_default().add(&Workers { count: 1, first: vec![at] });
        }
        let mut workers: HashMap<CpuId, Workers> = HashMap::new();
        for (cpus, those) in alike {
            cpus.iter().for_each(|cpu| workers.entry(cpu).or_default().add(&those));
        }
        Self { workers, in_words: wordy }
    }

    /// Returns the label: `w3`, `w0 w4`, `16 workers` or `×16`; empty for a CPU without a worker.
    pub fn label(&self, cpu: CpuId) -> String {
        match self.workers.get(&cpu) {
            None => String::new(),
            Some(Workers { count, first }) if *count <= MAX_NAMED => {
                first.iter().map(|worker| format!("w{worker}")).collect::<Vec<_>>().join(" ")
            }
            Some(Workers { count, .. }) if self.in_words => format!("{count} workers"),
            Some(Workers { count, .. }) => format!("×{count}"),
        }
    }

    /// Returns the CSS class of the CPU's box: `idle`, `worker` or `shared`.
    pub fn class(&self, cpu: CpuId) -> &'static str {
        match self.workers.get(&cpu).map(|workers| workers.count) {
            None => "idle",
            Some(1) => "worker",
            Some(_) => "shared",
        }
    }

    /// Returns the classes that occur among the CPUs, each with its explanation.
    pub fn legend(&self, cpus: &CpuSet) -> Vec<(&'static str, &'static str)> {
        let counted = !self.in_words && self.workers.values().any(|workers| workers.count > MAX_NAMED);
        let shared = if counted { "CPU of several workers (×3: three)" } else { "CPU of several workers" };
        let mut entries = vec![
            ("worker", "CPU of one worker (w0: the first)"),
            ("shared", shared),
            ("idle", "CPU without a worker"),
        ];
        entries.retain(|(class, _)| cpus.iter().any(|cpu| self.class(cpu) == *class));
        entries
    }

    /// Returns the width of the widest label.
    pub fn width(&self) -> f64 {
        self.workers.keys().map(|&cpu| text_width(&self.label(cpu), "title")).fold(0.0, f64::max)
    }
}
