//! Packs the busy threads of each group into as few units as have CPUs for them.
//!
//! The layout of a group depends on where its threads are, but threads that have reached their place only confirm it: the
//! unit with most confined threads is filled first. So moves end.

use super::{AffinityStep, DecisionState, Limits, view::View};
use crate::run::FixedPolicy;
use std::{cmp::Reverse, collections::BTreeSet};

/// Returns the unit of each busy thread of a group that is packed. `foreign` is the load of other work in each unit, in
/// CPUs.
pub(super) fn layout(view: &View, foreign: &[usize]) -> Vec<Option<usize>> {
    let mut layout = vec![None; view.threads.len()];
    let mut taken = foreign.to_vec();
    let packed: Vec<usize> =
        (0..view.threads.len()).filter(|&at| view.policy(at) == FixedPolicy::Pack).collect();
    let groups: BTreeSet<usize> = packed.iter().map(|&at| view.reading(at).group).collect();
    for group in groups {
        let members: Vec<usize> =
            packed.iter().copied().filter(|&at| view.reading(at).group == group).collect();
        let mut room = rooms(view, &taken, members.len());
        let units = chosen(view, &members, &room);
        for (at, unit) in assigned(view, &members, &units, &mut room) {
            layout[at] = Some(unit);
            taken[unit] += 1;
        }
    }
    layout
}

/// Returns how many threads each unit has room for: its CPUs that nothing uses; where there are not enough, several
/// threads for each CPU.
fn rooms(view: &View, taken: &[usize], threads: usize) -> Vec<usize> {
    let of = |times: usize| -> Vec<usize> {
        let units = view.units.all.iter().zip(taken);
        units.map(|(unit, taken)| (unit.cpus.len() * times).saturating_sub(*taken)).collect()
    };
    let mut times = 1;
    loop {
        let room = of(times);
        if room.iter().sum::<usize>() >= threads {
            return room;
        }
        times += 1;
    }
}

/// Chooses units until they have room for all members: faster cores first, then near the first unit, then where most of
/// the members are.
fn chosen(view: &View, members: &[usize], room: &[usize]) -> Vec<usize> {
    let mut units: Vec<usize> = Vec::new();
    let mut open: Vec<usize> = members.to_vec();
    while !open.is_empty() {
        let key = |&unit: &usize| {
            let here = |at: &&usize| view.threads[**at].unit == unit && view.allowed(**at).contains(&unit);
            let inside = members.iter().filter(here);
            let confined = inside.clone().filter(|at| view.threads[**at].is_confined).count();
            let distance = units.first().map_or(0, |&first| view.units.distance(first, unit));
            let kind = view.units.all[unit].kind;
            (kind, distance, Reverse(confined), Reverse(inside.count()), Reverse(room[unit]), unit)
        };
        let usable = |&unit: &usize| {
            room[unit] > 0
                && !units.contains(&unit)
                && open.iter().any(|&at| view.allowed(at).contains(&unit))
        };
        let Some(unit) = (0..room.len()).filter(usable).min_by_key(key) else { break };
        // Those that are there already need no move, so they take the room first.
        open.sort_by_key(|&at| view.threads[at].unit != unit);
        let mut left = room[unit];
        open.retain(|&at| {
            let fits = left > 0 && view.allowed(at).contains(&unit);
            left -= usize::from(fits);
            !fits
        });
        units.push(unit);
    }
    units
}

/// Assigns members to the chosen units: those that are in one stay while there is room, the others fill what is left.
fn assigned(view: &View, members: &[usize], units: &[usize], room: &mut [usize]) -> Vec<(usize, usize)> {
    let mut placed = Vec::new();
    let mut members: Vec<usize> = members.to_vec();
    members.sort_by_key(|&at| (!view.threads[at].is_movable, !view.threads[at].is_confined));
    members.retain(|&at| {
        let own = view.threads[at].unit;
        let stays = !view.threads[at].is_movable || units.contains(&own) && room[own] > 0;
        if stays {
            room[own] = room[own].saturating_sub(1);
            placed.push((at, own));
        }
        !stays
    });
    for at in members {
        let fits = |unit: &&usize| room[**unit] > 0 && view.allowed(at).contains(unit);
        // Without a place it stays where it is.
        let unit = units.iter().find(fits).copied().unwrap_or(view.threads[at].unit);
        room[unit] = room[unit].saturating_sub(1);
        placed.push((at, unit));
    }
    placed
}

/// Moves the threads that are due to their units, and holds those that are in theirs: the kernel would scatter them, and
/// change the room of other groups.
pub(super) fn moves(
    view: &mut View,
    layout: &[Option<usize>],
    state: &DecisionState,
    limits: &Limits,
) -> Vec<AffinityStep> {
    let mut steps = Vec::new();
    let mut due: Vec<usize> = (0..view.threads.len())
        .filter(|&at| layout[at].is_some_and(|unit| unit != view.threads[at].unit))
        .filter(|&at| state.is_due(view.reading(at).tid, limits))
        .collect();
    due.sort_by_key(|&at| view.threads[at].is_confined);
    for at in due.into_iter().take(limits.max_moves) {
        let Some(unit) = layout[at] else { continue };
        steps.push(view.place(at, unit));
    }
    let stays = |view: &View, at: usize| {
        let thread = &view.threads[at];
        layout[at] == Some(thread.unit)
            && thread.is_movable
            && !thread.is_confined
            && state.busy_for(view.reading(at).tid) >= limits.confirm
    };
    let staying: Vec<usize> = (0..view.threads.len()).filter(|&at| stays(view, at)).collect();
    for at in staying.into_iter().take(limits.max_moves) {
        steps.push(view.place(at, view.threads[at].unit));
    }
    steps
}
