//! The messages between the monitor thread and the slow path: requests and findings that are passed by value.

use crate::decision::{
    choice::{Finding, Kin, Suspect},
    stage::{Assessment, Reading},
    table::{Held, Process, Shield},
};

/// An event with the readings that led to it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Number of the rules that the sender applies. The receiver may already apply newer ones.
    pub rules: u32,
    /// Number of the watch in these rules.
    pub watch: usize,
    /// The reading.
    pub reading: Reading,
    /// The assessment of the reading.
    pub told: Assessment,
    /// The kind of a decision or notice.
    pub what: What,
}

/// An occurrence, or a request to the slow path.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would have to be allocated before a kill")]
pub enum What {
    /// Memory will run out; the finding names the cause.
    Warn(Finding),
    /// A signal was sent, or would have been sent in a dry run.
    Sent(Sent),
    /// The process that was sent a signal has exited.
    Gone {
        /// The process.
        suspect: Suspect,
        /// What the processes have in common, if there are several.
        kin: Option<Kin>,
        /// Nanoseconds since the signal.
        after_ns: u64,
    },
    /// The process was killed but does not exit.
    Stuck(Suspect, Option<Kin>),
    /// The shortage passed within the grace period. The process that was sent SIGTERM is left running.
    Spare(Suspect, Option<Kin>),
    /// A signal could not be sent: the error number.
    Refused(Suspect, i32),
    /// No eligible process is shown to have taken much.
    Nobody,
    /// Shared memory and files in memory grew by this many bytes, and no process is shown to have taken them.
    Files(u64),
    /// The shortage ended some time ago.
    Over,
    /// The watch can no longer be read: its group was removed or has no limit any more.
    Blind,
    /// The watch can be read again.
    Sighted,
    /// Processes cannot be opened (`pidfd_open(2)`): the error number.
    Lame(i32),
    /// This many processes did not fit into the table.
    LeftOut(usize),
    /// A reading, for metrics and queries.
    Look {
        /// Number of known processes.
        processes: usize,
        /// Duration of the last survey in nanoseconds.
        survey_ns: u64,
    },
    /// The answer to a query about a process.
    Answer(Answer),
    /// A request for the control group of a process.
    Identify {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
    },
    /// A request for the amount of a process's memory that other processes share.
    Share {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
    },
    /// A request for the processes that hold memory outside the pages of any process.
    SeekHolders,
}

/// A signal that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The process that it was sent to.
    pub suspect: Suspect,
    /// What the processes have in common, if it was sent to several.
    pub kin: Option<Kin>,
    /// SIGKILL, not SIGTERM.
    pub is_kill: bool,
    /// Whether SIGTERM had been sent before.
    pub was_asked: bool,
    /// The `oom_score`, if the process was selected by the last resort because no process is shown to be the
    /// cause.
    pub resort: Option<u32>,
    /// Nanoseconds from the end of the reading to the signal.
    pub after_ns: u64,
    /// Number of processes that it was sent to.
    pub count: u32,
}

/// What would happen to a process now.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The process; absent if there is none with this id.
    pub process: Option<Process>,
    /// Growth of the process in the recent decrease in bytes, and the size (bytes) and duration (nanoseconds)
    /// of that decrease.
    pub growth: Option<(u64, u64, u64)>,
    /// Whether the watch includes the process.
    pub is_watched: bool,
    /// The process that would be selected now.
    pub finding: Finding,
}

/// A message from the slow path to the monitor thread.
pub enum Fact {
    /// The control group of a process.
    Group {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
        /// Number of the group, from 1.
        group: u16,
        /// Watches that include the group: bit `n` for the `n`-th.
        watches: u32,
        /// Why no process in it is selected.
        shield: Option<Shield>,
        /// See [`Process::proof`].
        proof: u64,
    },
    /// KiB of a process that other processes share.
    Shared {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
        /// See [`Process::shared_kib`].
        kib: u32,
    },
    /// All processes, by id and start time, that hold memory outside the pages of any process.
    Holdings(Vec<((u32, u64), Held)>),
    /// Holdings cannot be determined: the kernel does not provide what is needed.
    NoHoldings,
    /// A larger table and its working memory.
    Room(Box<crate::watcher::Room>),
    /// A query about a process.
    Why(u32),
    /// New rules.
    Rules(Box<crate::watcher::Plan>),
    /// The guard ends.
    Stop,
}
