//! The messages between the monitor thread and the slow path: requests and findings that are passed by value.

use crate::decision::{
    assessment::{Assessment, MemoryReading},
    cause::{CauseFinding, FamilyKey, Suspect},
    process_table::{ExtraMemory, ProcessEntry, Protection},
};

/// An event with the readings that led to it.
#[derive(Clone, Copy, Debug)]
pub struct MonitorEvent {
    /// Number of the rules that the sender applies. The receiver may already apply newer ones.
    pub rules: u32,
    /// Number of the watch in these rules.
    pub watch: usize,
    /// The reading.
    pub reading: MemoryReading,
    /// The assessment of the reading.
    pub assessment: Assessment,
    /// What happened.
    pub what: EventDetail,
}

/// An occurrence, or a request to the slow path.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would have to be allocated before a kill")]
pub enum EventDetail {
    /// Memory will run out; the finding names the cause.
    Warn(CauseFinding),
    /// A signal was sent, or would have been sent in a dry run.
    Sent(SignalSent),
    /// The process that was sent a signal has exited.
    Exited {
        /// The process.
        suspect: Suspect,
        /// What the processes have in common, if there are several.
        family: Option<FamilyKey>,
        /// Nanoseconds since the signal.
        after_ns: u64,
    },
    /// The process was killed but does not exit.
    Stuck(Suspect, Option<FamilyKey>),
    /// The shortage passed within the grace period. The process that was sent SIGTERM is left running.
    LeftRunning(Suspect, Option<FamilyKey>),
    /// A signal could not be sent: the error number.
    Refused(Suspect, i32),
    /// No eligible process is shown to have taken much.
    NoCause,
    /// Shared memory and files in memory grew by this many bytes, and no process is shown to have taken them.
    Files(u64),
    /// The shortage ended some time ago.
    Over,
    /// The watch can no longer be read: its group was removed or has no limit any more.
    Unreadable,
    /// The watch can be read again.
    Readable,
    /// Processes cannot be opened (`pidfd_open(2)`): the error number.
    CannotOpen(i32),
    /// This many processes did not fit into the table.
    Dropped(usize),
    /// A reading, for metrics and queries.
    Reading {
        /// Number of known processes.
        processes: usize,
        /// Duration of the last survey in nanoseconds.
        survey_ns: u64,
    },
    /// The answer to a query about a process.
    Answer(QueryAnswer),
    /// A request for the control group of a process.
    Identify {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
    },
    /// A request for the amount of a process's memory that other processes share.
    SharedSize {
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
pub struct SignalSent {
    /// The process that it was sent to.
    pub suspect: Suspect,
    /// What the processes have in common, if it was sent to several.
    pub family: Option<FamilyKey>,
    /// SIGKILL, not SIGTERM.
    pub is_kill: bool,
    /// Whether SIGTERM had been sent before.
    pub had_term: bool,
    /// The `oom_score`, if the process was selected by the last resort because no process is shown to be the
    /// cause.
    pub last_resort_score: Option<u32>,
    /// Nanoseconds from the end of the reading to the signal.
    pub after_ns: u64,
    /// Number of processes that it was sent to.
    pub count: u32,
}

/// What would happen to a process now.
#[derive(Clone, Copy, Debug)]
pub struct QueryAnswer {
    /// The process; absent if there is none with this id.
    pub process: Option<ProcessEntry>,
    /// Growth of the process in the recent decrease in bytes, and the size (bytes) and duration (nanoseconds)
    /// of that decrease.
    pub growth: Option<(u64, u64, u64)>,
    /// Whether the watch includes the process.
    pub is_watched: bool,
    /// The process that would be selected now.
    pub finding: CauseFinding,
}

/// A message from the slow path to the monitor thread.
pub enum SlowPathMessage {
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
        protection: Option<Protection>,
        /// See [`ProcessEntry::met_rules`].
        met_rules: u64,
    },
    /// KiB of a process that other processes share.
    Shared {
        /// Process id.
        pid: u32,
        /// Start time of the process.
        start: u64,
        /// See [`ProcessEntry::shared_kib`].
        kib: u32,
    },
    /// All processes, by id and start time, that hold memory outside the pages of any process.
    ExtraMemory(Vec<((u32, u64), ExtraMemory)>),
    /// Holdings cannot be determined: the kernel does not provide what is needed.
    NoSearch,
    /// A larger table and its working memory.
    Space(Box<crate::monitor::TableSpace>),
    /// A query about a process.
    Query(u32),
    /// New rules.
    Rules(Box<crate::monitor::WatchPlan>),
    /// The guard ends.
    Stop,
}
