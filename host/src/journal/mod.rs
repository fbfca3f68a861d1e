//! What we change on the machine, written down before it is changed, so that it can be taken back: at the end, on
//! a signal, and after SIGKILL by whoever reads the journal.
//!
//! A journal is a file of JSON lines: a [`Header`], then one [`Change`] a line, each written whole before the
//! change is made. Its owner holds a lock on it (`flock(2)`), which ends with the owner however that dies. All
//! that is journalled lives in the kernel's memory and is gone after a restart, so a journal of another boot is
//! only removed.

mod pending;
mod undo;

pub use pending::{Pending, pending};
pub use undo::Restored;

use manycore_model::CpuSet;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    process::getuid,
};
use serde::{Deserialize, Serialize};
use std::{
    env,
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Value of [`Header::schema`] that this version writes.
pub const JOURNAL_SCHEMA: &str = "manycore/journal/1";

/// Environment variable with another folder for journals.
pub const FOLDER_VARIABLE: &str = "MANYCORE_STATE";

/// Who changes things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`JOURNAL_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// `/proc/sys/kernel/random/boot_id` of the running system.
    pub boot: String,
    /// When it began, UTC.
    pub began: String,
    /// The same in nanoseconds of `CLOCK_MONOTONIC`, to order journals by.
    pub began_ns: u64,
    /// What was asked for, for people: `pin --pid 812 --place close`.
    pub what: String,
    /// Whether the changes are meant to stay after their maker has ended, until they are taken back.
    pub stays: bool,
}

/// One change. CPUs of tasks are as `sched_getaffinity(2)` tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A command is started in a place, with `mark` in its environment.
    Command {
        /// `NAME=VALUE` in the environment of all that it starts.
        mark: String,
        /// What its tasks would have had without us.
        old: CpuSet,
        /// What it starts with.
        new: CpuSet,
    },
    /// Tasks of a process are to be placed.
    Process {
        /// Process id.
        pid: u32,
        /// [`crate::tasks::start_time`] of it: another process with this id has another.
        start: u64,
        /// CPUs that tasks which it makes from now on are to have back.
        cpus: CpuSet,
    },
    /// The affinity of a task of a process that an earlier entry names (or that carries an earlier mark).
    Affinity {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// What it had before us.
        old: CpuSet,
        /// What it gets.
        new: CpuSet,
    },
    /// A process is moved to a control group.
    Moved {
        /// Process id.
        pid: u32,
        /// [`crate::tasks::start_time`] of it.
        start: u64,
        /// Folder of the group that it was in.
        from: PathBuf,
        /// Folder of the group that it goes to.
        to: PathBuf,
    },
    /// A control group is made.
    Group {
        /// Its folder.
        path: PathBuf,
    },
    /// A controller is enabled for the children of a version 2 group.
    Controller {
        /// `cgroup.subtree_control` of the group.
        path: PathBuf,
        /// `cpuset`.
        controller: String,
    },
    /// A setting of the kernel is written, such as `/proc/irq/24/smp_affinity_list`.
    File {
        /// The file.
        path: PathBuf,
        /// What it said, without the newline at its end.
        old: String,
        /// What is written.
        new: String,
    },
}

/// An open journal; the lock on it tells others that its owner lives.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins a journal in `folder` (see [`folder`]), named after `verb` and this process. `what` says for people
    /// what was asked for; `stays` that the changes are to outlive us.
    ///
    /// # Errors
    /// The folder or the file cannot be made or written, or the folder belongs to somebody else.
    pub fn begin(folder: &Path, verb: &str, what: &str, stays: bool) -> io::Result<Self> {
        make_folder(folder)?;
        let (file, path) = create(folder, verb)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let journal = Self { file, path };
        journal.write(&Header {
            schema: JOURNAL_SCHEMA.to_owned(),
            boot: boot_id(),
            began: crate::clock::utc(),
            began_ns: crate::clock::now_ns(),
            what: what.to_owned(),
            stays,
        })?;
        Ok(journal)
    }

    /// Its name, as `undo` takes it.
    pub fn id(&self) -> String {
        id(&self.path)
    }

    /// Writes a change down; to be called before it is made.
    ///
    /// # Errors
    /// It cannot be written: the change must not be made.
    pub fn note(&self, change: &Change) -> io::Result<()> {
        self.write(change)
    }

    /// One line in one call, so that there is no half line whenever we are killed.
    fn write(&self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.file).write_all(&text)
    }

    /// Takes back all changes, newest first, and removes the journal where nothing is left to be done.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn take_back(self) -> io::Result<Restored> {
        let pending = Pending::read(&self.path)?;
        Ok(pending.undo())
    }

    /// Removes the journal: nothing of what it holds is in force any more.
    pub fn close(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Where journals are: `MANYCORE_STATE`, or `/run/manycore` for root, or `manycore` below `XDG_RUNTIME_DIR`, or
/// `/tmp/manycore-UID`.
pub fn folder() -> PathBuf {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    if getuid().is_root() {
        return "/run/manycore".into();
    }
    match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
        Some(folder) => Path::new(&folder).join("manycore"),
        None => env::temp_dir().join(format!("manycore-{}", getuid().as_raw())),
    }
}

/// A folder of our own: in `/tmp` somebody else might have made it, to have us undo what he writes there.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_owner(folder)
}

fn check_owner(folder: &Path) -> io::Result<()> {
    let owner = fs::symlink_metadata(folder)?.uid();
    if owner == getuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("it belongs to user {owner}; name another folder in {FOLDER_VARIABLE}"),
    ))
}

fn create(folder: &Path, verb: &str) -> io::Result<(File, PathBuf)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
    let mut turn = 0;
    loop {
        let suffix = if turn == 0 { String::new() } else { format!("-{turn}") };
        let path = folder.join(format!("{verb}-{}{suffix}.{EXTENSION}", std::process::id()));
        match open(&path, flags, Mode::RUSR | Mode::WUSR) {
            // A process of our id was here before and left something behind.
            Err(rustix::io::Errno::EXIST) => turn += 1,
            result => return Ok((result?.into(), path)),
        }
    }
}

/// End of the names of journals.
const EXTENSION: &str = "journal";

fn id(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests;
