//! Moves running processes to planned CPUs.

use crate::{
    error::{Error, Result},
    journal::UndoResult,
    placement::{PlacementSession, ResolvedPlacement, SignalSource, open_journal},
};
use manycore_linux::{absent_process::AbsentProcess, tasks};
use manycore_placement::{MemoryPlacement, PlacementTrace};
use manycore_text::units::counted;
use manycore_topology::CpuSet;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// Running processes, each held by a pidfd, because an id may be in use again after a process has ended.
pub struct RunningProcesses(Vec<(u32, OwnedFd)>);

/// Processes that have been moved to planned CPUs.
pub struct PinnedProcesses {
    processes: RunningProcesses,
    session: PlacementSession,
}

/// Tasks of processes that were moved to planned CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedTasks {
    /// Tasks whose affinity was changed. Undo restores these.
    pub moved: usize,
    /// All tasks of the processes.
    pub all: usize,
}

impl MovedTasks {
    /// Describes the move to `cpus`: `3 of 5 tasks moved to CPUs 0-1 (the others were there already)`.
    pub fn words(self, cpus: &CpuSet) -> String {
        let Self { moved, all } = self;
        let to = format!("{} {}", if cpus.len() == 1 { "CPU" } else { "CPUs" }, cpus.brief());
        match (moved, all - moved.min(all)) {
            (_, 0) => format!("{} moved to {to}", counted(all, "task")),
            (0, _) => format!("{} already on {to}", counted(all, "task")),
            (_, 1) => format!("{moved} of {all} tasks moved to {to} (the other one was there already)"),
            _ => format!("{moved} of {all} tasks moved to {to} (the others were there already)"),
        }
    }
}

/// How the placement of running processes ended.
pub struct PinEnd {
    /// Where their tasks ran.
    pub trace: PlacementTrace,
    /// Name of the journal, by which changes that could not be restored can be undone later.
    pub journal: String,
    /// What was restored.
    pub restored: UndoResult,
}

impl RunningProcesses {
    /// Opens processes by their ids.
    ///
    /// # Errors
    /// [`Error::NoProcess`], [`Error::IsThread`], [`Error::KernelThread`] or [`Error::ProcessEnded`].
    pub fn open(pids: &[u32]) -> Result<Self> {
        pids.iter().map(|&pid| Ok((pid, open(pid)?))).collect::<Result<_>>().map(Self)
    }

    /// Returns the ids as they were given.
    pub fn ids(&self) -> Vec<u32> {
        self.0.iter().map(|(pid, _)| *pid).collect()
    }

    /// Returns the ids of the processes that have not ended.
    pub fn running(&self) -> Vec<u32> {
        let runs = |pidfd: &OwnedFd| {
            let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
            poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count == 0)
        };
        self.0.iter().filter(|(_, pidfd)| runs(pidfd)).map(|(pid, _)| *pid).collect()
    }
}

fn open(pid: u32) -> Result<OwnedFd> {
    let number = Pid::from_raw(pid as i32).ok_or(Error::NoProcess(AbsentProcess::Missing(pid)))?;
    if tasks::is_kernel(pid) {
        return Err(Error::KernelThread { pid, name: tasks::name(pid).unwrap_or_default() });
    }
    let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        // EINVAL for a thread, and ENOENT since Linux 6.9.
        Errno::INVAL | Errno::NOENT => Error::IsThread { pid },
        _ => Error::NoProcess(AbsentProcess::of(pid)),
    })?;
    if tasks::is_alive(pid) {
        return Ok(pidfd);
    }
    match AbsentProcess::of(pid) {
        hidden @ AbsentProcess::Hidden { .. } => Err(Error::NoProcess(hidden)),
        AbsentProcess::Missing(_) => Err(Error::ProcessEnded { pid }),
    }
}

