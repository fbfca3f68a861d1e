//! Changes resctrl. Each change is recorded in the journal before it is made.

use crate::translate::SchemataWrite;
use manycore_control::journal::{Change, Journal};
use manycore_linux::{
    resctrl::{
        put::{add_cpus, is_gone, put},
        read::path,
        schemata::{Schemata, SchemataLine},
    },
    tasks,
};
use manycore_topology::CpuSet;
use rustix::io::Errno;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Why the kernel refused a change.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// EACCES, EPERM.
    #[error("no permission to change {0}: run it as root (sudo)")]
    NoRight(PathBuf),
    /// EROFS.
    #[error("{0} is mounted read-only, as in a container: change it from the host")]
    ReadOnly(PathBuf),
    /// ENOSPC: no CLOSID, RMID or PARTID is left.
    #[error("the hardware supports no more groups{}: remove one ('manycore qos show' lists them)", kernel_message(.0.as_deref()))]
    Full(Option<String>),
    /// EBUSY: the RMIDs of removed groups still have data in caches.
    #[error("no monitor is free for another group{}: the monitors of removed groups are busy until their data have \
             left the caches; try again later", kernel_message(.0.as_deref()))]
    Busy(Option<String>),
    /// Another process has created a group of that name meanwhile.
    #[error("another process has created {0} meanwhile: choose another name")]
    Exists(PathBuf),
    /// Another process has removed the group meanwhile.
    #[error("another process has removed {0} meanwhile: 'manycore qos show' lists the groups")]
    Gone(PathBuf),
    /// Any other error, with `last_cmd_status` if that holds a reason.
    #[error("the kernel refused {what}: {error}{}", kernel_message(.status.as_deref()))]
    Other {
        /// What was written, and where.
        what: String,
        /// The error number.
        error: io::Error,
        /// The kernel's reason, if it gave one.
        status: Option<String>,
    },
    /// The journal cannot be written, so the change was not made.
    #[error("cannot write the journal: {0}")]
    Journal(io::Error),
}

/// Formats the kernel's own message, to be appended to ours.
fn kernel_message(status: Option<&str>) -> String {
    status.map(|status| format!(" ({status})")).unwrap_or_default()
}

/// Changes a mounted resctrl file system.
#[derive(Debug)]
pub struct Writer<'a> {
    root: &'a Path,
    journal: &'a Journal,
}

impl<'a> Writer<'a> {
    /// Returns a writer for the file system at `root`.
    pub fn new(root: &'a Path, journal: &'a Journal) -> Self {
        Self { root, journal }
    }

