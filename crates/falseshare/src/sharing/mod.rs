//! Cache lines that threads share: what was observed of a program.
//!
//! An [`Observation`] is what an engine saw, with addresses as they were in the program. It names no file and
//! no symbol: those are looked up afterwards and kept in [`Process::names`], so that it can be judged again any
//! time later, on any machine. [`Findings::of`] judges it.

mod cure;
mod fields;
mod findings;
mod judge;
mod names;
mod spot;
#[cfg(test)]
mod tests;

pub use cure::{Cure, Language, bytes};
pub use findings::{Class, FINDINGS_SCHEMA, Field, Finding, Findings, Party, Settings, Site, Touch};
pub use names::{Code, Frame, GENERATED, Global, Names};
pub use spot::{Allocation, Holder, Variable};

use serde::{Deserialize, Serialize};

/// Value of [`Observation::schema`] that this version writes.
pub const SHARING_SCHEMA: &str = "manycore/sharing/1";

/// What was seen of one run of a program and of the processes that it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Always [`SHARING_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// How it was observed.
    pub engine: Engine,
    /// The command line that was observed.
    pub command: Vec<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// How the command ended.
    pub end: End,
    /// Layouts of lines that were followed; the first is that of the machine.
    pub layouts: Vec<Layout>,
    /// The processes, the command's own first.
    pub processes: Vec<Process>,
    /// Processes of which nothing is known, as there was no room for them.
    #[serde(default)]
    pub unobserved: usize,
    /// What could not be observed, one sentence each.
    pub notes: Vec<String>,
}

/// How memory accesses were observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Engine {
    /// Every access, in an emulator of the program's instructions.
    Emulator {
        /// The program, as it names its version: `qemu-x86_64 version 7.2.22`.
        version: String,
    },
    /// Some accesses, told by the hardware.
    Sampling {
        /// The events: `cpu/mem-loads,ldlat=30/P`.
        events: Vec<String>,
        /// Samples that the kernel could not deliver.
        lost: u64,
    },
}

impl Default for Engine {
    fn default() -> Self {
        Self::Emulator { version: String::new() }
    }
}

/// How an observed command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It ended with this status.
    Status(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was ended after the time that was given to it.
    Timeout,
    /// It was ended because the observer was interrupted.
    #[default]
    Interrupted,
}

/// How addresses are divided into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of a line, a power of two.
    pub line_bytes: u32,
    /// Bytes by which lines start after a multiple of their size: what would be, had the program's data been
    /// laid out so.
    pub shift_bytes: u32,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The program.
    pub program: String,
    /// Its threads, also those that have ended.
    pub threads: Vec<Thread>,
    /// Files that were mapped, and where.
    pub modules: Vec<Module>,
    /// Lines that more than one thread touched and at least one wrote.
    pub lines: Vec<Line>,
    /// Accesses of all threads that were followed.
    pub accesses: u64,
    /// Accesses that were not, as the memory for that was used up or there were too many threads.
    #[serde(default)]
    pub unfollowed: u64,
    /// Whether it became a program that was not observed.
    #[serde(default)]
    pub escaped: bool,
    /// What its code and data are called; empty until they were looked up.
    #[serde(default)]
    pub names: Names,
}

/// One thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its kernel id.
    pub tid: i32,
    /// Its name, as `/proc/PID/task/TID/comm` told it at last.
    pub name: String,
}

/// A part of a file in the memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Where in the file the part begins, in bytes.
    pub file_offset: u64,
    /// The file.
    pub path: String,
}

/// A line that threads shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its first address.
    pub address: u64,
    /// Index into [`Observation::layouts`].
    pub layout: usize,
    /// Times that the line changed hands: a thread touched it that another had written since, or wrote it
    /// when others had it.
    pub hand_overs: u64,
    /// Those of them in which the thread, as long as it had the line, touched no byte that others had written
    /// since it had the line before, and wrote none that they had touched: they would not have been, had the
    /// bytes been on lines of their own.
    pub needless: u64,
    /// Who touched what, from where.
    pub accesses: Vec<Access>,
    /// What the program keeps there.
    pub place: Place,
}

/// Accesses of one thread to the same bytes by the same instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Index into [`Process::threads`].
    pub thread: usize,
    /// Address of the instruction; of the call, where it is part of a function that takes or gives back a lock.
    pub code: u64,
    /// Whether it is such a call.
    #[serde(default)]
    pub of_lock: bool,
    /// First byte, counted from the start of the line.
    pub offset: u32,
    /// Bytes, those beyond the line's end left out; 0 where the engine does not tell.
    pub bytes: u32,
    /// Times read.
    pub reads: u64,
    /// Times written.
    pub writes: u64,
}

/// What holds a line's first shared byte.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Place {
    /// A mapped file (globals, statics), one of [`Process::modules`], or memory that follows it (`.bss`).
    Module {
        /// Index into [`Process::modules`].
        module: usize,
    },
    /// Blocks of the allocator that overlap the line, in order of their address.
    Heap {
        /// The blocks.
        blocks: Vec<Block>,
    },
    /// A thread's stack, on which its thread-local storage is too.
    Stack {
        /// Index into [`Process::threads`].
        thread: usize,
    },
    /// Other memory that the program mapped.
    Mapping {
        /// First address.
        start: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Nobody told.
    #[default]
    Unknown,
}

/// A block of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// First address.
    pub start: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Addresses to which the calls return that led to the allocation, innermost first; at most 16.
    pub callers: Vec<u64>,
}
