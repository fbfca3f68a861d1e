//! Records changes to the machine before they are made, so that they can be undone: when the command ends, on
//! a signal, and after SIGKILL by a later process that reads the journal.
//!
//! A journal is a file of JSON lines: a [`Header`], then one [`Change`] per line, each written completely
//! before the change is made. The owner of the journal holds a lock on it (`flock(2)`), which the kernel
//! releases when the owner ends for any reason. All recorded changes are to state in the kernel's memory,
//! which a reboot clears, so a journal of an earlier boot is only removed.

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

/// Environment variable with the directory of journals.
pub const FOLDER_VARIABLE: &str = "MANYCORE_STATE";

/// The directory of root's journals. Other users can pass through it to the socket of root's guard, but
/// cannot list it.
pub const ROOTS_FOLDER: &str = "/run/manycore";

/// The command that makes the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`JOURNAL_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// `/proc/sys/kernel/random/boot_id` of the running system.
    pub boot: String,
    /// The process namespace of the recorded ids (`/proc/self/ns/pid`).
    pub namespace: String,
    /// Start time in UTC.
    pub began: String,
    /// Start time in nanoseconds of `CLOCK_MONOTONIC`, by which journals are ordered.
    pub began_ns: u64,
    /// Process id and start time (clock ticks since boot) of the owner. Absent in files of older versions.
    #[serde(default)]
    pub owner: Option<(u32, u64)>,
    /// The request, for display: `pin --pid 812 --place close`.
    pub what: String,
    /// Whether the changes stay in force after the owner has ended, until they are undone.
    pub stays: bool,
}

/// One change. CPUs of tasks are as `sched_getaffinity(2)` returns them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A command is started on CPUs, with `mark` in its environment.
    Command {
        /// `NAME=VALUE` in the environment of all processes that it starts.
        mark: String,
        /// The CPUs that its tasks would have had otherwise.
        old: CpuSet,
        /// The CPUs that it starts on.
        new: CpuSet,
    },
    /// The tasks of a process are about to be placed.
    Process {
        /// Process id.
        pid: u32,
        /// Its [`manycore_linux::tasks::start_time`], which distinguishes it from a later process with the same id.
        start: u64,
        /// The CPUs that undo gives to tasks which it creates from now on.
        cpus: CpuSet,
    },
    /// The affinity of a task of a process that an earlier entry names (or that carries an earlier mark).
    Affinity {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The affinity before the change.
        old: CpuSet,
        /// The affinity after the change.
        new: CpuSet,
    },
    /// A process is moved to a control group.
    Moved {
        /// Process id.
        pid: u32,
        /// Its [`manycore_linux::tasks::start_time`].
        start: u64,
        /// Directory of the group that it was in.
        from: PathBuf,
        /// Directory of the group that it is moved to.
        to: PathBuf,
    },
    /// A control group is created.
    Group {
        /// Its directory.
        path: PathBuf,
    },
    /// A controller is enabled for the children of a version 2 group.
    Controller {
        /// `cgroup.subtree_control` of the group.
        path: PathBuf,
        /// `cpuset`.
        controller: String,
    },
    /// A group of cache and memory bandwidth control (`resctrl`) is created.
    Class {
        /// Its directory.
        path: PathBuf,
    },
    /// The kernel did not create it: a group of this name belongs to another owner.
    NotMade {
        /// Its directory.
        path: PathBuf,
    },
    /// A task is moved to such a group.
    Assigned {
        /// Thread id.
        tid: u32,
        /// Its [`manycore_linux::tasks::start_time`].
        start: u64,
        /// Directory of the group that it was in.
        from: PathBuf,
        /// Directory of the group that it is moved to.
        to: PathBuf,
    },
    /// CPUs are moved to such a group (`cpus_list`).
    Claimed {
        /// The CPUs, all of which were in one other group.
        cpus: CpuSet,
        /// Directory of that group.
        from: PathBuf,
        /// Directory of the group that they are moved to.
        to: PathBuf,
    },
    /// A limit of an existing group is written: one domain of one line.
    Limit {
        /// Directory of the group.
        path: PathBuf,
        /// Name of the line.
        line: String,
        /// Number of the domain.
        domain: u32,
        /// The value that was in force.
        old: u64,
        /// The value that is written, or that was in force after the write.
        new: u64,
    },
    /// A file system is mounted.
    Mount {
        /// Returns the mount point.
        point: PathBuf,
    },
    /// An older journal that had placed the same task was undone. Its recorded original affinity replaces the
    /// one in this journal, which was set by the older one.
    Former {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The affinity to restore.
        old: CpuSet,
    },
    /// The same for a kernel setting.
    FormerFile {
        /// The file.
        path: PathBuf,
        /// The contents to restore.
        old: String,
    },
    /// The same for a limit.
    FormerLimit {
        /// Directory of the group.
        path: PathBuf,
        /// Name of the line.
        line: String,
        /// Number of the domain.
        domain: u32,
        /// The value to restore.
        old: u64,
    },
    /// A kernel setting is written, such as `/proc/irq/24/smp_affinity_list`.
    File {
        /// The file.
        path: PathBuf,
        /// The old contents, without the newline at the end.
        old: String,
        /// The contents that are written.
        new: String,
    },
}