    /// Creates a group, without limits at first.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub fn create_group(&self, name: &str) -> Result<(), WriteError> {
        let folder = self.root.join(name);
        self.record(&Change::ResctrlGroup { path: folder.clone() })?;
        let older = self.status();
        fs::create_dir(&folder).map_err(|error| {
            // A directory of this name that exists now was not created by manycore and must not be removed by
            // undo.
            let recorded = self.journal.record(&Change::ResctrlGroupNotCreated { path: folder.clone() });
            match recorded {
                Err(error) => WriteError::Journal(error),
                Ok(()) => {
                    self.refused(&folder, format!("to create {}", folder.display()), error, older.as_deref())
                }
            }
        })
    }

    /// Writes a line of a group's schemata. `before` are the old limits, for a group that existed before.
    ///
    /// Both the written values and the values expected from the kernel's rounding are recorded. If the
    /// process is killed before [`Writer::record_in_force`], undo recognises either of them.
    ///
    /// # Errors
    /// Why the kernel refused it; then nothing of the line is in force.
    pub fn write_limit(
        &self,
        name: &str,
        write: &SchemataWrite,
        before: Option<&Schemata>,
    ) -> Result<(), WriteError> {
        let (folder, line) = (self.root.join(name), &write.line);
        if let Some(before) = before {
            for values in [&line.values, &write.expected] {
                self.record_limits(&folder, &line.name, &values.iter().collect::<Vec<_>>(), before)?;
            }
        }
        let older = self.status();
        let file = folder.join("schemata");
        put(&file, &format!("{line}\n")).map_err(|error| {
            self.refused(&file, format!("'{line}' in {}", file.display()), error, older.as_deref())
        })
    }

    /// Records the values in force for a line, if they differ from the written ones.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn record_in_force(
        &self,
        name: &str,
        line: &SchemataLine,
        before: &Schemata,
        now: &Schemata,
    ) -> Result<(), WriteError> {
        let Some(seen) = now.line(&line.name) else { return Ok(()) };
        let differs =
            |(domain, value): &(&u32, &u64)| line.values.get(domain).is_some_and(|written| written != *value);
        let values: Vec<(&u32, &u64)> = seen.values.iter().filter(differs).collect();
        self.record_limits(&self.root.join(name), &line.name, &values, before)
    }

    fn record_limits(
        &self,
        folder: &Path,
        line: &str,
        values: &[(&u32, &u64)],
        before: &Schemata,
    ) -> Result<(), WriteError> {
        for &(&domain, &new) in values {
            let Some(old) = before.value(line, domain).filter(|&old| old != new) else { continue };
            self.record(&Change::Limit { path: folder.to_owned(), line: line.to_owned(), domain, old, new })?;
        }
        Ok(())
    }

    /// Moves a task from the group `from` to the group `name`; false if the task has ended.
    ///
    /// # Errors
    /// Why it was not moved.
    pub fn move_task(&self, name: &str, tid: u32, from: &str) -> Result<bool, WriteError> {
        let Some(start) = tasks::start_time(tid) else { return Ok(false) };
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.record(&Change::TaskMoved { tid, start, from, to: to.clone() })?;
        let file = to.join("tasks");
        match put(&file, &format!("{tid}\n")) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error, tid) => Ok(false),
            Err(error) => Err(self.refused(&file, format!("task {tid} in {}", file.display()), error, None)),
        }
    }

    /// Moves CPUs, all of which are in the group `from`, to the group `name`, in addition to its own CPUs.
    ///
    /// # Errors
    /// Why they were not moved, for example because they are offline.
    pub fn move_cpus(&self, name: &str, cpus: &CpuSet, from: &str) -> Result<(), WriteError> {
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.record(&Change::CpusMoved { cpus: cpus.clone(), from, to: to.clone() })?;
        let older = self.status();
        let file = to.join("cpus_list");
        add_cpus(&file, cpus).map_err(|error| {
            self.refused(&file, format!("CPUs {cpus} in {}", file.display()), error, older.as_deref())
        })
    }

    /// Records CPUs that the kernel takes out of the monitoring group `from` when they leave its parent group
    /// for the group `name`. Must be called before the move, so that undo returns them after it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn record_lost(&self, name: &str, cpus: &CpuSet, from: &str) -> Result<(), WriteError> {
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.record(&Change::CpusMoved { cpus: cpus.clone(), from, to })
    }

    fn record(&self, change: &Change) -> Result<(), WriteError> {
        self.journal.record(change).map_err(WriteError::Journal)
    }

    /// Returns the kernel's message about the last command; absent if there is none.
    fn status(&self) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path("info", "last_cmd_status"))).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text != "ok")
    }

    /// Converts an error. `older` is the kernel's message before: if it is still the same, it may refer to an
    /// earlier command.
    fn refused(&self, file: &Path, what: String, error: io::Error, older: Option<&str>) -> WriteError {
        let status = self.status().map(|status| match older {
            Some(older) if older == status => format!("{status}; this message may be of an earlier command"),
            _ => status,
        });
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => WriteError::NoRight(file.to_owned()),
            Some(Errno::ROFS) => WriteError::ReadOnly(self.root.to_owned()),
            Some(Errno::NOSPC) => WriteError::Full(status),
            Some(Errno::BUSY) => WriteError::Busy(status),
            Some(Errno::EXIST) => WriteError::Exists(file.to_owned()),
            Some(Errno::NOENT | Errno::NODEV) => WriteError::Gone(file.to_owned()),
            _ => WriteError::Other { what, error, status },
        }
    }
}

/// Mounts resctrl at `point`.
///
/// # Errors
/// Errors of `mount(2)`, or the journal cannot be written.
pub fn mount(journal: &Journal, point: &Path) -> Result<(), WriteError> {
    journal.record(&Change::Mount { point: point.to_owned() }).map_err(WriteError::Journal)?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("resctrl", point, "resctrl", flags, None).map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => WriteError::NoRight(point.to_owned()),
        errno => WriteError::Other {
            what: format!("to mount {}", point.display()),
            error: errno.into(),
            status: None,
        },
    })
}
