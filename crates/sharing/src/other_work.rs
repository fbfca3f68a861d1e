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

/// Time until the first reading after the beginning. Until then nothing is known.
const FIRST_WINDOW: Duration = Duration::from_millis(50);

/// A CPU is busy with other work if that used this share of its time.
const BUSY: f64 = 0.5;

/// Reads the ticks of all CPUs now and then.
#[derive(Debug)]
pub(crate) struct OtherWork {
    kernel: KernelCounters,
    began: Instant,
    before: Vec<CpuTicks>,
    window: Window,
    /// `None` before the first reading.
    busy: Option<BTreeSet<CpuId>>,
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
        Self { kernel, began: Instant::now(), before, window: Window::default(), busy: None }
    }

    /// Adds a snapshot, given the CPUs with a running watched task. Returns the CPUs that were busy with other work
    /// before the last reading; `None` in the first moments, when that is not known yet.
    pub(crate) fn update(&mut self, watched: impl Iterator<Item = CpuId>) -> Option<&BTreeSet<CpuId>> {
        self.window.snapshots += 1;
        watched.for_each(|cpu| *self.window.watched.entry(cpu).or_default() += 1);
        let elapsed = self.began.elapsed();
        if elapsed >= if self.busy.is_some() { WINDOW } else { FIRST_WINDOW } {
            let now = self.kernel.cpu_ticks();
            let ticks = elapsed.as_secs_f64() * ticks_per_second() as f64;
            self.busy = Some(busy(&self.before, &now, ticks, &self.window));
            (self.before, self.began, self.window) = (now, Instant::now(), Window::default());
        }
        self.busy.as_ref()
    }
}

/// Returns the CPUs that were not idle for a long part of `ticks`, less the time in which watched tasks were running. Idle
/// ticks are used because a hypervisor can make the kernel miss busy ones.
fn busy(before: &[CpuTicks], now: &[CpuTicks], ticks: f64, window: &Window) -> BTreeSet<CpuId> {
    let share = |after: &CpuTicks| {
        let first = before.iter().find(|one| one.cpu == after.cpu)?;
        let watched = f64::from(window.watched.get(&after.cpu).copied().unwrap_or(0));
        let idle = after.idle.saturating_sub(first.idle) as f64 / ticks;
        Some(1.0 - idle - watched / f64::from(window.snapshots.max(1)))
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
        let ticks = |idle: [u64; 4]| -> Vec<CpuTicks> {
            let cpus = idle.into_iter().enumerate();
            cpus.map(|(cpu, idle)| CpuTicks { cpu: cpu as CpuId, busy: 0, idle, steal: 0, interrupt: 0 })
                .collect()
        };
        let window = Window { snapshots: 20, watched: BTreeMap::from([(1, 20), (2, 8)]) };
        // CPU 0 is idle, CPU 1 runs a watched task, CPU 2 both, CPU 3 only other work.
        let found = busy(&ticks([100; 4]), &ticks([124, 100, 100, 102]), 25.0, &window);
        assert_eq!(found, BTreeSet::from([2, 3]));
        // A CPU that came online since has no share yet.
        let found = busy(&ticks([100; 4])[..3], &ticks([125, 125, 125, 100]), 25.0, &window);
        assert!(found.is_empty());
    }
}
