//! What is read of a process, and what is found out about it.

use crate::decision::memory_objects::ObjectKind;
use manycore_linux::process_reader::ProcessName;

/// Why a process is never selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It is process 1.
    Init,
    /// It is the guard.
    Guard,
    /// It is a kernel thread.
    Kernel,
    /// The kernel must not kill it (`oom_score_adj` is -1000).
    OomExempt,
    /// A rule protects it: the number of the rule.
    Rule(u16),
}

/// Memory that a process holds in addition to its own pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraMemory {
    /// Growth in KiB since memory was last plentiful.
    pub growth_kib: u32,
    /// The kind of the largest part.
    pub kind: ObjectKind,
    /// Whether the memory stays in use after the process has ended.
    pub is_persistent: bool,
}

/// A reading of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessReading {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (`starttime` of `/proc/PID/stat`). Id and start time together
    /// identify a process uniquely.
    pub start: u64,
    /// Parent process id.
    pub parent: u32,
    /// Session id.
    pub session: u32,
    /// Whether the session has a controlling terminal.
    pub has_terminal: bool,
    /// Process name.
    pub name: ProcessName,
    /// Its own pages and swap, in KiB.
    pub kib: u32,
    /// Shared memory and files in memory that it has mapped, in KiB.
    pub shmem_kib: u32,
}
