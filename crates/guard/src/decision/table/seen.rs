//! What is seen of a process, and found out about it.

use crate::decision::holdings::Kind;

/// A process's name as the kernel keeps it (`comm`): up to 15 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name([u8; 16]);

impl Name {
    /// The first 15 bytes.
    pub fn new(text: &[u8]) -> Self {
        let mut name = Self::default();
        let count = text.len().min(15);
        name.0[..count].copy_from_slice(&text[..count]);
        name
    }

    /// Without what is unused.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

/// Why a process is never chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shield {
    /// It is process 1.
    Init,
    /// It is the guard.
    Guard,
    /// It is a thread of the kernel.
    Kernel,
    /// The kernel is told to spare it (`oom_score_adj` is -1000).
    Spared,
    /// A rule names it: the number of the rule.
    Rule(u16),
}

/// Memory that a process was found to hold beside its own pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// KiB that it has grown by since nothing happened.
    pub growth_kib: u32,
    /// What most of it is.
    pub kind: Kind,
    /// Whether it stays when the process has ended.
    pub stays: bool,
}

/// What was read of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Process id.
    pub pid: u32,
    /// Start in clock ticks since boot (`starttime` of `/proc/PID/stat`): with the id it names one process for good.
    pub start: u64,
    /// Parent.
    pub parent: u32,
    /// Session.
    pub session: u32,
    /// Whether the session has a terminal.
    pub has_terminal: bool,
    /// Name.
    pub name: Name,
    /// Its own pages and swap, in KiB.
    pub kib: u32,
    /// Shared memory and files in memory that it has mapped, in KiB.
    pub shmem_kib: u32,
}
