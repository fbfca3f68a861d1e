//! How long all threads of some processes have run and waited for a CPU, between two readings.
//!
//! The kernel has the time of waiting only by thread (`/proc/PID/task/TID/schedstat`,
//! `Documentation/scheduler/sched-stats.rst`), and no total that includes threads that have ended. The CPU time of a process
//! does include them (`/proc/PID/stat`, fields 14 and 15).

use crate::{clock, counters::ticks_per_second, tasks::ThreadTimes};
use manycore_topology::sys_tree::SysTree;
use std::collections::BTreeMap;

/// The times of the threads of some processes since their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    processes: BTreeMap<u32, OneProcess>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OneProcess {
    /// CPU time in nanoseconds, that of threads that have ended included.
    cpu_ns: u64,
    /// Time of waiting for a CPU in nanoseconds, by thread.
    waits_ns: BTreeMap<u32, u64>,
}

impl ProcessTimes {
    /// Reads the times of all threads of `pids`. Processes that do not exist are left out.
    pub fn read(tree: &SysTree, pids: &[u32]) -> Self {
        let one = |&pid: &u32| Some((pid, OneProcess::read(tree, pid)?));
        Self { processes: pids.iter().filter_map(one).collect() }
    }

    /// Returns the increase since `before`.
    ///
    /// A thread or process that `before` does not have is taken to have begun since, so that all its time counts. The time
    /// of waiting of a thread that has ended since is lost. So is the CPU time of a process that has ended.
    pub fn since(&self, before: &Self) -> ThreadTimes {
        let mut times = ThreadTimes::default();
        for (pid, now) in &self.processes {
            let old = before.processes.get(pid);
            times.run_ns += increase(old.map(|old| old.cpu_ns), now.cpu_ns);
            for (tid, &wait_ns) in &now.waits_ns {
                times.wait_ns += increase(old.and_then(|old| old.waits_ns.get(tid)).copied(), wait_ns);
            }
        }
        times
    }
}

/// Returns the increase of a counter. One that is smaller than before is of another thread with the same id.
fn increase(before: Option<u64>, now: u64) -> u64 {
    before.and_then(|before| now.checked_sub(before)).unwrap_or(now)
}

impl OneProcess {
    fn read(tree: &SysTree, pid: u32) -> Option<Self> {
        let folder = format!("proc/{pid}");
        let ticks = parse_ticks(&tree.read(&format!("{folder}/stat"))?)?;
        // The clock of a process has no ticks, but exists only for those of the running system.
        let exact = tree.is_live().then(|| clock::process_cpu_ns(pid)).flatten();
        let wait = |tid: u32| {
            let text = tree.read(&format!("{folder}/task/{tid}/schedstat"))?;
            Some((tid, parse_wait(&text)?))
        };
        let threads = tree.list(&format!("{folder}/task"));
        Some(Self {
            cpu_ns: exact.unwrap_or(ticks.saturating_mul(1_000_000_000 / ticks_per_second())),
            waits_ns: threads.iter().filter_map(|tid| wait(tid.parse().ok()?)).collect(),
        })
    }
}

/// Whether the kernel counts the time of waiting (`CONFIG_SCHED_INFO`).
pub fn has_waits(tree: &SysTree) -> bool {
    tree.read("proc/self/schedstat").is_some_and(|text| parse_wait(&text).is_some())
}

/// Returns the CPU time in ticks from `stat`, whose second field is a name in brackets with any characters.
fn parse_ticks(text: &str) -> Option<u64> {
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    user.checked_add(words.next()?.parse().ok()?)
}

/// `schedstat` has the time on a CPU, the time of waiting for one, and the number of time slices.
fn parse_wait(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;
    use proptest::prelude::*;
    use std::path::Path;

    /// A process with its CPU time in ticks and the waits of its threads.
    type Process<'a> = (u32, u64, &'a [(u32, u64)]);

    fn tree(processes: &[Process]) -> SysTree {
        let mut capture = Capture::default();
        for (pid, ticks, threads) in processes {
            let stat = format!("{pid} (a) R (b) S 1 2 3 0 -1 4194560 5 6 7 8 {ticks} 3 0 0 20 0 2 0 99");
            capture.add_file(&format!("proc/{pid}/stat"), &stat);
            for (tid, wait) in *threads {
                capture.add_file(&format!("proc/{pid}/task/{tid}/schedstat"), &format!("54426 {wait} 1"));
            }
        }
        SysTree::from_capture(capture)
    }

    #[test]
    fn threads_that_begin_and_end_in_between_are_handled() {
        let before =
            ProcessTimes::read(&tree(&[(7, 10, &[(7, 100), (8, 50)]), (9, 4, &[(9, 1)])]), &[7, 9, 11]);
        let after = tree(&[(7, 15, &[(7, 130), (12, 40)]), (11, 2, &[(11, 6)])]);
        let after = ProcessTimes::read(&after, &[7, 9, 11]);
        let tick = 1_000_000_000 / ticks_per_second();
        // Thread 8 and process 9 have ended, thread 12 and process 11 have begun.
        assert_eq!(after.since(&before), ThreadTimes { run_ns: (5 + 5) * tick, wait_ns: 30 + 40 + 6 });
        assert_eq!(before.since(&before), ThreadTimes::default());
        // The ids belong to other threads now.
        let reused = ProcessTimes::read(&tree(&[(7, 1, &[(7, 3)])]), &[7]);
        assert_eq!(reused.since(&before), ThreadTimes { run_ns: 4 * tick, wait_ns: 3 });
    }

    #[test]
    fn times_of_this_process_grow_with_its_work() {
        let tree = SysTree::open(Path::new("/")).unwrap();
        let pids = [std::process::id()];
        let before = ProcessTimes::read(&tree, &pids);
        let grown = || ProcessTimes::read(&tree, &pids).since(&before);
        while grown().run_ns < 2_000_000 {}
        assert_ne!(has_waits(&tree), before.processes[&pids[0]].waits_ns.is_empty());
    }

    proptest! {
        #[test]
        fn hostile_text_breaks_no_parser(text in "[0-9 ()]{0,200}|\\PC{0,80}") {
            let _ = (parse_ticks(&text), parse_wait(&text));
        }
    }
}
