//! What the watcher tells the clerk, and what the clerk finds out for him: values that are copied.

use crate::decision::{
    choice::{Finding, Kin, Suspect},
    stage::{Assessment, Reading},
    table::{Held, Process, Shield},
};

/// Something to be told, with the figures that it followed from.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Number of the rules that count where it comes from: later ones may count already where it goes.
    pub rules: u32,
    /// Number of the watch in them.
    pub watch: usize,
    /// What was read.
    pub reading: Reading,
    /// What follows from it.
    pub told: Assessment,
    /// What happened.
    pub what: What,
}

/// What happened, or is wanted.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would have to be allocated on the way to a kill")]
pub enum What {
    /// Memory will run out; who it is that takes it.
    Warn(Finding),
    /// Somebody was sent a signal, or would have been.
    Sent(Sent),
    /// Whoever was sent one is gone.
    Gone {
        /// Who.
        suspect: Suspect,
        /// What they have in common, where they were several.
        kin: Option<Kin>,
        /// Nanoseconds since the signal.
        after_ns: u64,
    },
    /// Somebody was killed and does not go away.
    Stuck(Suspect, Option<Kin>),
    /// The danger passed before the time of grace was over; whoever was asked to end may live.
    Spare(Suspect, Option<Kin>),
    /// A signal could not be sent: the error number.
    Refused(Suspect, i32),
    /// No process that may be chosen is shown to have taken much.
    Nobody,
    /// Shared memory and files in memory have grown by so many bytes, and no process is shown to have taken them.
    Files(u64),
    /// The danger has been over for a while.
    Over,
    /// The watch can be read no more: its group is gone, or has no limit now.
    Blind,
    /// It can be read again.
    Sighted,
    /// Processes cannot be taken hold of: the error number.
    Lame(i32),
    /// So many processes had no place in the table.
    LeftOut(usize),
    /// A reading, for metrics and for those who ask.
    Look {
        /// Processes that are known.
        processes: usize,
        /// What the last survey of them took, in nanoseconds.
        survey_ns: u64,
    },
    /// The answer to a question about a process.
    Answer(Answer),
    /// Which control group is this one in?
    Identify {
        /// Process id.
        pid: u32,
        /// Its start.
        start: u64,
    },
    /// How much of this one's memory do others have too?
    Share {
        /// Process id.
        pid: u32,
        /// Its start.
        start: u64,
    },
    /// Which processes hold memory that is in no process's pages?
    SeekHolders,
}

/// A signal.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// To whom.
    pub suspect: Suspect,
    /// To all who have this in common, where it is more than one process.
    pub kin: Option<Kin>,
    /// SIGKILL, not SIGTERM.
    pub is_kill: bool,
    /// It had been asked before.
    pub was_asked: bool,
    /// It was chosen by policy, because no process is shown to be the cause: its `oom_score`.
    pub resort: Option<u32>,
    /// Nanoseconds from the end of the reading to the signal.
    pub after_ns: u64,
    /// Processes that were sent it at once.
    pub count: u32,
}

/// What would happen to a process now.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// It; absent where there is none of that id.
    pub process: Option<Process>,
    /// Bytes that it took in the recent fall, and the bytes and nanoseconds of that fall.
    pub growth: Option<(u64, u64, u64)>,
    /// Whether the watch includes it.
    pub is_watched: bool,
    /// Who would be chosen now.
    pub finding: Finding,
}

/// What the clerk has found out, or wants.
pub enum Fact {
    /// The control group of a process.
    Group {
        /// Process id.
        pid: u32,
        /// Its start.
        start: u64,
        /// The group's number, from 1.
        group: u16,
        /// Watches that include the group: bit by number.
        watches: u32,
        /// Why nobody in it is chosen.
        shield: Option<Shield>,
        /// See [`Process::proof`].
        proof: u64,
    },
    /// KiB that others have too.
    Shared {
        /// Process id.
        pid: u32,
        /// Its start.
        start: u64,
        /// See [`Process::shared_kib`].
        kib: u32,
    },
    /// Processes, by id and start, that hold memory which is in no process's pages: all that there are.
    Holdings(Vec<((u32, u64), Held)>),
    /// This cannot be found out: the kernel does not tell what it takes.
    NoHoldings,
    /// Room for more processes.
    Room(Box<crate::watcher::Room>),
    /// Somebody asks about a process.
    Why(u32),
    /// Other rules count from now on.
    Rules(Box<crate::watcher::Plan>),
    /// The end.
    Stop,
}
