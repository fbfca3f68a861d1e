//! Moves running processes from one placement to another, and back to their own CPUs at the end.

use crate::{
    error::{Error, Result},
    journal::{Journal, UndoResult},
    placement::{
        AffinityEnforcer, PlacementJournal, RunningProcesses, WorkerCpus, open_journal, place_workers,
    },
};
use manycore_linux::affinity;
use manycore_placement::MemoryPlacement;
use manycore_topology::{CpuSet, Machine};
use std::{sync::Arc, time::Duration};

/// Running processes whose placement is switched. Their own affinities are in a journal, from which
/// [`SwitchedProcesses::restore`], or `manycore undo` after a crash, restores them.
pub struct SwitchedProcesses {
    processes: RunningProcesses,
    enforcer: AffinityEnforcer,
    journal: Arc<Journal>,
    /// CPUs of the first process before it was moved.
    own_cpus: CpuSet,
}

impl SwitchedProcesses {
    /// Opens processes on `machine`, which is this one, for `subcommand`; `what` describes the change to a reader of the
    /// journal. They stay where they are until they are placed.
    ///
    /// # Errors
    /// Those of [`RunningProcesses::open`], or [`Error::JournalUnwritable`].
    pub fn open(pids: &[u32], machine: &Machine, subcommand: &str, what: &str) -> Result<Self> {
        let processes = RunningProcesses::open(pids)?;
        let first = pids.first().copied().unwrap_or_default();
        let own_cpus = affinity::of_thread(first).map_err(|_| Error::ProcessEnded { pid: first })?;
        let (free, plan) = place_workers(machine, None, &MemoryPlacement::Default, 1)?;
        let journal = open_journal(subcommand, what, false)?;
        let changes =
            PlacementJournal::new(Arc::clone(&journal), machine, plan, what.to_owned(), own_cpus.clone());
        let enforcer = AffinityEnforcer::new(&free, &own_cpus).with_journal(changes);
        Ok(Self { processes, enforcer, journal, own_cpus })
    }

    /// Returns the processes that have not ended.
    pub fn running(&self) -> Vec<u32> {
        self.processes.running()
    }

    /// Moves all tasks of the processes and their descendants; a placement without CPUs means those that the first
    /// process had.
    ///
    /// # Errors
    /// [`Error::CannotMove`] if a task may not be moved.
    pub fn place(&mut self, place: &WorkerCpus) -> Result<()> {
        self.enforcer.move_to(place, &self.own_cpus, &self.processes.running());
        match self.enforcer.refused().first_key_value() {
            Some((name, why)) => Err(Error::CannotMove { why: format!("{name} cannot be moved: {why}") }),
            None => Ok(()),
        }
    }

    /// Applies the placement to new tasks. Returns the time after which this has to be repeated.
    pub fn scan(&mut self) -> Duration {
        self.enforcer.scan(&self.processes.running())
    }

    /// Returns the enforcer of the present placement.
    pub fn enforcer(&self) -> &AffinityEnforcer {
        &self.enforcer
    }

    /// Restores the affinities that the tasks had. Returns the name of the journal, too.
    ///
    /// # Errors
    /// [`Error::JournalInUse`] or [`Error::JournalUnreadable`]; then nothing was restored.
    pub fn restore(self) -> Result<(String, UndoResult)> {
        let id = self.journal.id();
        drop(self.enforcer);
        let journal =
            Arc::try_unwrap(self.journal).map_err(|_| Error::JournalInUse { journal: id.clone() })?;
        match journal.undo() {
            Ok(restored) => Ok((id, restored)),
            Err(error) => Err(Error::JournalUnreadable { journal: id, error }),
        }
    }
}
