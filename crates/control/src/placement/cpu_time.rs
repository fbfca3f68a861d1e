//! CPU time of processes that this program did not start.

use manycore_linux::tasks;
use std::collections::BTreeMap;

/// CPU time of processes that ran before this program started, and of their children. The kernel does not
/// add it up for any process of this program.
#[derive(Debug, Default)]
pub(super) struct CpuTimeTotal {
    /// CPU time at the first count.
    base_ns: Option<u64>,
    /// CPU time of ended processes whose parents are not among the processes.
    ended_ns: u64,
    /// For each process its CPU time including reaped children, and its parent.
    by_process: BTreeMap<u32, (u64, u32)>,
}

impl CpuTimeTotal {
    /// Counts the known processes, each with its start time, again. Returns the CPU time in nanoseconds
    /// since the first count. The CPU time of an ended process is added to its parent when the parent waits
    /// for it.
    pub(super) fn count(&mut self, known: &BTreeMap<u32, Option<u64>>) -> u64 {
        let running = known.iter().filter_map(|(&pid, start)| {
            let usage = tasks::usage(pid).filter(|usage| Some(usage.start) == *start)?;
            Some((pid, (usage.cpu_ns, usage.parent)))
        });
        self.take(running.collect())
    }

    fn take(&mut self, now: BTreeMap<u32, (u64, u32)>) -> u64 {
        let ended = self
            .by_process
            .iter()
            .filter(|(pid, (_, parent))| !now.contains_key(pid) && !now.contains_key(parent));
        self.ended_ns += ended.map(|(_, (used, _))| used).sum::<u64>();
        self.by_process = now;
        let total = self.ended_ns + self.by_process.values().map(|(used, _)| used).sum::<u64>();
        total.saturating_sub(*self.base_ns.get_or_insert(total))
    }
}

#[cfg(test)]
mod tests {
    use super::CpuTimeTotal;

    /// Regression test: a check of `pin` had no total. It observed 0.2 s of 1.7 s and reported that the plan
    /// held.
    #[test]
    fn processes_that_ended_between_scans_are_in_the_total() {
        let mut total = CpuTimeTotal::default();
        let mut at = |now: &[(u32, u64, u32)]| {
            total.take(now.iter().map(|&(pid, used, parent)| (pid, (used, parent))).collect())
        };
        assert_eq!(at(&[(10, 500, 1), (11, 100, 10)]), 0);
        assert_eq!(at(&[(10, 600, 1), (11, 300, 10)]), 300);
        // 11 has ended, and 10 has waited for it. Another process was created and ended between the scans.
        assert_eq!(at(&[(10, 600 + 310 + 40, 1)]), 350);
        // 10 has a child, which loses its parent.
        assert_eq!(at(&[(10, 960, 1), (12, 20, 10)]), 380);
        assert_eq!(at(&[(12, 30, 1)]), 390);
        assert_eq!(at(&[]), 390);
    }
}
