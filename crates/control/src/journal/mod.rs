//! What we change on the machine, written down before it is changed, so that it can be taken back: at the end, on
//! a signal, and after SIGKILL by whoever reads the journal.
//!
//! A journal is a file of JSON lines: a [`Header`], then one [`Change`] a line, each written whole before the
//! change is made. Its owner holds a lock on it (`flock(2)`), which ends with the owner however that dies. All
//! that is journalled lives in the kernel's memory and is gone after a restart, so a journal of another boot is
//! only removed.

mod classes;
mod pending;
mod settings;
mod undo;

pub use pending::{Pending, pending};
pub use undo::Restored;

use manycore_linux::tasks;
use manycore_text::names::printable;
use manycore_topology::CpuSet;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    process::getuid,
};
use serde::{Deserialize, Serialize};
use std::{
    env,
    fs::{self, DirBuilder, File, Metadata},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Value of [`Header::schema`] that this version writes.
pub const JOURNAL_SCHEMA: &str = "manycore/journal/1";

/// Environment variable with another folder for journals.
pub const FOLDER_VARIABLE: &str = "MANYCORE_STATE";

/// The folder of root's journals. Others can pass through it, to the socket of root's guard, but list nothing.
pub const ROOTS_FOLDER: &str = "/run/manycore";

/// Who changes things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`JOURNAL_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// `/proc/sys/kernel/random/boot_id` of the running system.
    pub boot: String,
    /// The process namespace whose ids it holds (`/proc/self/ns/pid`).
    pub namespace: String,
    /// When it began, UTC.
    pub began: String,
    /// The same in nanoseconds of `CLOCK_MONOTONIC`, to order journals by.
    pub began_ns: u64,
    /// Process id and start (clock ticks since boot) of its owner. Older versions wrote none.
    #[serde(default)]
    pub owner: Option<(u32, u64)>,
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
        /// [`manycore_linux::tasks::start_time`] of it: another process with this id has another.
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
        /// [`manycore_linux::tasks::start_time`] of it.
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
    /// A group of cache and memory bandwidth is made (`resctrl`).
    Class {
        /// Its folder.
        path: PathBuf,
    },
    /// The kernel did not make it: whatever stands there is somebody else's.
    NotMade {
        /// Its folder.
        path: PathBuf,
    },
    /// A task is put into such a group.
    Assigned {
        /// Thread id.
        tid: u32,
        /// [`manycore_linux::tasks::start_time`] of it.
        start: u64,
        /// Folder of the group that it was in.
        from: PathBuf,
        /// Folder of the group that it goes to.
        to: PathBuf,
    },
    /// CPUs are put into such a group (`cpus_list`).
    Claimed {
        /// Those that were in one other group.
        cpus: CpuSet,
        /// Folder of that group.
        from: PathBuf,
        /// Folder of the group that they go to.
        to: PathBuf,
    },
    /// A limit of a group that was there before is written: one domain of one line.
    Limit {
        /// Folder of the group.
        path: PathBuf,
        /// The line.
        line: String,
        /// The domain.
        domain: u32,
        /// What was in force.
        old: u64,
        /// What is written, or what the kernel was seen to make of it.
        new: u64,
    },
    /// A file system is mounted.
    Mount {
        /// Where.
        point: PathBuf,
    },
    /// Somebody who placed a task before us, and whose value we took for the original one, has ended: it had this
    /// before him.
    Former {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// What it is to have back.
        old: CpuSet,
    },
    /// The same of a setting.
    FormerFile {
        /// The file.
        path: PathBuf,
        /// What it said before him.
        old: String,
    },
    /// The same of a limit.
    FormerLimit {
        /// Folder of the group.
        path: PathBuf,
        /// The line.
        line: String,
        /// The domain.
        domain: u32,
        /// What was in force before him.
        old: u64,
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
        // Under this name others see it only when it is locked and has its header.
        let hidden = folder.join(format!(".{verb}-{}", std::process::id()));
        let _ = fs::remove_file(&hidden);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
        let file = File::from(open(&hidden, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Self { file, path: hidden };
        let written = journal.write(&Header {
            schema: JOURNAL_SCHEMA.to_owned(),
            boot: boot_id(),
            namespace: namespace(),
            began: manycore_linux::clock::utc(),
            began_ns: manycore_linux::clock::now_ns(),
            owner: tasks::start_time(std::process::id()).map(|start| (std::process::id(), start)),
            what: printable(what),
            stays,
        });
        let published = written.and_then(|()| publish(&journal.path, folder, verb));
        let _ = fs::remove_file(&journal.path);
        journal.path = published?;
        Ok(journal)
    }

    /// All other journals of the same folder, newest first.
    pub(crate) fn others(&self) -> Vec<Pending> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (all, _) = pending(folder).unwrap_or_default();
        all.into_iter().filter(|other| other.path != self.path).collect()
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
        undo::restore(&self.path)
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
        return ROOTS_FOLDER.into();
    }
    match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
        Some(folder) => Path::new(&folder).join("manycore"),
        None => env::temp_dir().join(format!("manycore-{}", getuid().as_raw())),
    }
}

/// A folder of our own: in `/tmp` somebody else might have made it, to have us undo what he writes there.
///
/// # Errors
/// It cannot be made, or others can write to it.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mode = if folder == Path::new(ROOTS_FOLDER) { 0o711 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    check_owner(&fs::metadata(folder)?)
}

/// A folder or file that nobody but us can have written.
fn check_owner(about: &Metadata) -> io::Result<()> {
    let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match (about.uid(), about.mode() & 0o022) {
        (owner, _) if owner != getuid().as_raw() => {
            denied(format!("it belongs to user {owner}; name another folder in {FOLDER_VARIABLE}"))
        }
        (_, 0) => Ok(()),
        _ => denied(format!(
            "others may write to it; chmod go-w it, or name another folder in {FOLDER_VARIABLE}"
        )),
    }
}

/// Gives a journal the name that others see.
fn publish(hidden: &Path, folder: &Path, verb: &str) -> io::Result<PathBuf> {
    let mut turn = 0;
    loop {
        let suffix = if turn == 0 { String::new() } else { format!("-{turn}") };
        let path = folder.join(format!("{verb}-{}{suffix}.{EXTENSION}", std::process::id()));
        match fs::hard_link(hidden, &path) {
            // A process of our id was here before and left something behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => turn += 1,
            linked => return linked.map(|()| path),
        }
    }
}

/// End of the names of journals.
const EXTENSION: &str = "journal";

fn id(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests;
