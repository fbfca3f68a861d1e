//! Counters of the CPUs, of the threads that use most CPU time.

mod choice;

use crate::{
    picture::Former,
    sample::{CountedSample, TaskId, TaskSample},
    task_list::TaskList,
};
use choice::Choice;
use manycore_linux::task_counters::{CountError, CountedEvent, CountedThread, EventCounts, TaskCounters};
use std::collections::BTreeMap;

/// What figures need: cycles, instructions and cache misses.
pub(super) const EVENTS: [CountedEvent; 3] =
    [CountedEvent::Cycles, CountedEvent::Instructions, CountedEvent::CacheMisses];

/// A thread that used less than this share of an interval is not counted.
const LEAST_SHARE: f64 = 0.01;

/// Whether there are counters.
#[derive(Debug)]
enum Ability {
    /// Not tried.
    Unknown,
    /// No, or without the right; never tried again.
    Absent,
    /// Yes.
    Present(TaskCounters<3>),
}

/// The threads that are counted, and their counters.
#[derive(Debug)]
pub(super) struct Counted {
    events: [CountedEvent; 3],
    ability: Ability,
    choice: Choice,
    groups: BTreeMap<TaskId, Group>,
    /// CPU times of all threads at the last sample, ascending by thread, in nanoseconds.
    before: Vec<(TaskId, u64)>,
    /// When that sample was taken, in nanoseconds.
    before_ns: u64,
}

#[derive(Debug)]
struct Group {
    thread: CountedThread<3>,
    last: EventCounts<3>,
    /// Whether it stood in the last interval although its thread ran. It has no figures then.
    stood: bool,
}

impl Counted {
    pub fn new(events: [CountedEvent; 3]) -> Self {
        Self {
            events,
            ability: Ability::Unknown,
            choice: Choice::default(),
            groups: BTreeMap::new(),
            before: Vec::new(),
            before_ns: 0,
        }
    }

    /// Ends counting. Whether there are counters stays known.
    pub fn close(&mut self) {
        if !self.before.is_empty() {
            (self.choice, self.groups, self.before) = Default::default();
        }
    }

    /// Reads the counters of the chosen threads, and chooses others. `tasks` are all threads of this machine, ascending, at
    /// `at_ns`. The sample becomes `None` where there are no counters.
    pub fn read(&mut self, at_ns: u64, tasks: &TaskList, into: &mut Option<Vec<CountedSample>>) {
        if matches!(self.ability, Ability::Unknown) {
            self.ability = TaskCounters::probe(self.events).map_or(Ability::Absent, Ability::Present);
        }
        let Ability::Present(counters) = self.ability else {
            *into = None;
            return;
        };
        let interval_ns = at_ns.saturating_sub(self.before_ns);
        let least_ns = (interval_ns as f64 * LEAST_SHARE).max(1.0) as u64;
        let times = self.times_since(tasks, interval_ns);
        let new = if self.before.is_empty() {
            self.choice.first(tasks.iter().map(|task| (task.id, task.state == 'R', task.run_ns)))
        } else {
            self.choice.update(&times, least_ns)
        };
        self.groups.retain(|id, _| self.choice.has(*id));
        self.read_groups(&times, least_ns);
        self.open(counters, new);
        self.before.clear();
        self.before.extend(tasks.iter().map(|task| (task.id, task.run_ns)));
        self.before_ns = at_ns;
        let samples = into.get_or_insert_default();
        samples.clear();
        let known = self.groups.iter().filter(|(_, group)| !group.stood);
        samples.extend(known.map(|(&id, group)| CountedSample { id, counts: group.last }));
    }

    /// Returns the CPU times of threads since the last sample.
    fn times_since(&self, tasks: &TaskList, interval_ns: u64) -> Vec<(TaskId, u64)> {
        let mut former = Former::new(&self.before);
        let time = |task: &TaskSample| {
            let before = former.find(&task.id, |old| old.0).map_or(0, |old| old.1);
            (task.id, task.run_ns.saturating_sub(before).min(interval_ns))
        };
        tasks.iter().map(time).collect()
    }

    /// Reads the groups. One that stands in two intervals while its thread runs is of a task that is gone: a thread that calls
    /// exec takes over the id of the first thread of its process, and a program with other rights loses its counters. In a
    /// single interval, the thread may have run only between the reading of its time and that of its counters before.
    fn read_groups(&mut self, times: &[(TaskId, u64)], least_ns: u64) {
        let choice = &mut self.choice;
        self.groups.retain(|&id, group| {
            let now = group.thread.read().ok();
            let has_run =
                times.binary_search_by_key(&id, |time| time.0).is_ok_and(|at| times[at].1 >= least_ns);
            let stands = has_run && now.is_some_and(|now| now.enabled_ns <= group.last.enabled_ns);
            let now = now.filter(|_| !(stands && group.stood));
            match now {
                Some(_) if stands => group.stood = true,
                Some(now) => (group.last, group.stood) = (now, false),
                None => choice.remove(id),
            }
            now.is_some()
        });
    }

    fn open(&mut self, counters: TaskCounters<3>, threads: Vec<TaskId>) {
        let mut has_descriptors = true;
        for id in threads {
            let opened = if has_descriptors { counters.count(id.tid).map(Some) } else { Ok(None) };
            has_descriptors &= !matches!(opened, Err(CountError::NoDescriptors(_)));
            match opened {
                Ok(Some(thread)) => match thread.read() {
                    Ok(last) => drop(self.groups.insert(id, Group { thread, last, stood: false })),
                    Err(_) => self.choice.refuse(id),
                },
                Ok(None) | Err(CountError::Ended | CountError::NoDescriptors(_)) => self.choice.remove(id),
                Err(_) => self.choice.refuse(id),
            }
        }
    }
}

#[cfg(test)]
mod tests;
