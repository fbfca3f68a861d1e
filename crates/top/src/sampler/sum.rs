//! For which processes the kernel keeps the sum of the CPU time, so that their clock is read without a visit of all threads.

use super::context::Context;
use manycore_linux::kept_sum::KeptSum;
use rustix::io::Errno;
use std::ops::RangeInclusive;

/// Numbers of threads with which it is worth it. The times of fewer threads are added up in microseconds; those of more would be
/// added up with interrupts disabled for many milliseconds when the sum begins.
const THREADS: RangeInclusive<usize> = 64..=16_384;
/// Most active threads of such a process.
const MOST_ACTIVE: usize = 32;
/// Most times per second that its threads are put on a CPU. The kernel adds to the sum each time, which takes 20 ns.
const MOST_SLICES: u64 = 20_000;

/// Whether the kernel keeps the sum of a process.
#[derive(Debug, Default)]
pub(super) enum ProcessSum {
    /// Not yet.
    #[default]
    No,
    /// Yes, until this is dropped.
    Kept { _sum: KeptSum },
    /// Not again: its threads were too active.
    Never,
}

/// What a process did in the interval before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// Its threads, and those of them that were active.
    pub threads: usize,
    pub active: usize,
    /// How many times these were put on a CPU.
    pub slices: u64,
}

impl ProcessSum {
    /// Returns whether the kernel keeps the sum.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept { .. })
    }

    /// Begins or ends to keep the sum. Returns whether it did either: then the clock may differ by a constant from before.
    pub fn choose(&mut self, pid: u32, activity: Activity, context: &mut Context) -> bool {
        let most = u128::from(MOST_SLICES) * u128::from(context.elapsed_ns) / 1_000_000_000;
        let is_calm = activity.active <= MOST_ACTIVE && u128::from(activity.slices) <= most;
        match self {
            Self::Kept { .. } if !is_calm => *self = Self::Never,
            Self::No if is_calm && context.can_keep_sums && THREADS.contains(&activity.threads) => {
                match KeptSum::of_process(pid) {
                    Ok(sum) => *self = Self::Kept { _sum: sum },
                    Err(error) => {
                        // Otherwise the process has ended.
                        let is_ended = [Errno::SRCH, Errno::INVAL].map(Errno::raw_os_error);
                        context.can_keep_sums =
                            error.raw_os_error().is_some_and(|code| is_ended.contains(&code));
                        return false;
                    }
                }
            }
            _ => return false,
        }
        true
    }
}
