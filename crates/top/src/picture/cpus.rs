//! The use of CPUs.

use crate::sample::CpuTimes;
use manycore_topology::CpuId;

/// Shares of time, in CPUs: 1 is one CPU all the time. Those of one CPU add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    /// In user mode, guests included.
    pub user: f64,
    /// In user mode, of tasks with a positive nice value.
    pub nice: f64,
    /// In the kernel.
    pub system: f64,
    /// Idle.
    pub idle: f64,
    /// Idle while a task waits for a disk.
    pub iowait: f64,
    /// In handlers of interrupts.
    pub irq: f64,
    /// In softirqs.
    pub softirq: f64,
    /// Given to other virtual machines.
    pub steal: f64,
}

impl CpuShares {
    /// Returns the share that was neither idle nor stolen.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Returns the shares between two readings; `None` if no tick has passed. A counter that has decreased counts as 0.
    pub(super) fn between(before: &CpuTimes, now: &CpuTimes) -> Option<Self> {
        let values = |one: &CpuTimes| {
            [one.user, one.nice, one.system, one.idle, one.iowait, one.irq, one.softirq, one.steal]
        };
        let (old, new) = (values(before), values(now));
        let ticks: [f64; 8] = std::array::from_fn(|at| new[at].saturating_sub(old[at]) as f64);
        let all: f64 = ticks.iter().sum();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(|each| each / all);
        (all > 0.0).then_some(Self { user, nice, system, idle, iowait, irq, softirq, steal })
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.nice += other.nice;
        self.system += other.system;
        self.idle += other.idle;
        self.iowait += other.iowait;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.steal += other.steal;
    }
}

/// The use of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// The CPU.
    pub cpu: CpuId,
    /// Shares of its time (`/proc/stat`, in ticks of mostly 10 ms). Absent if it was not online in both samples, or no
    /// tick has passed.
    pub shares: Option<CpuShares>,
    /// Frequency at the second sample in kHz; absent unless wanted, and without cpufreq.
    pub khz: Option<u64>,
    /// Temperature at the second sample in thousandths of a degree Celsius; absent as `khz`.
    pub millidegrees: Option<i32>,
    /// CPU time of the tasks whose last CPU it is, in CPUs.
    pub task_run: f64,
    /// Time that these tasks waited for a CPU, in tasks that wait. Absent without `schedstat`.
    pub wait: Option<f64>,
    /// Number of these tasks that were runnable at the second sample.
    pub runnable: usize,
}
