//! Which CPUs are busy with tasks that are not watched, from the ticks in `/proc/stat`.

use manycore_linux::counters::{CpuTicks, KernelCounters, ticks_per_second};
use manycore_topology::CpuId;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

/// Time between two readings. A tick is 10 ms on nearly all kernels, so a share of a CPU is exact to 4 %.
const WINDOW: Duration = Duration::from_millis(250);

/// A CPU is busy with other work if that used this share of its time.
const BUSY: f64 = 0.5;

/// Reads the ticks of all CPUs now and then.
#[derive(Debug)]
pub(crate) struct OtherWork {
    kernel: KernelCounters,
    began: Instant,
    before: Vec<CpuTicks>,
    window: Window,
    busy: BTreeSet<CpuId>,
}

/// In how many snapshots since the last reading a watched task was running, by CPU.
#[derive(Debug, Default)]
struct Window {
    snapshots: u32,
    watched: BTreeMap<CpuId, u32>,
}

impl OtherWork {
    pub(crate) fn new() -> Self {
        let kernel = KernelCounters::at(Path::new("/"));
        let before = kernel.cpu_ticks();
        Self { kernel, began: Instant::now(), before, window: Window::default(), busy: BTreeSet::new() }
    }

    /// Adds a snapshot, given the CPUs with a running watched task. Returns the CPUs that were busy with other work
    /// before the last reading.
    pub(crate) fn update(&mut self, watched: impl Iterator<Item = CpuId>) -> &BTreeSet<CpuId> {
        self.window.snapshots += 1;
        watched.for_each(|cpu| *self.window.watched.entry(cpu).or_default() += 1);
        let elapsed = self.began.elapsed();
        if elapsed >= WINDOW {
            let now = self.kernel.cpu_ticks();
            let ticks = elapsed.as_secs_f64() * ticks_per_second() as f64;
            self.busy = busy(&self.before, &now, ticks, &self.window);
            (self.before, self.began, self.window) = (now, Instant::now(), Window::default());
        }
        &self.busy
    }
}

/// Returns the CPUs that were busy for a long part of `ticks`, less the time in which watched tasks were running.
fn busy(before: &[CpuTicks], now: &[CpuTicks], ticks: f64, window: &Window) -> BTreeSet<CpuId> {
    let share = |after: &CpuTicks| {
        let first = before.iter().find(|one| one.cpu == after.cpu)?;
        let watched = f64::from(window.watched.get(&after.cpu).copied().unwrap_or(0));
        let all = after.busy.saturating_sub(first.busy) as f64 / ticks;
        Some(all - watched / f64::from(window.snapshots.max(1)))
    };
    now.iter()
        .filter(|after| share(after).is_some_and(|share| share >= BUSY))
        .map(|after| after.cpu)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_watched_tasks_is_no_other_work() {
        let ticks = |busy: [u64; 4]| -> Vec<CpuTicks> {
            let cpus = busy.into_iter().enumerate();
            cpus.map(|(cpu, busy)| CpuTicks { cpu: cpu as CpuId, busy, steal: 0 }).collect()
        };
        let window = Window { snapshots: 20, watched: BTreeMap::from([(1, 20), (2, 8)]) };
        // CPU 0 is idle, CPU 1 runs a watched task, CPU 2 both, CPU 3 only other work.
        let found = busy(&ticks([100; 4]), &ticks([101, 125, 125, 123]), 25.0, &window);
        assert_eq!(found, BTreeSet::from([2, 3]));
        // A CPU that came online since has no share yet.
        let found = busy(&ticks([100; 4])[..3], &ticks([100, 100, 100, 125]), 25.0, &window);
        assert!(found.is_empty());
    }
}