impl PinnedProcesses {
    /// Moves all tasks of the processes and of their descendants to the planned CPUs. `what` describes the
    /// change to a reader of the journal. `stays`: the change is meant to outlive this process.
    ///
    /// # Errors
    /// [`Error::KeepsMemoryPolicy`] for a memory policy that no cpuset enforces.
    /// [`Error::JournalUnwritable`], or [`Error::CannotMove`] if a task may not be moved; then nothing is
    /// changed.
    pub fn pin(
        processes: RunningProcesses,
        placement: ResolvedPlacement,
        what: &str,
        stays: bool,
    ) -> Result<Self> {
        let placement = placement.pin_everywhere();
        if matches!(placement.memory, MemoryPlacement::Local | MemoryPlacement::Interleave(_)) {
            return Err(Error::KeepsMemoryPolicy { policy: placement.memory.to_string() });
        }
        let pids = processes.ids();
        let journal = open_journal("pin", what, stays)?;
        let mut session = PlacementSession::new(&placement, journal, what.to_owned());
        PlacementSession::raise_priority();
        if let Some(journal) = session.enforcer().journal() {
            journal.count_cpu_time();
        }
        session.enforcer().take_over(&pids);
        session.enforcer().update_cpu_time();
        session.enter_cgroup_now(&pids);
        let binds = !placement.bound_nodes().is_empty();
        let unbound = session.unbound().filter(|_| binds);
        let unbound = unbound.map(|why| format!("the memory cannot be bound: {why}"));
        match session.first_failure().or(unbound) {
            None => Ok(Self { processes, session }),
            Some(why) => {
                session.restore()?;
                Err(Error::CannotMove { why })
            }
        }
    }

    /// Returns the name of the journal, by which the changes can be undone later.
    pub fn journal_id(&self) -> String {
        self.session.journal_id()
    }

    /// Leaves the tasks where they are. Returns where they are.
    pub fn leave(mut self) -> PlacementTrace {
        let pids = self.processes.ids();
        self.session.finish(&pids)
    }

    /// Returns how many tasks were moved so far, and how many are held in place.
    pub fn moved(&mut self) -> MovedTasks {
        let journal = self.session.enforcer().journal();
        journal
            .map(|journal| MovedTasks { moved: journal.moved(), all: journal.trace().tasks.len() })
            .unwrap_or_default()
    }

    /// Enforces the placement until all processes have ended or a signal is received. Then restores what was
    /// changed.
    ///
    /// # Errors
    /// [`Error::Wait`] after what was changed has been restored, or the journal cannot be read.
    pub fn enforce(mut self, signals: &dyn SignalSource) -> Result<PinEnd> {
        let ended = self.wait(signals);
        let trace = self.session.finish(&self.processes.running());
        let journal = self.session.journal_id();
        let restored = self.session.restore()?;
        ended.map(|()| PinEnd { trace, journal, restored })
    }

    fn wait(&mut self, signals: &dyn SignalSource) -> Result {
        let mut running: Vec<&(u32, OwnedFd)> = self.processes.0.iter().collect();
        while let Some((first, pidfd)) = running.first() {
            let roots: Vec<u32> = running.iter().map(|(pid, _)| *pid).collect();
            let wake = signals.descriptor();
            if self.session.wait(&|| roots.clone(), pidfd.as_fd(), wake, Duration::MAX)? {
                self.session.enforcer().process_ended(*first);
                running.remove(0);
            }
            // The id of a process that has ended may already be in use again.
            running.retain(|(pid, _)| tasks::is_alive(*pid));
            if !signals.take().is_empty() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_moved_tasks_is_that_which_undo_restores() {
        let words = |moved, all, cpus: &str| MovedTasks { moved, all }.words(&cpus.parse().unwrap());
        assert_eq!(words(1, 1, "3"), "1 task moved to CPU 3");
        assert_eq!(words(5, 5, "0-1"), "5 tasks moved to CPUs 0-1");
        assert_eq!(words(3, 5, "0-1"), "3 of 5 tasks moved to CPUs 0-1 (the others were there already)");
        assert_eq!(words(4, 5, "0"), "4 of 5 tasks moved to CPU 0 (the other one was there already)");
        assert_eq!(words(0, 2, "0"), "2 tasks already on CPU 0");
    }
}
