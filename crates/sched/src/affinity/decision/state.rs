//! What is remembered from one decision to the next.

use super::{Limits, ThreadReading, view::View};
use std::collections::BTreeMap;

/// Difference in CPUs by which the load of other work has to change before it counts: more than the half that rounding
/// needs, so that a load at the edge does not flicker.
const FOREIGN_STEP: f64 = 0.75;

/// Weight of the last interval in the mean load of other work.
const FOREIGN_WEIGHT: f64 = 0.5;

/// What is remembered of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadMemory {
    is_busy: bool,
    /// Number of consecutive intervals in which it was busy.
    busy_for: u32,
    /// Number of consecutive intervals in which it was not busy.
    idle_for: u32,
    /// Number of consecutive intervals in which another unit would have suited it better.
    misplaced_for: u32,
    /// Number of intervals until it may be moved again.
    rest: u32,
}

/// What is remembered from one decision to the next; empty at first. Units are remembered by their number: a machine
/// whose units have changed needs [`DecisionState::forget_units`].
#[derive(Clone, Debug, Default)]
pub struct DecisionState {
    threads: BTreeMap<u32, ThreadMemory>,
    /// Mean load of other work in each unit.
    foreign_mean: Vec<f64>,
    /// The same in whole CPUs, as it counts.
    foreign: Vec<usize>,
}

impl DecisionState {
    /// Forgets the loads of units, whose numbers have changed.
    pub fn forget_units(&mut self) {
        self.foreign_mean.clear();
        self.foreign.clear();
    }

    /// Takes over the readings of an interval. Threads without one are forgotten.
    pub(super) fn update(
        &mut self,
        units: usize,
        readings: &[ThreadReading],
        foreign: &[f64],
        limits: &Limits,
    ) {
        let before = std::mem::take(&mut self.threads);
        for reading in readings {
            let mut memory = before.get(&reading.tid).copied().unwrap_or_default();
            let threshold = if memory.is_busy { limits.idle } else { limits.busy };
            memory.is_busy = reading.demand >= threshold;
            memory.busy_for = if memory.is_busy { memory.busy_for.saturating_add(1) } else { 0 };
            memory.idle_for = if memory.is_busy { 0 } else { memory.idle_for.saturating_add(1) };
            memory.rest = memory.rest.saturating_sub(1);
            self.threads.insert(reading.tid, memory);
        }
        self.foreign_mean.resize(units, f64::NAN);
        self.foreign.resize(units, 0);
        for (unit, (mean, counted)) in self.foreign_mean.iter_mut().zip(&mut self.foreign).enumerate() {
            let now = foreign.get(unit).copied().unwrap_or_default().max(0.0);
            *mean = if mean.is_nan() { now } else { now * FOREIGN_WEIGHT + *mean * (1.0 - FOREIGN_WEIGHT) };
            if (*mean - *counted as f64).abs() > FOREIGN_STEP {
                *counted = mean.round() as usize;
            }
        }
    }

    /// Counts in how many intervals each thread was misplaced; `wishes` are those of the threads of `view`.
    pub(super) fn count_wishes(&mut self, view: &View, wishes: &[bool], limits: &Limits) {
        let mut misplaced: BTreeMap<u32, u32> = BTreeMap::new();
        for at in (0..view.threads.len()).filter(|&at| wishes[at]) {
            let tid = view.reading(at).tid;
            let before = self.threads.get(&tid).map_or(0, |memory| memory.misplaced_for);
            misplaced.insert(tid, (before + 1).min(limits.confirm));
        }
        for (tid, memory) in &mut self.threads {
            memory.misplaced_for = misplaced.get(tid).copied().unwrap_or(0);
        }
    }

    /// Records that a thread was placed.
    pub(super) fn moved(&mut self, tid: u32, limits: &Limits) {
        if let Some(memory) = self.threads.get_mut(&tid) {
            memory.rest = limits.rest;
            memory.misplaced_for = 0;
        }
    }

    /// Returns whether a thread may be moved now.
    pub(super) fn is_due(&self, tid: u32, limits: &Limits) -> bool {
        self.threads
            .get(&tid)
            .is_some_and(|memory| memory.misplaced_for >= limits.confirm && memory.rest == 0)
    }

    pub(super) fn is_busy(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|memory| memory.is_busy)
    }

    pub(super) fn busy_for(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(0, |memory| memory.busy_for)
    }

    pub(super) fn idle_for(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(0, |memory| memory.idle_for)
    }

    /// Returns the load of other work in each unit, in whole CPUs.
    pub(super) fn foreign(&self) -> &[usize] {
        &self.foreign
    }
}
