//! What happened, as the kernel reports it.

use super::EventLog;
use crate::sample::TaskName;
use manycore_topology::CpuId;
use std::collections::BTreeSet;

/// A task in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TracedTask {
    /// Its process; 0 for the idle task of a CPU.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name at that moment.
    pub name: TaskName,
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departure {
    /// It could have run on.
    Displaced,
    /// It waits for an event.
    Sleep,
    /// It waits and cannot be interrupted: mostly for a disk.
    Disk,
    /// It was stopped, is traced, or is frozen.
    Stopped,
    /// It ended.
    Ended,
}

impl Departure {
    /// The reason in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Displaced => "displaced",
            Self::Sleep => "sleep",
            Self::Disk => "disk",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }

    /// Returns the reason from the kernel's state of a task (`include/linux/sched.h`).
    pub(crate) fn of_state(state: u32) -> Self {
        const UNINTERRUPTIBLE: u32 = 0x2;
        const STOPPED: u32 = 0x4 | 0x8 | 0x8000;
        const ENDED: u32 = 0x10 | 0x20 | 0x80;
        // Kernel threads without work are uninterruptible, but do not count as load.
        const NO_LOAD: u32 = 0x400;
        match state {
            0 => Self::Displaced,
            state if state & ENDED != 0 => Self::Ended,
            state if state & STOPPED != 0 => Self::Stopped,
            state if state & UNINTERRUPTIBLE != 0 && state & NO_LOAD == 0 => Self::Disk,
            _ => Self::Sleep,
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// The CPU: of a wake-up that on which the task is to run, of a migration the old one.
    pub cpu: CpuId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A CPU changed from one task to another.
    Switch {
        /// The task that left.
        from: TracedTask,
        /// Why it left.
        why: Departure,
        /// The task that runs from now on.
        to: TracedTask,
    },
    /// A task became runnable.
    Wakeup {
        /// The task.
        task: TracedTask,
        /// The task that ran on the CPU which woke it. An interrupt may have been the cause.
        waker: TracedTask,
    },
    /// A task was given another CPU.
    Migration {
        /// The task.
        task: TracedTask,
        /// The new CPU.
        to: CpuId,
    },
}

/// All events of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// When it began and ended: `CLOCK_MONOTONIC` in nanoseconds.
    pub span: (u64, u64),
    /// The events, in any order.
    pub events: EventLog,
    /// The processes whose tasks are watched; `None` for all.
    pub watched: Option<BTreeSet<u32>>,
    /// Number of events that were lost because they came too fast.
    pub lost: u64,
    /// Number of processes that watched ones started, and that are not watched because there are too many.
    pub unwatched: u64,
    /// Whether recording ended because there were as many events as wanted at most.
    pub is_full: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_the_kernel_have_a_reason() {
        let states = [0, 1, 2, 0x402, 4, 8, 0x80, 0x10, 0x8000, 0x102, 0x200];
        let words = states.map(|state| Departure::of_state(state).word());
        let expected = [
            "displaced",
            "sleep",
            "disk",
            "sleep",
            "stopped",
            "stopped",
            "ended",
            "ended",
            "stopped",
            "disk",
            "sleep",
        ];
        assert_eq!(words, expected);
    }
}
