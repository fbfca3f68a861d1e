//! The busy threads of an interval, and the units that they are in.

use super::{Action, AffinityStep, DecisionState, ThreadReading};
use crate::{affinity::units::Units, run::FixedPolicy};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// A busy thread.
#[derive(Clone, Debug)]
pub(super) struct BusyThread {
    /// Index of its reading.
    pub reading: usize,
    /// The unit in which it is.
    pub unit: usize,
    /// Whether it may be moved.
    pub is_movable: bool,
    /// Whether it is confined to its unit.
    pub is_confined: bool,
    /// Which list of [`View::allowed`] it has.
    allowed: usize,
}

/// The busy threads and the units, as they are after the moves decided so far.
pub(super) struct View<'a> {
    pub units: &'a Units,
    readings: &'a [ThreadReading],
    policies: &'a [FixedPolicy],
    /// The busy threads, in the order of their readings.
    pub threads: Vec<BusyThread>,
    /// Number of busy threads in each unit, ours and others.
    pub occupants: Vec<usize>,
    /// The units that threads may use: one list for each affinity.
    allowed: Vec<Vec<usize>>,
}

impl<'a> View<'a> {
    pub fn new(
        units: &'a Units,
        readings: &'a [ThreadReading],
        policies: &'a [FixedPolicy],
        state: &DecisionState,
    ) -> Self {
        let mut view = Self {
            units,
            readings,
            policies,
            threads: Vec::new(),
            occupants: state.foreign().to_vec(),
            allowed: Vec::new(),
        };
        let mut lists: BTreeMap<&CpuSet, usize> = BTreeMap::new();
        for (at, reading) in readings.iter().enumerate().filter(|(_, reading)| state.is_busy(reading.tid)) {
            let confined = reading.confined.as_ref();
            // A thread on a CPU that is in no unit, such as an isolated one, is there by its own choice.
            let unit = confined.map_or_else(|| units.of_cpu(reading.cpu), |cpus| units.of_cpus(cpus));
            let Some(unit) = unit else { continue };
            let allowed = *lists.entry(&reading.original).or_insert_with(|| {
                view.allowed.push(units.within(&reading.original));
                view.allowed.len() - 1
            });
            view.occupants[unit] += 1;
            view.threads.push(BusyThread {
                reading: at,
                unit,
                is_movable: !reading.is_fixed && view.allowed[allowed].len() > 1,
                is_confined: confined.is_some(),
                allowed,
            });
        }
        view
    }

    pub fn reading(&self, at: usize) -> &'a ThreadReading {
        &self.readings[self.threads[at].reading]
    }

    pub fn policy(&self, at: usize) -> FixedPolicy {
        self.policies.get(self.reading(at).group).copied().unwrap_or_default()
    }

    /// Returns the units that a thread may use.
    pub fn allowed(&self, at: usize) -> &[usize] {
        &self.allowed[self.threads[at].allowed]
    }

    /// Returns the number of units with a busy thread of ours.
    pub fn used_units(&self) -> usize {
        let mut used: Vec<usize> = self.threads.iter().map(|thread| thread.unit).collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    }

    /// Confines a thread to a unit.
    pub fn place(&mut self, at: usize, unit: usize) -> AffinityStep {
        let reading = self.reading(at);
        let thread = &mut self.threads[at];
        let action = if thread.unit == unit { Action::Hold } else { Action::Move };
        self.occupants[thread.unit] -= 1;
        self.occupants[unit] += 1;
        thread.unit = unit;
        thread.is_confined = true;
        let cpus = self.units.all[unit].cpus.intersection(&reading.original);
        AffinityStep { tid: reading.tid, action, cpus }
    }
}
