//! Spreads threads: first over idle units, then over idle cores, then over SMT siblings.
//!
//! The cost of a place depends only on the unit and on how many share it, not on the thread. A move takes away the place
//! with the highest number in one unit and adds the next one in another, which costs less. So each move lowers the
//! multiset of all costs, and there is no endless sequence of them.

use super::{Action, AffinityStep, DecisionState, Limits, view::View};
use crate::run::FixedPolicy;
use std::{cmp::Reverse, collections::BTreeSet};

/// Scale of the crowd of a unit, in parts of a thread per core.
const CROWD_SCALE: usize = 1 << 20;

/// What the last thread costs that comes into a unit, worst field first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// What the thread gets: 0 a core, 1 an SMT sibling of a busy CPU, 2 only a part of a CPU.
    class: u8,
    /// Crowd of a unit that has not enough CPUs; 0 otherwise.
    shortage: usize,
    /// Kind of the cores; 0 is the fastest.
    kind: usize,
    /// 0 if the thread has the unit to itself.
    shares: u8,
    /// Threads per core of a unit that is shared, scaled by [`CROWD_SCALE`].
    crowd: usize,
}

impl Cost {
    /// The cost of the place of thread number `count` in a unit.
    fn of(view: &View, unit: usize, count: usize) -> Self {
        let one = &view.units.all[unit];
        let (cores, cpus) = (one.cores, one.cpus.len());
        let class = if count <= cores { 0 } else { u8::from(count > cpus) + 1 };
        Self {
            class,
            shortage: if class == 2 { count * CROWD_SCALE / cpus } else { 0 },
            kind: one.kind,
            shares: u8::from(count > 1),
            crowd: if count > 1 { count * CROWD_SCALE / cores } else { 0 },
        }
    }

    /// Whether only the crowds differ.
    fn is_like(self, other: Self) -> bool {
        Self { crowd: 0, ..self } == Self { crowd: 0, ..other }
    }
}

/// Returns the unit that suits a thread best, if it is better than its own. Between equal ones, the nearest. A unit that
/// is only less crowded has to be in the same node: memory does not move along.
pub(super) fn better(view: &View, at: usize) -> Option<usize> {
    let own = view.threads[at].unit;
    let now = Cost::of(view, own, view.occupants[own]);
    let candidates = view.allowed(at).iter().copied().filter(|&unit| unit != own);
    let rated = candidates.map(|unit| (Cost::of(view, unit, view.occupants[unit] + 1), unit));
    rated
        .filter(|&(cost, unit)| cost < now && !(cost.is_like(now) && view.units.distance(own, unit) > 1))
        .min_by_key(|&(cost, unit)| (cost, view.units.distance(own, unit), unit))
        .map(|(_, unit)| unit)
}

/// Moves the threads that are due, those with the worst place first, and holds the threads that stay where others leave.
pub(super) fn moves(view: &mut View, state: &DecisionState, limits: &Limits, steps: &mut Vec<AffinityStep>) {
    let mut due: Vec<usize> = (0..view.threads.len())
        .filter(|&at| view.policy(at) == FixedPolicy::Spread && state.is_due(view.reading(at).tid, limits))
        .collect();
    let mut left = Vec::new();
    while steps.iter().filter(|step| step.action == Action::Move).count() < limits.max_moves {
        let place = |at: usize| {
            let unit = view.threads[at].unit;
            Cost::of(view, unit, view.occupants[unit])
        };
        let next = due
            .iter()
            .filter_map(|&at| Some((at, better(view, at)?)))
            .filter(|&(at, _)| !view.threads[at].is_confined || !has_free_thread(view, view.threads[at].unit))
            .max_by_key(|&(at, _)| (place(at), !view.threads[at].is_confined, Reverse(view.reading(at).tid)));
        let Some((at, unit)) = next else { break };
        due.retain(|other| *other != at);
        left.push(view.threads[at].unit);
        let step = view.place(at, unit);
        steps.push(step);
    }
    hold(view, &left, state, limits, steps);
}

/// Whether a unit has a thread that is not confined and that another unit would suit better. Such a thread is moved before
/// those that were placed: otherwise a thread that the kernel moves about could drive all others around.
fn has_free_thread(view: &View, unit: usize) -> bool {
    (0..view.threads.len()).any(|at| {
        let thread = &view.threads[at];
        thread.unit == unit
            && !thread.is_confined
            && thread.is_movable
            && view.policy(at) == FixedPolicy::Spread
            && better(view, at).is_some()
    })
}

/// Confines the threads that stay in `units`, which others have left, so that the kernel does not move them after those;
/// threads that are packed are among them. Also those of groups with confined threads, because the kernel has already
/// brought threads of such a group together.
fn hold(
    view: &mut View,
    units: &[usize],
    state: &DecisionState,
    limits: &Limits,
    steps: &mut Vec<AffinityStep>,
) {
    let confined = (0..view.threads.len()).filter(|&at| view.threads[at].is_confined);
    let groups: BTreeSet<usize> = confined.map(|at| view.reading(at).group).collect();
    let stays = |view: &View, at: usize| {
        let thread = &view.threads[at];
        let is_settled = view.policy(at) == FixedPolicy::Spread
            && groups.contains(&view.reading(at).group)
            && state.busy_for(view.reading(at).tid) >= limits.confirm
            && better(view, at).is_none();
        thread.is_movable && !thread.is_confined && (units.contains(&thread.unit) || is_settled)
    };
    let staying: Vec<usize> = (0..view.threads.len()).filter(|&at| stays(view, at)).collect();
    for at in staying.into_iter().take(limits.max_moves) {
        let step = view.place(at, view.threads[at].unit);
        steps.push(step);
    }
}
