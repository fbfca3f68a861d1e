//! What is made around runtimes and has to be gone afterwards, however we end: control groups and scratch folders.
//!
//! A journal knows the groups, and a guard (another process of ours, to which each thing is told before it is made)
//! removes all where we are killed.

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

/// The name by which the guard is told what it is.
pub const GUARD: &str = "guard";

/// The word after which the guard has nothing to do.
const DONE: &str = "done";

/// What was made, and who looks after it.
pub struct Shelter {
    journal: Result<Journal, String>,
    guard: Child,
    made: u32,
}

impl Shelter {
    /// Begins, for what was asked for.
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
            .map_err(|error| format!("no journal can be kept in {}: {error}", folder.display()));
        let mut shelter = Self { journal, guard, made: 0 };
        shelter.tell("owner", &std::process::id().to_string());
        if let Ok(id) = shelter.journal.as_ref().map(Journal::id) {
            shelter.tell("journal", &id);
        }
        Ok(shelter)
    }

    /// A control group that may take `limit` bytes.
    ///
    /// # Errors
    /// Why there can be none, for people.
    pub fn group(&mut self, limit: u64) -> Result<MemoryGroup, String> {
        self.made += 1;
        let journal = self.journal.as_ref().map_err(Clone::clone)?;
        let group = MemoryGroup::make(journal, &self.made.to_string(), limit)?;
        let folder = group.folder().display().to_string();
        self.tell("group", &folder);
        Ok(group)
    }

    /// A folder of its own below `place`, or where temporary files go.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where none can be made.
    pub fn scratch(&mut self, place: Option<&Path>) -> Result<TempDir> {
        let mut make = tempfile::Builder::new();
        let make = make.prefix("manycore-spawn-");
        let folder = place.map_or_else(|| make.tempdir(), |place| make.tempdir_in(place));
        let folder = folder.map_err(|error| {
            let place = place.map_or_else(std::env::temp_dir, Path::to_owned);
            Error::unavailable(format!("no scratch folder can be made in {}: {error}", place.display()))
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
            // Groups that are still there are removed; the journal is, too, where nothing is left.
            let _ = journal.take_back();
        }
        self.tell(DONE, "");
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits until a process has ended: its pipe may be closed before its lock on the journal is.
fn await_end(pid: i32) {
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let most = Timespec { tv_sec: 10, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&most));
    }
}

/// What the guard does.
pub fn stand() {
    // The kernel closes the other end when its last holder is gone.
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
