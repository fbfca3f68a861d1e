//! A timeline in a few figures.

use super::{MarkKind, ThreadState, Timeline, unit::TraceUnits};
use crate::units::Distances;
use manycore_topology::Machine;

/// Figures of a timeline, of the watched threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Length of the recording in nanoseconds.
    pub length_ns: u64,
    /// Number of watched threads.
    pub threads: usize,
    /// Their time on a CPU, by unit of the machine; without units that they did not use.
    pub units: Vec<UnitSummary>,
    /// Waits for a CPU after a wake-up.
    pub wakeup: WaitSummary,
    /// Waits for a CPU after being displaced.
    pub displaced: WaitSummary,
    /// Migrations by [`Migration`](crate::Migration), in its order.
    pub migrations: [u64; 4],
    /// The distances of migrations that the machine has.
    pub(super) distances: Distances,
}

/// The time on a CPU in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSummary {
    /// Name of the unit, with its CPUs.
    pub name: String,
    /// Time of the watched threads in nanoseconds.
    pub watched_ns: u64,
    /// Time of other threads, on CPUs that watched threads have used.
    pub other_ns: u64,
}

/// Waits that began and ended in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSummary {
    /// Their number.
    pub count: usize,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// Their median in nanoseconds (the smallest one that half of them do not exceed); 0 without waits.
    pub p50_ns: u64,
    /// The smallest one that 99 % of them do not exceed; 0 without waits.
    pub p99_ns: u64,
    /// The longest one; 0 without waits.
    pub max_ns: u64,
}

impl WaitSummary {
    fn new(mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let quantile = |percent: usize| {
            let rank = (waits.len() * percent).div_ceil(100).max(1);
            waits.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            count: waits.len(),
            sum_ns: waits.iter().sum(),
            p50_ns: quantile(50),
            p99_ns: quantile(99),
            max_ns: quantile(100),
        }
    }
}

impl Summary {
    /// Sums a timeline up.
    pub fn new(timeline: &Timeline, machine: &Machine) -> Self {
        let units = TraceUnits::new(machine);
        let waits = |is_meant: fn(ThreadState) -> bool| {
            let slices = timeline.threads.iter().filter(|slice| slice.is_whole && is_meant(slice.state));
            WaitSummary::new(slices.map(|slice| slice.span.1 - slice.span.0).collect())
        };
        let mut threads: Vec<u32> = timeline.threads.iter().map(|slice| slice.task.tid).collect();
        threads.sort_unstable();
        threads.dedup();
        let mut migrations = [0; 4];
        for mark in &timeline.marks {
            if let MarkKind::Migration { from, to } = mark.kind
                && let Some(distance) = units.distance(from, to)
            {
                migrations[distance as usize] += 1;
            }
        }
        Self {
            length_ns: timeline.span.1.saturating_sub(timeline.span.0),
            threads: threads.len(),
            units: used_units(timeline, &units),
            wakeup: waits(|state| matches!(state, ThreadState::WaitingAfterWakeup(_))),
            displaced: waits(|state| matches!(state, ThreadState::WaitingDisplaced(_))),
            migrations,
            distances: units.distances(),
        }
    }
}

fn used_units(timeline: &Timeline, units: &TraceUnits) -> Vec<UnitSummary> {
    let empty = |name: &String| UnitSummary { name: name.clone(), watched_ns: 0, other_ns: 0 };
    let mut sums: Vec<UnitSummary> = units.names().iter().map(empty).collect();
    for slice in &timeline.cpus {
        let Some(sum) = units.of(slice.cpu).and_then(|unit| sums.get_mut(unit)) else { continue };
        let ns = slice.span.1.saturating_sub(slice.span.0);
        *(if slice.is_watched { &mut sum.watched_ns } else { &mut sum.other_ns }) += ns;
    }
    sums.retain(|sum| sum.watched_ns > 0);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_waits_that_occurred() {
        let waits = WaitSummary::new((1..=200).rev().collect());
        assert_eq!((waits.count, waits.p50_ns, waits.p99_ns, waits.max_ns), (200, 100, 198, 200));
        assert_eq!(
            WaitSummary::new(vec![7]),
            WaitSummary { count: 1, sum_ns: 7, p50_ns: 7, p99_ns: 7, max_ns: 7 }
        );
        assert_eq!(WaitSummary::new(Vec::new()), WaitSummary::default());
    }
}
