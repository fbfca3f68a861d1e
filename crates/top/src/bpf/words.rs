//! The maps of `bpf/latency.bpf.c`, word by word.

use crate::resources::LATENCY_CLASSES;

/// Words of `struct cpu`.
pub mod cpu {
    pub const CLUSTER: usize = 0;
    pub const LLC: usize = 1;
    pub const NODE: usize = 2;
    pub const SHARED: usize = 3;
    pub const SINCE: usize = 5;
    pub const RUN: usize = 6;
    pub const WAKEUP: usize = 7;
    pub const DISPLACED: usize = 8;
    pub const MIGRATIONS: usize = 9;
    const HISTOGRAMS: usize = 13;

    /// Returns the first word of a histogram.
    pub const fn histogram(number: usize) -> usize {
        HISTOGRAMS + number * super::LATENCY_CLASSES
    }
}

/// Numbers of histograms: two of waits, then those of times off the CPU by reason.
pub mod histogram {
    pub const AFTER_WAKEUP: usize = 0;
    pub const DISPLACED: usize = 1;
    const OFF: usize = 2;
    pub const SLEEP: usize = OFF + 2;
    pub const DISK: usize = OFF + 3;
    pub const STOPPED: usize = OFF + 4;
}

/// Words of `struct machine`.
pub mod machine {
    pub const CLUSTERS: usize = 0;
    pub const CONFLICT: usize = 1;
    /// Added to the number of idle clusters.
    pub const BIAS: u64 = 1 << 20;
}
