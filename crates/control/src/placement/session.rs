//! Enforces a placement on processes until they end. Used for commands and for running processes.

use crate::{
    error::{Error, Result},
    journal::{self, Journal, UndoResult},
    placement::{AffinityEnforcer, PlacementJournal, ResolvedPlacement, cgroup_entry::CgroupEntry},
};
use manycore_linux::realtime;
use manycore_placement::PlacementTrace;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    os::fd::BorrowedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// Opens a journal for the changes of `subcommand`; `what` describes them to a reader of the journal. `stays`: the
/// changes are meant to outlive this process.
///
/// # Errors
/// [`Error::JournalUnwritable`]; then nothing must be changed.
pub fn open_journal(subcommand: &str, what: &str, stays: bool) -> Result<Arc<Journal>> {
    let folder = journal::folder();
    Journal::begin(&folder, subcommand, what, stays)
        .map(Arc::new)
        .map_err(|error| Error::JournalUnwritable { folder, error })
}

/// Enforces a placement on processes until they end.
pub struct PlacementSession {
    enforcer: AffinityEnforcer,
    cgroup: CgroupEntry,
    journal: Arc<Journal>,
    began: Instant,
}

impl PlacementSession {
    /// Prepares to enforce `placement` on `subject`. Changes are recorded in `journal`.
    pub fn new(placement: &ResolvedPlacement, journal: Arc<Journal>, subject: String) -> Self {
        let ResolvedPlacement { machine, plan, workers, own_cpus, .. } = placement;
        let changes =
            PlacementJournal::new(Arc::clone(&journal), machine, plan.clone(), subject, own_cpus.clone());
        Self {
            enforcer: AffinityEnforcer::new(workers, own_cpus).with_journal(changes),
            cgroup: CgroupEntry::new(placement, Arc::clone(&journal)),
            journal,
            began: Instant::now(),
        }
    }

    /// Returns why not all tasks could be moved; `None` if all were moved.
    pub fn first_failure(&mut self) -> Option<String> {
        let journal_error =
            self.enforcer.journal().and_then(|journal| journal.journal_error().map(str::to_owned));
        if let Some(error) = journal_error {
            return Some(format!("cannot write the journal: {error}"));
        }
        if let Some((name, why)) = self.enforcer.refused().first_key_value() {
            let others = self.enforcer.refused().len() - 1;
            let more = if others == 0 { String::new() } else { format!(", and {others} more") };
            return Some(format!("{name} cannot be moved: {why}{more}"));
        }
        self.enforcer.processes().next().is_none().then(|| "it has ended".to_owned())
    }

    /// Returns the affinity enforcer.
    pub fn enforcer(&mut self) -> &mut AffinityEnforcer {
        &mut self.enforcer
    }

    /// Gives this process real-time priority, so that new tasks are pinned without delay even if CPUs are
    /// busy. To be called after the command has started, because the command must not inherit the priority.
    pub fn raise_priority() {
        realtime::request();
    }

    /// Scans all processes below `roots` once. Then waits for an event, a signal (`wake` becomes readable)
    /// or the end of the process of `pidfd`, but not longer than `longest`. Returns whether the process has
    /// ended.
    ///
    /// # Errors
    /// [`Error::Wait`] with an error of `poll(2)`.
    pub fn wait(
        &mut self,
        roots: &dyn Fn() -> Vec<u32>,
        pidfd: BorrowedFd,
        wake: BorrowedFd,
        longest: Duration,
    ) -> Result<bool> {
        self.update_cgroup(roots);
        let pause = self.enforcer.scan_below(roots).min(longest);
        let limit = Timespec::try_from(pause).unwrap_or_default();
        let descriptors = [Some(pidfd), Some(wake), self.enforcer.descriptor()].into_iter().flatten();
        let mut descriptors: Vec<PollFd> =
            descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut descriptors, Some(&limit)) {
            Ok(_) => Ok(!descriptors[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Error::Wait(error.into())),
        }
    }

    /// Moves the processes into a control group once they have run long enough.
    fn update_cgroup(&mut self, roots: &dyn Fn() -> Vec<u32>) {
        if self.cgroup.is_due() {
            self.start_entering_cgroup(&roots());
        } else if self.cgroup.is_complete() {
            self.finish_entering_cgroup();
        }
    }

    /// Returns why the processes are in no control group that binds their memory; absent if they are in one.
    pub fn unbound(&self) -> Option<String> {
        (!self.cgroup.has_entered()).then(|| self.cgroup.held_by())
    }

    /// Moves the processes into a control group now, and waits until that is done.
    pub fn enter_cgroup_now(&mut self, roots: &[u32]) {
        if self.cgroup.is_pending() {
            self.start_entering_cgroup(roots);
            self.finish_entering_cgroup();
        }
    }

    fn start_entering_cgroup(&mut self, roots: &[u32]) {
        self.enforcer.set_entering_cgroup(true);
        self.cgroup.start(roots);
    }

    fn finish_entering_cgroup(&mut self) {
        if self.cgroup.finish() {
            self.enforcer.set_entering_cgroup(false);
            // An attempt that failed may have reset affinities as well.
            self.enforcer.repin_all();
        }
    }

    /// Stops enforcing the placement for all processes below `roots`. Returns the placement trace.
    pub fn finish(&mut self, roots: &[u32]) -> PlacementTrace {
        let seconds = self.began.elapsed().as_secs_f64();
        self.finish_entering_cgroup();
        self.enforcer.final_scan(roots);
        let own_affinities = self.enforcer.own_affinities().iter().map(|(task, cpus)| {
            let what = if self.enforcer.is_planned(cpus) {
                "all of them planned: left unchanged"
            } else {
                "not all of them planned: the plan does not hold for it"
            };
            format!("{task} set its own affinity to CPUs {cpus}, {what}")
        });
        let refused =
            self.enforcer.refused().iter().map(|(task, why)| format!("{task} could not be moved: {why}"));
        let notes = own_affinities.chain(refused).collect();
        let held_by = self.cgroup.held_by();
        let Some(journal) = self.enforcer.journal() else { return PlacementTrace::default() };
        let mut trace = std::mem::take(journal.trace());
        trace.pin_delays_ns.sort_unstable();
        PlacementTrace { held_by, seconds, notes, ..trace }
    }

    /// Returns the name of the journal, by which its changes can be undone later.
    pub fn journal_id(&self) -> String {
        self.journal.id()
    }

    /// Restores everything that was changed. Returns what was restored, what was left unchanged and what
    /// failed.
    ///
    /// # Errors
    /// [`Error::JournalInUse`] or [`Error::JournalUnreadable`]; then nothing was restored.
    pub fn restore(mut self) -> Result<UndoResult> {
        self.finish_entering_cgroup();
        let id = self.journal.id();
        drop((self.enforcer, self.cgroup));
        let journal =
            Arc::try_unwrap(self.journal).map_err(|_| Error::JournalInUse { journal: id.clone() })?;
        journal.undo().map_err(|error| Error::JournalUnreadable { journal: id, error })
    }
}
