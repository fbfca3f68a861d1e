//! Cleanup of what must not outlive a run, however this program ends: control groups and scratch directories.
//!
//! A journal lists the groups. A cleanup process, which is informed of each thing when it is made, removes
//! all of them if this program is killed.

use crate::error::{Error, Result};
use manycore_control::{
    journal::{self, Journal},
    memory_group::{self, MemoryGroup},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    fs,
    io::{BufRead, Write, stdin},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Argument that selects the cleanup process.
pub const GUARD: &str = "guard";

/// Message after which the cleanup process has nothing to remove.
const DONE: &str = "done";

/// The things made for runtimes, and the process that cleans them up.
pub struct Shelter {
    journal: Result<Journal, String>,
    guard: Child,
    made: u32,
}

impl Shelter {
    /// Starts the journal and the cleanup process for the request `what`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no process can be started.
    pub fn begin(what: &str) -> Result<Self> {
        // In a group of its own, so that no signal of a terminal ends it with us.
        let guard = Command::new("/proc/self/exe")
            .args(["light", GUARD])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        let guard = guard.map_err(|error| {
            Error::unavailable(format!("cannot start a process that cleans up after us: {error}"))
        })?;
        let folder = journal::folder();
        let journal = Journal::begin(&folder, "spawn", what, false)
            .map_err(|error| format!("cannot write a journal in {}: {error}", folder.display()));
        let mut shelter = Self { journal, guard, made: 0 };
        shelter.tell("owner", &std::process::id().to_string());
        if let Ok(id) = shelter.journal.as_ref().map(Journal::id) {
            shelter.tell("journal", &id);
        }
        Ok(shelter)
    }

    /// Creates a control group with a memory limit of `limit` bytes.
    ///
    /// # Errors
    /// The reason why there can be none, as text for the user.
    pub fn group(&mut self, limit: u64) -> Result<MemoryGroup, String> {
        self.made += 1;
        let journal = self.journal.as_ref().map_err(Clone::clone)?;
        let group = MemoryGroup::make(journal, &self.made.to_string(), limit)?;
        let folder = group.folder().display().to_string();
        self.tell("group", &folder);
        Ok(group)
    }

    /// Creates a scratch directory below `place`, or below the directory for temporary files.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where none can be made.
    pub fn scratch(&mut self, place: Option<&Path>) -> Result<TempDir> {
        let mut make = tempfile::Builder::new();
        let make = make.prefix("manycore-spawn-");
        let folder = place.map_or_else(|| make.tempdir(), |place| make.tempdir_in(place));
        let folder = folder.map_err(|error| {
            let place = place.map_or_else(std::env::temp_dir, Path::to_owned);
            Error::unavailable(format!("cannot create a scratch directory in {}: {error}", place.display()))
        })?;
        let path = fs::canonicalize(folder.path()).map_err(Error::unavailable)?;
        self.tell("folder", &path.display().to_string());
        Ok(folder)
    }

    fn tell(&mut self, what: &str, name: &str) {
        if let Some(stdin) = &mut self.guard.stdin {
            let _ = stdin.write_all(format!("{what} {name}\n").as_bytes());
        }
    }
}

impl Drop for Shelter {
    fn drop(&mut self) {
        if let Ok(journal) = std::mem::replace(&mut self.journal, Err(String::new())) {
            // Removes groups that still exist. The journal is removed as well if nothing remains.
            let _ = journal.take_back();
        }
        self.tell(DONE, "");
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits until a process has ended: its pipe may be closed before its lock on the journal is released.
fn await_end(pid: i32) {
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let most = Timespec { tv_sec: 10, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&most));
    }
}

/// Main function of the cleanup process.
pub fn stand() {
    // The kernel closes the other end when its last holder has exited.
    let told: Vec<String> = stdin().lock().lines().map_while(Result::ok).collect();
    if told.iter().any(|line| line.trim() == DONE) {
        return;
    }
    let each = |what: &str| -> Vec<&str> {
        told.iter().filter_map(|line| line.strip_prefix(what)?.strip_prefix(' ')).collect()
    };
    for group in each("group") {
        let _ = memory_group::end(&PathBuf::from(group));
    }
    for folder in each("folder") {
        let _ = fs::remove_dir_all(folder);
    }
    each("owner").iter().filter_map(|pid| pid.parse().ok()).for_each(await_end);
    let journals = journal::pending(&journal::folder()).map(|(journals, _)| journals).unwrap_or_default();
    for pending in journals.iter().filter(|pending| each("journal").contains(&pending.id().as_str())) {
        let _ = pending.undo();
    }
}
