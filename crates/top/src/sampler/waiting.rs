//! When the states of threads are read that have not run: a thread that waits for a CPU longer than the interval has
//! not run, so that its times show nothing.

use crate::sample::CpuTimes;
use manycore_topology::CpuId;

/// A search has this number of parts after the first one, one for each sample, so that none of them takes long.
const PARTS: u32 = 16;
/// Least and greatest number of samples between two searches.
const PAUSES: [u32; 2] = [8, 64];

/// Which threads are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Those that were active lately.
    Lately,
    /// One of each `PARTS` of the others.
    Other(u32),
}

impl Part {
    /// Returns whether it has a thread.
    pub fn has(self, tid: u32, was_active_lately: bool) -> bool {
        match self {
            Self::Lately => was_active_lately,
            Self::Other(part) => tid % PARTS == part,
        }
    }
}

/// Compares the number of tasks that the kernel counts as runnable with those that are known.
#[derive(Debug)]
pub(super) struct WaitingSearch {
    /// Whether the previous sample had runnable tasks that are not known.
    was_unknown: bool,
    /// The next part of a search; 0 is that of threads that were active lately.
    next: u32,
    /// Samples until the next search.
    left: u32,
    /// Samples between this search and the next one.
    pause: u32,
}

impl Default for WaitingSearch {
    fn default() -> Self {
        Self { was_unknown: false, next: 0, left: 0, pause: PAUSES[0] }
    }
}

impl WaitingSearch {
    /// Returns what to search in this sample. A search begins if two samples in a row had unknown runnable tasks, and ends
    /// with a sample without, or with its last part. Those tasks may be short runs, or in another namespace, so that
    /// searches that find nothing become rare.
    pub fn part(&mut self, runnable: Option<u64>, known: usize) -> Option<Part> {
        self.left = self.left.saturating_sub(1);
        let is_unknown = runnable.is_some_and(|runnable| runnable > known as u64);
        let is_due = is_unknown && self.was_unknown && self.left == 0;
        self.was_unknown = is_unknown;
        if !is_due {
            self.next = 0;
            return None;
        }
        let part = self.next.checked_sub(1).map_or(Part::Lately, Part::Other);
        self.next += 1;
        if self.next > PARTS {
            self.next = 0;
            self.left = self.pause;
            self.pause = (2 * self.pause).min(PAUSES[1]);
        }
        Some(part)
    }

    /// Notes that a part has found a task.
    pub fn found(&mut self) {
        (self.next, self.left, self.pause) = (0, 0, PAUSES[0]);
    }
}

/// Finds out whether a CPU was busy all the time between two samples. Elsewhere no thread can have waited so long.
#[derive(Debug, Default)]
pub(super) struct FullCpus {
    /// Idle time at the last sample in clock ticks, ascending by CPU.
    idle: Vec<(CpuId, u64)>,
}

impl FullCpus {
    /// Returns whether one of the CPUs, ascending, may have had no idle time since the last call. Times are exact to a tick.
    pub fn has_any(&mut self, cpus: &[CpuTimes]) -> bool {
        let idle: Vec<(CpuId, u64)> =
            cpus.iter().map(|one| (one.cpu, one.idle.wrapping_add(one.iowait))).collect();
        let before = std::mem::replace(&mut self.idle, idle);
        let is_full = |&(cpu, idle): &(CpuId, u64)| match before.binary_search_by_key(&cpu, |one| one.0) {
            Ok(at) => idle.saturating_sub(before[at].1) <= 1,
            Err(_) => true,
        };
        self.idle.iter().any(is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_without_idle_time_is_full() {
        let times = |idle: [u64; 2]| {
            [(0, idle[0]), (5, idle[1])].map(|(cpu, idle)| CpuTimes { cpu, idle, ..CpuTimes::default() })
        };
        let mut cpus = FullCpus::default();
        let all = [[10, 10], [12, 12], [13, 40], [20, 41], [22, 43]].map(|idle| cpus.has_any(&times(idle)));
        assert_eq!(all, [true, false, true, true, false]);
        assert!(!cpus.has_any(&times([30, 50])[..1]));
        assert!(cpus.has_any(&times([40, 60])), "it was offline");
    }

    #[test]
    fn a_search_has_all_threads_once_and_searches_become_rare() {
        let mut search = WaitingSearch::default();
        assert_eq!((search.part(Some(3), 3), search.part(None, 0)), (None, None));
        let parts: Vec<Option<Part>> = (0..200).map(|_| search.part(Some(4), 2)).collect();
        assert_eq!(parts[..3], [None, Some(Part::Lately), Some(Part::Other(0))]);
        let begins = |part: &(usize, &Option<Part>)| *part.1 == Some(Part::Lately);
        let begins: Vec<usize> = parts.iter().enumerate().filter(begins).map(|(sample, _)| sample).collect();
        // 17 parts, then 8, 16, 32 and 64 samples without one.
        assert_eq!(begins, [1, 25, 57, 105, 185]);
        let one = &parts[2..=1 + PARTS as usize];
        for tid in 0..100 {
            let with = one.iter().flatten().filter(|part| part.has(tid, false)).count();
            assert_eq!(with, 1);
        }
    }

    #[test]
    fn a_search_ends_without_unknown_tasks_and_begins_again_after_success() {
        let mut search = WaitingSearch::default();
        search.part(Some(4), 2);
        assert_eq!(search.part(Some(4), 2), Some(Part::Lately));
        assert_eq!(search.part(Some(2), 2), None);
        search.part(Some(4), 2);
        assert_eq!(search.part(Some(4), 2), Some(Part::Lately));
        search.found();
        assert_eq!(search.part(Some(4), 3), Some(Part::Lately));
    }
}
