//! The maps of `bpf/latency.bpf.c`, word by word.

use crate::resources::LATENCY_CLASSES;

/// Words of `struct cpu`.
pub mod cpu {
    use super::{LATENCY_CLASSES, reason};

    pub const SINCE: usize = 0;
    pub const RUN: usize = 1;
    const WAITS: usize = 2;
    pub const CLUSTER: usize = 10;
    pub const LLC: usize = 11;
    pub const NODE: usize = 12;
    pub const SHARED: usize = 13;
    const TIMES: usize = 16;
    pub const MIGRATIONS: usize = TIMES + reason::PLACES * 2 * LATENCY_CLASSES;

    /// Returns the word of the sum of the waits for a reason.
    pub const fn waits(reason: usize) -> usize {
        WAITS + reason
    }

    /// Returns the first word of the histogram of the waits for a reason.
    pub const fn wait_times(reason: usize) -> usize {
        TIMES + reason * 2 * LATENCY_CLASSES
    }

    /// Returns the first word of the histogram of times off the CPU for a reason.
    pub const fn off_times(reason: usize) -> usize {
        wait_times(reason) + LATENCY_CLASSES
    }
}

/// Why a task is off its CPU.
pub mod reason {
    pub const NEW: usize = 0;
    pub const DISPLACED: usize = 1;
    pub const SLEEP: usize = 2;
    pub const DISK: usize = 3;
    pub const STOPPED: usize = 4;
    /// Number of reasons for which there is memory.
    pub const PLACES: usize = 8;
    /// Those of waits after a wake-up; a new task is woken too.
    pub const WAKEUP: [usize; 4] = [NEW, SLEEP, DISK, STOPPED];
}

/// Words of `struct machine`.
pub mod machine {
    pub const CLUSTERS: usize = 0;
    pub const CONFLICT: usize = 1;
    /// Added to the number of idle clusters.
    pub const BIAS: u64 = 1 << 20;
}
