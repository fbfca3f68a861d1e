//! Cache lines that threads share: the data model of an observed program.
//!
//! An [`Observation`] is what an engine recorded, with addresses as they were in the program. The engine
//! itself looks up no file and no symbol. Names are added afterwards, in [`Process::names`], so that a saved
//! observation can be evaluated again at any time and on any machine. [`Findings::from_observation`] evaluates it.

mod conclusion;
mod evaluate;
mod fields;
mod findings;
mod fix;
mod hot_line;
mod layout;
mod names;
#[cfg(test)]
mod tests;

pub use conclusion::Conclusion;
pub use findings::{
    CodeSite, FINDINGS_SCHEMA, Finding, Findings, SeparableField, Settings, SharingClass, ThreadAccess,
    ThreadGroup,
};
pub use fix::Fix;
pub(crate) use fix::format_byte_ranges;
pub use hot_line::{Allocation, DataOwner, Variable};
pub use layout::LineLayout;
pub use names::{Code, Frame, GENERATED, Global, Names};

use serde::{Deserialize, Serialize};

/// Value of [`Observation::schema`] that this version writes.
pub const SHARING_SCHEMA: &str = "manycore/memory-accesses/1";

/// What was observed of one run of a program and of the processes that it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Always [`SHARING_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SHARING_SCHEMA)))]
    pub schema: String,
    /// How it was observed.
    pub engine: Engine,
    /// The command line that was observed.
    pub command: Vec<String>,
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// How the command ended.
    pub end: CommandEnd,
    /// Line layouts that were followed; the first is that of the machine.
    pub layouts: Vec<LineLayout>,
    /// The processes, the command's own first.
    pub processes: Vec<Process>,
    /// Number of processes that could not be observed because the shared memory region had no space for them.
    #[serde(default)]
    pub unobserved_processes: usize,
    /// What could not be observed, one sentence each.
    pub notes: Vec<String>,
}

/// How memory accesses were observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Engine {
    /// Every access, in an emulator of the program's instructions.
    Emulator {
        /// The emulator's name and version: `qemu-x86_64 version 7.2.22`.
        version: String,
    },
    /// Some accesses, recorded by the hardware.
    Sampling {
        /// The perf events: `cpu/mem-loads,ldlat=30/P`.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CommandEnd {
    /// It exited with this status.
    Status(i32),
    /// It was terminated by this signal.
    Signal(i32),
    /// It was stopped at the requested timeout.
    Timeout,
    /// It was stopped because the observer was interrupted.
    #[default]
    Interrupted,
}

/// What was recorded of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// Path of its program.
    pub program: String,
    /// Its threads, including those that have exited.
    pub threads: Vec<Thread>,
    /// Mapped files and their addresses.
    pub modules: Vec<MappedFile>,
    /// Lines that more than one thread accessed and at least one wrote.
    pub lines: Vec<SharedLine>,
    /// Number of accesses of all threads that were followed.
    pub accesses: u64,
    /// Number of accesses that were not followed, because the memory for that was used up or there were too
    /// many threads.
    #[serde(default)]
    pub unfollowed_accesses: u64,
    /// Whether the process executed another program that was not observed.
    #[serde(default)]
    pub ran_unobserved: bool,
    /// Names of its code and data; empty until they are looked up.
    #[serde(default)]
    pub names: Names,
}

/// One thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its kernel thread id.
    pub tid: i32,
    /// Its name, as last read from `/proc/PID/task/TID/comm`.
    pub name: String,
}

/// A part of a file that is mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappedFile {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Offset of the part in the file, in bytes.
    pub file_offset: u64,
    /// Path of the file.
    pub path: String,
}

/// A cache line that threads shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// Address of its first byte.
    pub address: u64,
    /// Index into [`Observation::layouts`].
    pub layout: usize,
    /// Number of cache-line transfers: a thread accessed the line after another thread had written it, or
    /// wrote it while other threads had it.
    pub transfers: u64,
    /// Number of those transfers that are due to false sharing. Between getting the line and losing it, the
    /// thread accessed no byte that others had written since it last had the line, and wrote no byte that
    /// they had accessed. On lines of their own, the bytes would not have caused these transfers.
    pub false_transfers: u64,
    /// The accesses, by thread, code and bytes.
    pub accesses: Vec<LineAccess>,
    /// The kind of memory that the line is in.
    pub memory: MemoryKind,
}

/// Accesses of one thread to the same bytes by the same instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineAccess {
    /// Index into [`Process::threads`].
    pub thread: usize,
    /// Address of the instruction. For accesses within a function that takes or releases a lock, the address
    /// of the call.
    pub code: u64,
    /// Whether `code` is a call of such a lock function.
    #[serde(default)]
    pub of_lock: bool,
    /// Offset of the first byte from the start of the line.
    pub offset: u32,
    /// Number of bytes, without those beyond the line's end; 0 where the engine does not record it.
    pub bytes: u32,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// What contains the first shared byte of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum MemoryKind {
    /// A mapped file (globals, statics), one of [`Process::modules`], or the memory that follows it (`.bss`).
    Module {
        /// Index into [`Process::modules`].
        module: usize,
    },
    /// Allocated heap blocks that overlap the line, by address.
    Heap {
        /// The blocks.
        blocks: Vec<HeapBlock>,
    },
    /// A thread's stack, which also holds its thread-local storage.
    Stack {
        /// Index into [`Process::threads`].
        thread: usize,
    },
    /// Other memory that the program mapped.
    Mapping {
        /// First address.
        start: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// Unknown.
    #[default]
    Unknown,
}

/// A block of heap memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeapBlock {
    /// First address.
    pub start: u64,
    /// Requested size in bytes.
    pub bytes: u64,
    /// Return addresses of the calls that led to the allocation, innermost first; at most 16.
    pub callers: Vec<u64>,
}
