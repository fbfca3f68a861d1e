//! Events in little memory: each task once, and 24 bytes for each event.

use super::{Departure, EventKind, TraceEvent, TracedTask};
use manycore_topology::CpuId;
use std::collections::HashMap;

/// Events in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    /// The tasks by number. One that has changed its name is another one.
    tasks: Vec<TracedTask>,
    numbers: HashMap<TracedTask, u32>,
    events: Vec<Packed>,
}

/// An event whose tasks are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    at_ns: u64,
    cpu: CpuId,
    task: u32,
    /// Another task; the new CPU of a migration.
    other: u32,
    kind: PackedKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackedKind {
    Switch(Departure),
    Wakeup,
    Migration,
}

const _: () = assert!(size_of::<Packed>() == 24, "there are millions of events");

impl EventLog {
    /// Adds an event.
    pub fn push(&mut self, event: TraceEvent) {
        let (kind, task, other) = match event.kind {
            EventKind::Switch { from, why, to } => {
                (PackedKind::Switch(why), self.number(from), self.number(to))
            }
            EventKind::Wakeup { task, waker } => (PackedKind::Wakeup, self.number(task), self.number(waker)),
            EventKind::Migration { task, to } => (PackedKind::Migration, self.number(task), to),
        };
        self.events.push(Packed { at_ns: event.at_ns, cpu: event.cpu, task, other, kind });
    }

    fn number(&mut self, task: TracedTask) -> u32 {
        let tasks = &mut self.tasks;
        *self.numbers.entry(task).or_insert_with(|| {
            tasks.push(task);
            tasks.len() as u32 - 1
        })
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the events by time; those of one time in the order in which they were added.
    pub fn by_time(&self) -> impl Iterator<Item = TraceEvent> {
        let mut order: Vec<u32> = (0..self.events.len() as u32).collect();
        order.sort_by_key(|&at| self.events[at as usize].at_ns);
        order.into_iter().map(|at| self.event(&self.events[at as usize]))
    }

    fn event(&self, packed: &Packed) -> TraceEvent {
        let task = |number: u32| self.tasks[number as usize];
        let kind = match packed.kind {
            PackedKind::Switch(why) => {
                EventKind::Switch { from: task(packed.task), why, to: task(packed.other) }
            }
            PackedKind::Wakeup => EventKind::Wakeup { task: task(packed.task), waker: task(packed.other) },
            PackedKind::Migration => EventKind::Migration { task: task(packed.task), to: packed.other },
        };
        TraceEvent { at_ns: packed.at_ns, cpu: packed.cpu, kind }
    }
}

impl Extend<TraceEvent> for EventLog {
    fn extend<T: IntoIterator<Item = TraceEvent>>(&mut self, events: T) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

impl FromIterator<TraceEvent> for EventLog {
    fn from_iter<T: IntoIterator<Item = TraceEvent>>(events: T) -> Self {
        let mut log = Self::default();
        log.extend(events);
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::TaskName;

    #[test]
    fn events_are_returned_by_time_as_they_were() {
        let task = |tid: u32, name: &str| TracedTask { pid: 1, tid, name: TaskName::new(name.as_bytes()) };
        let (idle, old, new) = (TracedTask::default(), task(7, "sh"), task(7, "solver"));
        let event = |at_ns, cpu, kind| TraceEvent { at_ns, cpu, kind };
        let all = [
            event(9, 3, EventKind::Switch { from: old, why: Departure::Disk, to: idle }),
            event(5, 4, EventKind::Wakeup { task: new, waker: old }),
            event(9, 3, EventKind::Migration { task: new, to: 255 }),
            event(1, 0, EventKind::Switch { from: idle, why: Departure::Displaced, to: new }),
        ];
        let log: EventLog = all.into_iter().collect();
        assert_eq!(log.by_time().collect::<Vec<_>>(), [3, 1, 0, 2].map(|at: usize| all[at]));
        assert_eq!((log.len(), log.tasks.len()), (4, 3));
    }
}
