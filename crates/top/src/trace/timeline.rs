//! From events to intervals.

use super::{Departure, EventKind, Recording, TracedTask};
use manycore_topology::CpuId;
use std::collections::{BTreeMap, BTreeSet};

/// An interval in which a task ran on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSlice {
    /// The CPU.
    pub cpu: CpuId,
    /// Begin and end, `CLOCK_MONOTONIC` in nanoseconds.
    pub span: (u64, u64),
    /// The task, never an idle one.
    pub task: TracedTask,
    /// Whether it is one of the watched tasks.
    pub is_watched: bool,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It runs on a CPU.
    Running(CpuId),
    /// It could run, and waits for this CPU, after a wake-up.
    WaitingAfterWakeup(CpuId),
    /// It could run, and waits for this CPU, on which it was displaced.
    WaitingDisplaced(CpuId),
    /// It is off the CPU for a reason.
    Off(Departure),
}

/// An interval in which a watched thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSlice {
    /// The thread.
    pub task: TracedTask,
    /// Begin and end, as in [`CpuSlice::span`].
    pub span: (u64, u64),
    /// The state.
    pub state: ThreadState,
    /// Whether both begin and end were seen: the interval is not cut off by those of the recording.
    pub is_whole: bool,
}

/// An event without duration of a watched thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// The thread.
    pub task: TracedTask,
    /// What happened.
    pub kind: MarkKind,
}

/// What a [`Mark`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// It was woken, for a CPU.
    Wakeup {
        /// The task that ran on the CPU which woke it.
        waker: TracedTask,
        /// The CPU on which it is to run.
        cpu: CpuId,
    },
    /// It was given another CPU.
    Migration {
        /// The old CPU.
        from: CpuId,
        /// The new CPU.
        to: CpuId,
    },
}

/// Intervals and marks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Begin and end of the recording.
    pub span: (u64, u64),
    /// What ran on the CPUs that watched tasks have used, in the order of their ends.
    pub cpus: Vec<CpuSlice>,
    /// States of the watched threads, in the order of their ends.
    pub threads: Vec<ThreadSlice>,
    /// Marks by time.
    pub marks: Vec<Mark>,
}

impl Timeline {
    /// Puts the events of a recording in order.
    pub fn new(recording: &Recording) -> Self {
        let mut builder = Builder::new(recording.watched.as_ref(), recording.span);
        for event in recording.events.by_time() {
            match event.kind {
                EventKind::Switch { from, why, to } => builder.switch(event.at_ns, event.cpu, from, why, to),
                EventKind::Wakeup { task, waker } => builder.wakeup(event.at_ns, event.cpu, task, waker),
                EventKind::Migration { task, to } => builder.migration(event.at_ns, event.cpu, task, to),
            }
        }
        builder.finish()
    }
}

/// What is known of a thread: its state, since when, and whether that moment was seen.
type Known = (TracedTask, ThreadState, u64, bool);

struct Builder<'a> {
    watched: Option<&'a BTreeSet<u32>>,
    running: BTreeMap<CpuId, (TracedTask, u64)>,
    threads: BTreeMap<u32, Known>,
    timeline: Timeline,
}

impl<'a> Builder<'a> {
    fn new(watched: Option<&'a BTreeSet<u32>>, span: (u64, u64)) -> Self {
        let timeline = Timeline { span, ..Timeline::default() };
        Self { watched, running: BTreeMap::new(), threads: BTreeMap::new(), timeline }
    }

    fn is_watched(&self, task: TracedTask) -> bool {
        task.tid != 0 && self.watched.is_none_or(|watched| watched.contains(&task.pid))
    }

    fn switch(&mut self, at: u64, cpu: CpuId, from: TracedTask, why: Departure, to: TracedTask) {
        let begun = match self.running.remove(&cpu) {
            Some((task, since)) if task.tid == from.tid => Some(since),
            // A switch between was lost.
            Some(_) => None,
            // The first switch of this CPU: the task ran before. It may have begun long before the first event of the CPU,
            // so that only a watched one is known to have run.
            None => self.is_watched(from).then_some(self.timeline.span.0),
        };
        if from.tid != 0
            && let Some(begun) = begun
        {
            let slice = CpuSlice { cpu, span: (begun, at), task: from, is_watched: self.is_watched(from) };
            self.timeline.cpus.push(slice);
        }
        self.running.insert(cpu, (to, at));
        if self.is_watched(from) {
            // Seen for the first time, it has run since before.
            let known = (from, ThreadState::Running(cpu), begun.unwrap_or(at), false);
            self.threads.entry(from.tid).or_insert(known);
            let state = match why {
                Departure::Displaced => Some(ThreadState::WaitingDisplaced(cpu)),
                Departure::Ended => None,
                why => Some(ThreadState::Off(why)),
            };
            self.become_state(at, from, state);
        }
        if self.is_watched(to) {
            self.become_state(at, to, Some(ThreadState::Running(cpu)));
        }
    }

    fn wakeup(&mut self, at: u64, cpu: CpuId, task: TracedTask, waker: TracedTask) {
        if !self.is_watched(task) {
            return;
        }
        self.timeline.marks.push(Mark { at_ns: at, task, kind: MarkKind::Wakeup { waker, cpu } });
        // A task can be woken that has not left its CPU yet.
        if self.threads.get(&task.tid).is_none_or(|known| matches!(known.1, ThreadState::Off(_))) {
            self.become_state(at, task, Some(ThreadState::WaitingAfterWakeup(cpu)));
        }
    }

    fn migration(&mut self, at: u64, from: CpuId, task: TracedTask, to: CpuId) {
        if !self.is_watched(task) {
            return;
        }
        self.timeline.marks.push(Mark { at_ns: at, task, kind: MarkKind::Migration { from, to } });
        // The wait goes on, for another CPU.
        if let Some((_, ThreadState::WaitingAfterWakeup(cpu) | ThreadState::WaitingDisplaced(cpu), ..)) =
            self.threads.get_mut(&task.tid)
        {
            *cpu = to;
        }
    }

    /// Ends the state of a thread and begins the next one; `None` if the thread has ended.
    fn become_state(&mut self, at: u64, task: TracedTask, next: Option<ThreadState>) {
        let old = match next {
            Some(state) => self.threads.insert(task.tid, (task, state, at, true)),
            None => self.threads.remove(&task.tid),
        };
        if let Some((_, state, since, is_seen)) = old {
            // Named as at its end: a program renames its thread when it begins.
            let slice = ThreadSlice { task, span: (since, at), state, is_whole: is_seen };
            self.timeline.threads.push(slice);
        }
    }

    fn finish(mut self) -> Timeline {
        let end = self.timeline.span.1;
        for (&cpu, &(task, since)) in &self.running {
            if task.tid != 0 {
                let slice =
                    CpuSlice { cpu, span: (since, end.max(since)), task, is_watched: self.is_watched(task) };
                self.timeline.cpus.push(slice);
            }
        }
        for &(task, state, since, _) in self.threads.values() {
            let slice = ThreadSlice { task, span: (since, end.max(since)), state, is_whole: false };
            self.timeline.threads.push(slice);
        }
        self.timeline
    }
}

#[cfg(test)]
mod tests;
