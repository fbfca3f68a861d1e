//! Decides which threads are moved to which unit: a pure function of readings and of what was decided before.
//!
//! Only *busy* threads count and are moved: those that ran, or waited for a CPU, for a fair part of the last interval. A
//! thread is moved when a better unit was free in several consecutive intervals ([`Limits::confirm`]), and then stays for
//! several ([`Limits::rest`]). Each move strictly lowers the cost of one place and leaves the others' as they are, by a
//! rule that is the same for all threads (`spread`), or brings a thread to the place that it has in a layout which does
//! not depend on moves already made (`pack`). So with constant load, moves end.
//!
//! With `spread`, threads are left free as long as the kernel keeps those of their group apart by itself. Threads that were
//! moved are confined to the CPUs of their unit, and so are those that stay where others left, and the rest of their group;
//! with `pack`, every busy thread. A thread is released when it has been idle for [`Limits::release`].

mod pack;
mod spread;
mod state;
mod view;

pub use state::DecisionState;

use crate::affinity::units::Units;
use crate::run::FixedPolicy;
use manycore_topology::{CpuId, CpuSet};
use view::View;

/// What is known of a thread at the end of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadReading {
    /// Its id.
    pub tid: u32,
    /// Its group: an index of the policies.
    pub group: usize,
    /// The CPU that it runs on or ran on last.
    pub cpu: CpuId,
    /// Part of the interval in which it ran or waited for a CPU, from 0 to 1.
    pub demand: f64,
    /// The CPUs that it may use without us.
    pub original: CpuSet,
    /// The CPUs to which it is confined, if it is.
    pub confined: Option<CpuSet>,
    /// Whether its affinity must not be changed: it has chosen one itself, or the kernel refused a change.
    pub is_fixed: bool,
}

/// Bounds of what is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum number of threads that are moved in one interval.
    pub max_moves: usize,
    /// Demand from which a thread is busy.
    pub busy: f64,
    /// Demand below which a busy thread no longer is.
    pub idle: f64,
    /// Number of consecutive intervals with a better unit after which a thread is moved.
    pub confirm: u32,
    /// Number of intervals for which a moved thread stays.
    pub rest: u32,
    /// Number of idle intervals after which a thread gets its own CPUs back.
    pub release: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_moves: 8, busy: 0.25, idle: 0.1, confirm: 2, rest: 5, release: 10 }
    }
}

/// What is done to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is confined to another unit than that in which it ran last.
    Move,
    /// It is confined to the unit in which it ran last.
    Hold,
    /// It gets its own CPUs back.
    Release,
}

/// A change of a thread's affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityStep {
    /// The thread.
    pub tid: u32,
    /// What is done.
    pub action: Action,
    /// Its new affinity.
    pub cpus: CpuSet,
}

/// What follows from the readings of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The changes, in the order in which they are made.
    pub steps: Vec<AffinityStep>,
    /// Number of busy threads.
    pub busy: usize,
    /// Number of units in which they ran.
    pub used_units: usize,
    /// Number of busy threads that another unit would suit better, before the changes.
    pub misplaced: usize,
}

/// Decides which threads are moved. `foreign` is the load of all other work in each unit, in CPUs; `policies` that of
/// each group.
pub fn decide(
    units: &Units,
    readings: &[ThreadReading],
    foreign: &[f64],
    policies: &[FixedPolicy],
    limits: &Limits,
    state: &mut DecisionState,
) -> Decision {
    state.update(units.all.len(), readings, foreign, limits);
    let mut view = View::new(units, readings, policies, state);
    let layout = pack::layout(&view, state.foreign());
    let wishes = wishes(&view, &layout);
    state.count_wishes(&view, &wishes, limits);
    let mut decision = Decision {
        steps: Vec::new(),
        busy: view.threads.len(),
        used_units: view.used_units(),
        misplaced: wishes.iter().filter(|wish| **wish).count(),
    };
    let mut moves = pack::moves(&mut view, &layout, state, limits);
    spread::moves(&mut view, state, limits, &mut moves);
    for step in &moves {
        state.moved(step.tid, limits);
    }
    decision.steps = moves;
    release(readings, limits, state, &mut decision.steps);
    decision
}

/// Returns for each busy thread whether another unit would suit it better.
fn wishes(view: &View, layout: &[Option<usize>]) -> Vec<bool> {
    let wish = |at: usize| {
        let thread = &view.threads[at];
        thread.is_movable
            && match view.policy(at) {
                FixedPolicy::Spread => spread::better(view, at).is_some(),
                FixedPolicy::Pack => layout[at].is_some_and(|unit| unit != thread.unit),
            }
    };
    (0..view.threads.len()).map(wish).collect()
}

/// Gives threads that have been idle for long their own CPUs back.
fn release(
    readings: &[ThreadReading],
    limits: &Limits,
    state: &DecisionState,
    steps: &mut Vec<AffinityStep>,
) {
    let idle = readings.iter().filter(|reading| {
        reading.confined.is_some() && !reading.is_fixed && state.idle_for(reading.tid) >= limits.release
    });
    steps.extend(idle.map(|reading| AffinityStep {
        tid: reading.tid,
        action: Action::Release,
        cpus: reading.original.clone(),
    }));
}

#[cfg(test)]
mod tests;
