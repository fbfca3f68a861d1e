//! What runs on each CPU at one moment, and where that is read from.

use manycore_topology::CpuId;
use std::io;

/// A watched task that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningTask {
    /// Its process.
    pub pid: u32,
    /// Its thread id.
    pub tid: u32,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuUse {
    /// No task runs.
    #[default]
    Idle,
    /// A watched task runs.
    Watched(RunningTask),
    /// A task that is not watched runs.
    Other,
}

/// What runs on each CPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    cpus: Vec<CpuUse>,
}

impl Snapshot {
    /// Makes all CPUs idle, and keeps the memory.
    pub fn clear(&mut self) {
        self.cpus.fill(CpuUse::Idle);
    }

    /// Returns what a CPU does; one that was never set is idle.
    pub fn get(&self, cpu: CpuId) -> CpuUse {
        self.cpus.get(cpu as usize).copied().unwrap_or_default()
    }

    /// Sets what a CPU does.
    pub fn set(&mut self, cpu: CpuId, what: CpuUse) {
        let at = cpu as usize;
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, CpuUse::Idle);
        }
        self.cpus[at] = what;
    }

    /// Iterates over the CPUs that are not idle, in ascending order.
    pub fn busy(&self) -> impl Iterator<Item = (CpuId, CpuUse)> + '_ {
        let all = self.cpus.iter().enumerate().map(|(cpu, what)| (cpu as CpuId, *what));
        all.filter(|(_, what)| *what != CpuUse::Idle)
    }
}

/// A source of snapshots. It is used by one thread, which samples it at random times.
pub trait Source: Send {
    /// Returns its name in reports: `procfs`.
    fn name(&self) -> &'static str;

    /// Stores what runs on each CPU now. `into` holds an earlier snapshot. Returns `false` if it is too early to tell busy
    /// CPUs from idle ones: this snapshot does not count.
    ///
    /// # Errors
    /// The source can give no more snapshots. Tasks that have ended are no error.
    fn snapshot(&mut self, into: &mut Snapshot) -> io::Result<bool>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn snapshot(&mut self, into: &mut Snapshot) -> io::Result<bool> {
        (**self).snapshot(into)
    }
}
