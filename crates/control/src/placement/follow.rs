//! Runs a command whose processes are followed while its threads may be confined.

use crate::{
    error::{Error, Result},
    journal::Change,
    placement::{CommandProcesses, ConfinedThreads, Enforcement, MARK, reap_orphans},
};
use manycore_linux::{affinity, child::StartPlacement, clock, job};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::{Command, ExitStatus},
    time::Duration,
};

/// A command that runs, in our terminal and process group. It may outlive us.
pub struct FollowedCommand {
    processes: CommandProcesses,
    pid: Pid,
    pidfd: OwnedFd,
}

impl FollowedCommand {
    /// Starts a command; `words` are the program and its arguments. Its processes are marked in the journal of
    /// `threads`, so that they are found even after they have left their parents.
    ///
    /// # Errors
    /// [`Error::CannotStart`]; [`Error::AdoptOrphans`], [`Error::OwnAffinity`], [`Error::JournalWrite`], [`Error::Wait`].
    pub fn start(words: &[String], threads: &ConfinedThreads) -> Result<Self> {
        job::adopt_orphans().map_err(Error::AdoptOrphans)?;
        let journal = threads.journal();
        let own = affinity::allowed().map_err(Error::OwnAffinity)?;
        let value = format!("{}-{}", journal.id(), clock::now_ns());
        let change = Change::Command { mark: format!("{MARK}={value}"), old: own.clone(), new: own };
        journal.record(&change).map_err(Error::JournalWrite)?;
        let mut processes = CommandProcesses::new(journal, Enforcement::Affinity);
        let program = words.first().cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command.args(words.iter().skip(1)).env(MARK, value);
        let pid = processes
            .launch(&mut command, &StartPlacement::default())
            .map_err(|error| Error::CannotStart { program, error })?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Error::Wait(error.into()))?;
        Ok(Self { processes, pid, pidfd })
    }

    /// Returns the processes of the command that have not ended.
    pub fn running(&self) -> BTreeSet<u32> {
        self.processes.running()
    }

    /// Sends a signal to the first process of the command.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    /// Waits for the end of the command, until `wake` is readable, or for `longest`. Returns the exit status once it has
    /// ended.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait(&self, wake: BorrowedFd, longest: Duration) -> Result<Option<ExitStatus>> {
        let number = self.pid.as_raw_nonzero().get() as u32;
        reap_orphans(&self.processes, number);
        let mut descriptors = [
            PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(wake, PollFlags::IN),
        ];
        match poll(&mut descriptors, Some(&Timespec::try_from(longest).unwrap_or_default())) {
            Ok(_) if descriptors[0].revents().is_empty() => Ok(None),
            Ok(_) => job::reap(number).map(|usage| Some(usage.status)).map_err(Error::Wait),
            Err(Errno::INTR) => Ok(None),
            Err(error) => Err(Error::Wait(error.into())),
        }
    }
}
