//! Figures of the counters of CPUs: of threads, and of processes as sums.

use super::{ProcessUse, TaskUse};
use crate::sample::{CountedSample, Sample, TaskId};
use std::collections::BTreeMap;

/// Least share of a thread's time on CPUs in which its events must have been counted. Otherwise it has no figures: other
/// programs use the counters, or it ran on CPUs of another kind.
const LEAST_OF_TIME: f64 = 0.25;
/// Least share of a process's CPU time that counted threads must have used. Otherwise it has no figures.
const LEAST_OF_PROCESS: f64 = 0.9;

/// What counters of the CPUs counted of a thread or a process, per second of the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CountedUse {
    /// Cycles per second.
    pub cycles: f64,
    /// Instructions per second.
    pub instructions: f64,
    /// Cache misses per second.
    pub misses: f64,
}

impl CountedUse {
    /// Returns the instructions per cycle; `None` without cycles.
    pub fn ipc(&self) -> Option<f64> {
        (self.cycles > 0.0).then(|| self.instructions / self.cycles)
    }

    fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.misses += other.misses;
    }
}

/// Enters the figures of threads and processes, both of which are ascending.
pub(super) fn enter(
    before: &Sample,
    now: &Sample,
    seconds: f64,
    tasks: &mut [TaskUse],
    processes: &mut [ProcessUse],
) {
    let (Some(old), Some(new)) = (&before.counted, &now.counted) else { return };
    mark(old, new, seconds, tasks);
    for threads in tasks.chunk_by(|a, b| a.id.pid == b.id.pid) {
        if let Ok(at) = processes.binary_search_by_key(&threads[0].id.pid, |process| process.pid) {
            processes[at].counted = of_process(threads, processes[at].run);
        }
    }
}

/// Enters the figures of the threads that were counted in both samples.
fn mark(before: &[CountedSample], now: &[CountedSample], seconds: f64, tasks: &mut [TaskUse]) {
    let old: BTreeMap<TaskId, &CountedSample> = before.iter().map(|one| (one.id, one)).collect();
    for new in now {
        let at = tasks.binary_search_by_key(&new.id, |task| task.id);
        let (Ok(at), Some(old)) = (at, old.get(&new.id)) else { continue };
        let counts = new.counts.since(&old.counts, LEAST_OF_TIME);
        tasks[at].counted = counts.map(|counts| {
            let [cycles, instructions, misses] = counts.map(|count| count / seconds);
            Box::new(CountedUse { cycles, instructions, misses })
        });
    }
}

/// Returns the sum over threads of a process; `None` if those that were counted used less than 90 % of its CPU time `run`.
fn of_process(tasks: &[TaskUse], run: Option<f64>) -> Option<CountedUse> {
    let (mut sum, mut counted_run, mut is_counted) = (CountedUse::default(), 0.0, false);
    for (task, counted) in tasks.iter().filter_map(|task| Some((task, task.counted.as_ref()?))) {
        sum.add(counted);
        counted_run += task.run;
        is_counted = true;
    }
    (is_counted && counted_run >= run? * LEAST_OF_PROCESS).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::task;
    use manycore_linux::task_counters::EventCounts;

    fn sample(tid: u32, start: u64, ms: [u64; 2], counts: [u64; 3]) -> CountedSample {
        let [enabled_ns, running_ns] = ms.map(|ms| ms * 1_000_000);
        let counts = EventCounts { enabled_ns, running_ns, counts };
        CountedSample { id: TaskId { pid: 7, tid, start }, counts }
    }

    /// Returns the figures of thread 8 of process 7 in two seconds.
    fn figures(before: CountedSample, now: CountedSample) -> Option<CountedUse> {
        let mut tasks = vec![task(7, 0, 0.5, 0.0, "0"), task(8, 0, 0.5, 0.0, "0")];
        mark(&[before], &[now], 2.0, &mut tasks);
        assert_eq!(tasks[0].counted, None);
        tasks[1].counted.as_deref().copied()
    }

    fn use_of(cycles: f64, instructions: f64, misses: f64) -> CountedUse {
        CountedUse { cycles, instructions, misses }
    }

    #[test]
    fn figures_are_rates_between_two_samples() {
        let before = sample(8, 1, [100, 100], [1000, 50, 7]);
        let now = sample(8, 1, [1100, 1100], [5000, 8050, 9]);
        assert_eq!(figures(before, now), Some(use_of(2000.0, 4000.0, 1.0)));
        assert_eq!(figures(before, now).unwrap().ipc(), Some(2.0));
        // Counted in half of its time.
        assert_eq!(
            figures(before, sample(8, 1, [1100, 600], [3000, 4050, 8])),
            Some(use_of(2000.0, 4000.0, 1.0))
        );
        // In less than a quarter of it.
        assert_eq!(figures(before, sample(8, 1, [1100, 340], [3000, 4050, 8])), None);
        // It did not run.
        let idle = figures(before, before).unwrap();
        assert_eq!((idle, idle.ipc()), (CountedUse::default(), None));
    }

    #[test]
    fn a_thread_that_was_not_counted_before_has_none() {
        let now = sample(8, 1, [1100, 1100], [5000, 8050, 9]);
        // Another thread had its id.
        assert_eq!(figures(sample(8, 0, [100, 100], [1000, 50, 7]), now), None);
        assert_eq!(figures(sample(9, 1, [100, 100], [1000, 50, 7]), now), None);
        // A thread that is not in the picture.
        let other = sample(8, 2, [100, 100], [1000, 50, 7]);
        assert_eq!(figures(other, other), None);
    }

    #[test]
    fn a_process_has_the_sum_if_most_of_its_time_was_counted() {
        let counted = |tid, run, counted: Option<CountedUse>| TaskUse {
            counted: counted.map(Box::new),
            ..task(tid, 0, run, 0.0, "0")
        };
        let tasks = [
            counted(7, 0.5, Some(use_of(1000.0, 500.0, 3.0))),
            counted(8, 0.4, Some(use_of(3000.0, 3500.0, 4.0))),
            counted(9, 0.1, None),
        ];
        let sum = use_of(4000.0, 4000.0, 7.0);
        assert_eq!(of_process(&tasks, Some(1.0)), Some(sum));
        assert_eq!(sum.ipc(), Some(1.0));
        // Threads that have ended used the rest.
        assert_eq!(of_process(&tasks, Some(1.01)), None);
        assert_eq!(of_process(&tasks, None), None);
        assert_eq!(of_process(&tasks[2..], Some(0.0)), None);
        assert_eq!(of_process(&[], Some(0.0)), None);
    }
}