/// An open journal. The lock on it shows other processes that its owner is running.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Creates a journal in `folder` (see [`folder`]), named after `verb` and this process. `what` describes
    /// the request; `stays` means that the changes outlive this process.
    ///
    /// # Errors
    /// The directory or the file cannot be created or written, or the directory belongs to another user.
    pub fn begin(folder: &Path, verb: &str, what: &str, stays: bool) -> io::Result<Self> {
        make_folder(folder)?;
        // The final name appears only when the file is locked and has its header.
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

    /// Returns all other journals in the same directory, newest first.
    pub(crate) fn others(&self) -> Vec<Pending> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (all, _) = pending(folder).unwrap_or_default();
        all.into_iter().filter(|other| other.path != self.path).collect()
    }

    /// Returns its name, as `undo` takes it.
    pub fn id(&self) -> String {
        id(&self.path)
    }

    /// Records a change; must be called before the change is made.
    ///
    /// # Errors
    /// It cannot be written; then the change must not be made.
    pub fn note(&self, change: &Change) -> io::Result<()> {
        self.write(change)
    }

    /// Writes one line in one call, so that a killed process leaves no partial line.
    fn write(&self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.file).write_all(&text)
    }

    /// Undoes all changes, newest first, and removes the journal if nothing is left to be undone.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn take_back(self) -> io::Result<Restored> {
        undo::restore(&self.path)
    }

    /// Removes the journal without undoing anything. For journals whose changes are no longer in force.
    pub fn close(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the directory of journals: `MANYCORE_STATE`, or `/run/manycore` for root, or `manycore` below
/// `XDG_RUNTIME_DIR`, or `/tmp/manycore-UID`.
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

/// Creates the directory and checks its owner. In `/tmp` another user could have created it with forged
/// journals, which undo would then execute.
///
/// # Errors
/// It cannot be created, or other users can write to it.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mode = if folder == Path::new(ROOTS_FOLDER) { 0o711 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    check_owner(&fs::metadata(folder)?)
}

/// Checks that only this user can have written a directory or file.
fn check_owner(about: &Metadata) -> io::Result<()> {
    let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match (about.uid(), about.mode() & 0o022) {
        (owner, _) if owner != getuid().as_raw() => {
            denied(format!("it belongs to user {owner}; set {FOLDER_VARIABLE} to another directory"))
        }
        (_, 0) => Ok(()),
        _ => denied(format!(
            "other users can write to it; run chmod go-w on it, or set {FOLDER_VARIABLE} to another directory"
        )),
    }
}

/// Gives a journal its final name.
fn publish(hidden: &Path, folder: &Path, verb: &str) -> io::Result<PathBuf> {
    let mut turn = 0;
    loop {
        let suffix = if turn == 0 { String::new() } else { format!("-{turn}") };
        let path = folder.join(format!("{verb}-{}{suffix}.{EXTENSION}", std::process::id()));
        match fs::hard_link(hidden, &path) {
            // A journal of an earlier process with our id is still there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => turn += 1,
            linked => return linked.map(|()| path),
        }
    }
}

/// Suffix of the names of journals.
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
