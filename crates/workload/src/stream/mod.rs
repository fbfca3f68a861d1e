//! Memory bandwidth and latency: STREAM's kernels with ordinary and with non-temporal stores, a sum that only
//! reads, and a chain of loads each of which depends on the one before.
//!
//! Bytes are counted as STREAM counts them (J. D. `McCalpin`, "Memory Bandwidth and Machine Balance in
//! Current High Performance Computers", 1995): each element read or written counts once. If an ordinary store
//! first fetches the line that it writes to, that is not counted.
//!
//! Workers of [`Streams`] are threads that share arrays on each node. [`crate::LoadKind::Stream`] is the
//! corresponding load for threads and processes with their own memory; its parameter is a [`Task`].

mod chain;
mod kernels;
mod memory;
mod ring;
mod workers;

pub use ring::RUN_BYTES;
pub use workers::Streams;
pub(crate) use workers::{OwnMemory, Worker};

use chain::HOPS;
use ring::BLOCK;

/// An operation on the arrays `a`, `b` and `c` and a scalar `q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `c = a`.
    Copy,
    /// `b = q c`.
    Scale,
    /// `c = a + b`.
    Add,
    /// `a = b + q c`.
    Triad,
    /// The sum of `a`.
    Read,
    /// Loads from random addresses, one after the other.
    Chase,
}

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Through the caches: the line is fetched before it is written.
    Ordinary,
    /// Bypassing the caches, if the CPU can (x86-64 `movntpd`; on AArch64 `stnp`, which is a hint).
    NonTemporal,
}

/// A kernel with a kind of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The operation.
    pub kernel: Kernel,
    /// How results are stored; [`Stores::Ordinary`] if there are none.
    pub stores: Stores,
}

impl Kernel {
    /// All kernels that move data, in STREAM's order, followed by reading.
    pub const BANDWIDTH: [Self; 5] = [Self::Copy, Self::Scale, Self::Add, Self::Triad, Self::Read];

    /// Returns the name: `copy`, `scale`, `add`, `triad`, `read` or `chase`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
            Self::Read => "read",
            Self::Chase => "chase",
        }
    }

    /// Returns the kinds of stores that the kernel has on this architecture.
    pub const fn stores(self) -> &'static [Stores] {
        match self {
            Self::Read | Self::Chase => &[Stores::Ordinary],
            _ if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) => {
                &[Stores::Ordinary, Stores::NonTemporal]
            }
            _ => &[Stores::Ordinary],
        }
    }

    /// Returns the number of arrays that the kernel reads or writes.
    const fn arrays(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
            Self::Read => 1,
            Self::Chase => 0,
        }
    }
}

impl Stores {
    /// Returns the name: `ordinary` or `non-temporal`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::NonTemporal => "non-temporal",
        }
    }
}

impl Work {
    /// Reading in random order.
    pub const CHASE: Self = Self { kernel: Kernel::Chase, stores: Stores::Ordinary };

    /// Reading only.
    pub const READ: Self = Self { kernel: Kernel::Read, stores: Stores::Ordinary };

    /// All combinations. The index in this list is the number in a parameter.
    const ALL: [Self; 10] = [
        Self { kernel: Kernel::Copy, stores: Stores::Ordinary },
        Self { kernel: Kernel::Copy, stores: Stores::NonTemporal },
        Self { kernel: Kernel::Scale, stores: Stores::Ordinary },
        Self { kernel: Kernel::Scale, stores: Stores::NonTemporal },
        Self { kernel: Kernel::Add, stores: Stores::Ordinary },
        Self { kernel: Kernel::Add, stores: Stores::NonTemporal },
        Self { kernel: Kernel::Triad, stores: Stores::Ordinary },
        Self { kernel: Kernel::Triad, stores: Stores::NonTemporal },
        Self::READ,
        Self::CHASE,
    ];

    /// Returns the work of a tick: bytes as STREAM counts them, or loads for [`Kernel::Chase`].
    pub const fn per_tick(self) -> u64 {
        match self.kernel {
            Kernel::Chase => HOPS as u64,
            kernel => (kernel.arrays() * BLOCK * size_of::<f64>()) as u64,
        }
    }

    fn number(self) -> u64 {
        Self::ALL.iter().position(|work| *work == self).unwrap_or(0) as u64
    }
}

/// The task of a worker with its own memory, encoded in the parameter of [`crate::LoadKind::Stream`].
///
/// The worker allocates and touches its memory when it prepares, and keeps it as long as the node and the
/// size stay the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The kernel and its stores.
    pub work: Work,
    /// The node to which its memory is bound. If `None`, the kernel places the pages that the worker touches.
    pub node: Option<u16>,
    /// Bytes of one array, or of the chain; rounded down to a multiple of [`RUN_BYTES`], at least one.
    pub bytes: u64,
}

impl Task {
    /// Returns the task as a worker's parameter.
    pub fn parameter(self) -> u64 {
        let runs = (self.bytes / RUN_BYTES).clamp(1, u32::MAX.into());
        let node = self.node.map_or(0, |node| u64::from(node) + 1);
        runs | node << 32 | self.work.number() << 52
    }

    /// Decodes a parameter; `None` if it is invalid.
    fn from_parameter(parameter: u64) -> Option<Self> {
        let node = parameter >> 32 & 0xf_ffff;
        Some(Self {
            work: *Work::ALL.get((parameter >> 52) as usize)?,
            node: node.checked_sub(1).map(u16::try_from).transpose().ok()?,
            bytes: (parameter & u64::from(u32::MAX)) * RUN_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_counts_bytes_as_stream_does() {
        let of = |kernel| Work { kernel, stores: Stores::Ordinary }.per_tick();
        let array = (BLOCK * 8) as u64;
        assert_eq!(Kernel::BANDWIDTH.map(of), [2, 2, 3, 3, 1].map(|arrays| arrays * array));
        assert_eq!(Work::CHASE.per_tick(), HOPS as u64);
    }

    #[test]
    fn tasks_survive_being_a_parameter() {
        for work in Work::ALL {
            for node in [None, Some(0), Some(7), Some(u16::MAX)] {
                for runs in [1, 600, u32::MAX.into()] {
                    let task = Task { work, node, bytes: runs * RUN_BYTES };
                    assert_eq!(Task::from_parameter(task.parameter()), Some(task));
                }
            }
        }
        let least = Task { work: Work::READ, node: None, bytes: 5 };
        assert_eq!(Task::from_parameter(least.parameter()).map(|task| task.bytes), Some(RUN_BYTES));
        assert_eq!(Task::from_parameter(u64::MAX), None);
    }

    #[test]
    fn kernels_have_names_of_their_own() {
        let mut names = Kernel::BANDWIDTH.map(Kernel::name).to_vec();
        names.push(Kernel::Chase.name());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 6);
    }
}
