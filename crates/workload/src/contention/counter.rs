//! Counters: one for all workers; one for each worker, in a shared cache line or in its own; and one with a
//! line for each CPU.

use super::{Member, SharedObject, Team, threads};
use crate::Load;
use manycore_percpu::PerCpuCounter;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Additions in a tick: about a microsecond if no other worker adds.
const PER_TICK: u64 = 256;

/// Counters in a line of 64 bytes.
const COUNTERS_PER_LINE: usize = 8;

/// Aligned to two lines, because prefetchers fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct PaddedLine([AtomicU64; COUNTERS_PER_LINE]);

/// The counters of all variants.
struct AllCounters {
    one: PaddedLine,
    packed: Vec<PaddedLine>,
    padded: Vec<PaddedLine>,
    per_cpu: PerCpuCounter,
}

impl AllCounters {
    fn counter(&self, variant: u64, worker: usize) -> &AtomicU64 {
        match variant {
            0 => &self.one.0[0],
            1 => &self.packed[worker / COUNTERS_PER_LINE].0[worker % COUNTERS_PER_LINE],
            _ => &self.padded[worker].0[0],
        }
    }
}

/// Counters for a number of workers.
pub struct Counters {
    all: Arc<AllCounters>,
    workers: usize,
}

impl Counters {
    /// Names of the variants: one counter for all workers; one for each worker, eight in a line; one for each
    /// worker in its own line; one counter for all workers with a line for each CPU.
    pub const VARIANTS: &[&str] = &["shared", "packed", "padded", "per-cpu"];

    /// Creates counters for `workers` workers.
    pub fn new(workers: usize) -> Self {
        let lines = |count: usize| (0..count).map(|_| PaddedLine::default()).collect();
        let all = AllCounters {
            one: PaddedLine::default(),
            packed: lines(workers.div_ceil(COUNTERS_PER_LINE)),
            padded: lines(workers),
            per_cpu: PerCpuCounter::new(),
        };
        Self { all: Arc::new(all), workers }
    }
}

impl SharedObject for Counters {
    fn members(&self) -> Vec<Member> {
        threads(self.workers, |worker| CounterUser { all: Arc::clone(&self.all), worker, variant: 0 })
    }

    fn team(&self, variant: usize, workers: usize) -> Team {
        Team { workers: (0..workers).collect(), servers: Vec::new(), parameter: variant as u64 }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn object_count(&self) -> Option<u64> {
        let AllCounters { one, packed, padded, per_cpu } = &*self.all;
        let counters = std::iter::once(one).chain(packed).chain(padded).flat_map(|line| &line.0);
        let atomic: u64 = counters.map(|counter| counter.load(Relaxed)).sum();
        Some(atomic + per_cpu.sum() as u64)
    }
}

struct CounterUser {
    all: Arc<AllCounters>,
    worker: usize,
    variant: u64,
}

impl Load for CounterUser {
    fn prepare(&mut self, variant: u64) {
        self.variant = variant;
    }

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        if self.variant == 3 {
            for _ in 0..PER_TICK {
                self.all.per_cpu.add_local(1);
            }
            return;
        }
        let counter = self.all.counter(self.variant, self.worker);
        for _ in 0..PER_TICK {
            counter.fetch_add(1, Relaxed);
        }
    }
}
