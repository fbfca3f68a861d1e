//! Sampling of the CPUs while light processes compute.

use crate::session::SessionEnd;
use manycore_experiment::{interrupt, spawning::Spin};
use manycore_linux::{
    clock,
    counters::{CpuTicks, KernelCounters, ticks_per_second},
    realtime,
};
use manycore_topology::Machine;
use std::{collections::BTreeMap, path::Path, thread, time::Duration};

/// Number of intervals in a run.
const INTERVALS: u32 = 20;

/// Shortest interval. The kernel counts CPU time in ticks of 10 ms.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The CPUs that a runtime may use.
pub struct CpuSampler {
    cpus: Vec<u32>,
    kernel: KernelCounters,
}

impl CpuSampler {
    /// Selects the CPUs of this machine that the process may use.
    pub fn new(machine: &Machine) -> Self {
        Self { cpus: machine.usable().iter().collect(), kernel: KernelCounters::at(Path::new("/")) }
    }

    /// Returns the length of an interval in a run of `length`.
    pub fn interval(length: Duration) -> Duration {
        (length / INTERVALS).max(MIN_INTERVAL)
    }

    /// Samples the CPUs for `length`, on a thread with real-time priority if the system permits it.
    ///
    /// # Errors
    /// [`SessionEnd::Interrupted`].
    pub fn sample(&self, length: Duration) -> Result<Spin, SessionEnd> {
        let sample = || {
            realtime::request();
            self.sample_on_this_thread(length)
        };
        thread::scope(|scope| scope.spawn(sample).join())
            .unwrap_or_else(|_| Err(SessionEnd::Lost("the thread that samples the CPUs failed".to_owned())))
    }

    fn sample_on_this_thread(&self, length: Duration) -> Result<Spin, SessionEnd> {
        let interval = Self::interval(length);
        let cpus = self.cpus.iter().map(|&cpu| cpu as usize).collect();
        let mut spin = Spin { interval_seconds: interval.as_secs_f64(), cpus, ..Spin::default() };
        let (step, mut last) = (interval.as_nanos() as u64, self.read_ticks());
        let end = last.0 + length.as_nanos() as u64;
        let mut due = last.0;
        while due + step <= end {
            // Sleeps until a point in time, so that delays do not add up. After a delay that is too long,
            // intervals are left out.
            due = (due + step).max(last.0 + step / 2);
            let left = Duration::from_nanos(due.saturating_sub(clock::now_ns()));
            interrupt::sleep(left).map_err(|_| SessionEnd::Interrupted)?;
            let now = self.read_ticks();
            self.add(&mut spin, &last, &now);
            last = now;
        }
        Ok(spin)
    }

    fn read_ticks(&self) -> (u64, BTreeMap<u32, CpuTicks>) {
        let ticks = self.kernel.cpu_ticks().into_iter().map(|ticks| (ticks.cpu, ticks)).collect();
        (clock::now_ns(), ticks)
    }

    /// Adds the interval between two readings. A CPU that went offline counts as idle.
    fn add(
        &self,
        spin: &mut Spin,
        last: &(u64, BTreeMap<u32, CpuTicks>),
        now: &(u64, BTreeMap<u32, CpuTicks>),
    ) {
        let ticks = (now.0 - last.0) as f64 / 1e9 * ticks_per_second() as f64;
        let share = |ticks_of: &dyn Fn(&CpuTicks) -> u64, cpu: u32| {
            let (before, after) = (last.1.get(&cpu).map(ticks_of), now.1.get(&cpu).map(ticks_of));
            let passed = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
            (passed as f64 / ticks).min(1.0) as f32
        };
        let busy = |ticks: &CpuTicks| ticks.busy.saturating_sub(ticks.steal);
        spin.busy.push(self.cpus.iter().map(|&cpu| share(&busy, cpu)).collect());
        let stolen: f32 = self.cpus.iter().map(|&cpu| share(&|ticks| ticks.steal, cpu)).sum();
        spin.stolen.push(stolen / self.cpus.len().max(1) as f32);
        spin.running.push(self.kernel.running().unwrap_or(0));
    }
}
