//! Changes affinities of single threads while they run, one at a time, and restores all of them at the end.

use crate::{
    cleanup::{Cleanup, Leftover, Program},
    error::{Error, Result},
    journal::{self, Change, Journal, UndoResult},
};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

/// A thread, and its process with the start time, because ids are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId {
    /// Process id.
    pub pid: u32,
    /// Start time of the process ([`tasks::start_time`]).
    pub start: u64,
    /// Thread id.
    pub tid: u32,
}

/// Affinities of threads that were changed. Each change is in the journal before it is made. A cleanup process restores
/// them if this process is killed.
#[derive(Debug)]
pub struct ConfinedThreads {
    journal: Journal,
    cleanup: Cleanup,
    /// Processes that are in the journal, with their start times.
    processes: BTreeMap<u32, u64>,
    /// Threads that are in the journal.
    threads: BTreeSet<ThreadId>,
}

impl ConfinedThreads {
    /// Begins a journal for `subcommand`, and starts the cleanup process; `what` describes the change to a reader of the
    /// journal.
    ///
    /// # Errors
    /// [`Error::JournalUnwritable`], [`Error::CleanupNotStarted`] or [`Error::CleanupEnded`]; then nothing must be
    /// changed.
    pub fn begin(subcommand: &str, what: &str) -> Result<Self> {
        let folder = journal::folder();
        let journal = Journal::begin(&folder, subcommand, what, false)
            .map_err(|error| Error::JournalUnwritable { folder, error })?;
        let started = Cleanup::start(&Program::own()).and_then(|mut cleanup| {
            cleanup.add(Leftover::Journal(journal.id().into()))?;
            Ok(cleanup)
        });
        match started {
            Ok(cleanup) => {
                Ok(Self { journal, cleanup, processes: BTreeMap::new(), threads: BTreeSet::new() })
            }
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// Returns the name of the journal, as `undo` takes it.
    pub fn journal_id(&self) -> String {
        self.journal.id()
    }

    /// Returns this process and the cleanup process, which must not be confined themselves.
    pub fn own_processes(&self) -> [u32; 2] {
        [std::process::id(), self.cleanup.id()]
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the number of threads whose affinity was changed.
    pub fn changed(&self) -> usize {
        self.threads.len()
    }

    /// Changes the affinity of a thread from `now` to `new`. At the end it gets `original`, and threads that its process
    /// creates and that inherit an affinity of ours get `inherited`.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the thread has ended; those of the journal, and of `sched_setaffinity(2)`.
    pub fn set(
        &mut self,
        thread: ThreadId,
        now: &CpuSet,
        new: &CpuSet,
        original: &CpuSet,
        inherited: &CpuSet,
    ) -> io::Result<()> {
        let ThreadId { pid, start, tid } = thread;
        if tasks::start_time(pid) != Some(start) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.processes.get(&pid) != Some(&start) {
            self.journal.record(&Change::Process { pid, start, cpus: inherited.clone() })?;
            self.processes.insert(pid, start);
        }
        let change =
            |old: &CpuSet, new: &CpuSet| Change::Affinity { pid, tid, old: old.clone(), new: new.clone() };
        // An affinity that it inherited from a thread of ours is ours as well.
        if self.threads.insert(thread) && now != original {
            self.journal.record(&change(original, now))?;
        }
        self.journal.record(&change(original, new))?;
        affinity::restrict(tid, new)
    }

    /// Restores the affinities that threads had, where they are still those that were set.
    ///
    /// # Errors
    /// [`Error::JournalUnreadable`]; then nothing was restored.
    pub fn restore(self) -> Result<UndoResult> {
        let Self { journal, cleanup, .. } = self;
        let id = journal.id();
        let restored = journal.undo();
        drop(cleanup);
        restored.map_err(|error| Error::JournalUnreadable { journal: id, error })
    }
}
