//! Changes, each in the journal before it is made.

use crate::translate::Write;
use manycore_control::journal::{Change, Journal};
use manycore_linux::resctrl::schemata::{Line, Schemata};
use manycore_linux::resctrl::{
    put::{add_cpus, is_gone, put},
    read::path,
};
use manycore_linux::tasks;
use manycore_topology::CpuSet;
use rustix::io::Errno;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Why the kernel did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// EACCES, EPERM.
    #[error("no right to change {0}: root may (sudo)")]
    NoRight(PathBuf),
    /// EROFS.
    #[error("{0} is mounted read-only, as in a container: change it from the host")]
    ReadOnly(PathBuf),
    /// ENOSPC: no CLOSID, RMID or PARTID is left.
    #[error("the hardware has no room for one more group{}: remove one (manycore qos show lists them)", said(.0.as_deref()))]
    Full(Option<String>),
    /// EBUSY: the RMIDs of groups that are gone have data in caches still.
    #[error("no monitor is free for one more group{}: those of groups that were removed are busy until their data have \
             left the caches; try again in a while", said(.0.as_deref()))]
    Busy(Option<String>),
    /// A group of that name was made by somebody else meanwhile.
    #[error("{0} is there already, made by somebody else meanwhile: try again with another --name")]
    Exists(PathBuf),
    /// The group was removed by somebody else meanwhile.
    #[error("{0} was removed by somebody else meanwhile: 'manycore qos show' tells which groups there are")]
    Gone(PathBuf),
    /// Anything else, with `last_cmd_status` where that said something.
    #[error("the kernel refuses {what}: {error}{}", said(.status.as_deref()))]
    Other {
        /// What was written, and where.
        what: String,
        /// The error number.
        error: io::Error,
        /// The kernel's reason; it may keep silent.
        status: Option<String>,
    },
    /// The journal cannot be written: the change was not made.
    #[error("cannot write the journal: {0}")]
    Journal(io::Error),
}

/// The kernel's own words behind ours.
fn said(status: Option<&str>) -> String {
    status.map(|status| format!(" ({status})")).unwrap_or_default()
}

/// Changes a mounted file system.
#[derive(Debug)]
pub struct Writer<'a> {
    root: &'a Path,
    journal: &'a Journal,
}

impl<'a> Writer<'a> {
    /// For the file system at `root`.
    pub fn new(root: &'a Path, journal: &'a Journal) -> Self {
        Self { root, journal }
    }

    /// Makes a group; it has all there is until it is limited.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn make(&self, name: &str) -> Result<(), Refused> {
        let folder = self.root.join(name);
        self.note(&Change::Class { path: folder.clone() })?;
        let older = self.status();
        fs::create_dir(&folder).map_err(|error| {
            // Whatever stands there now is not ours to remove.
            let noted = self.journal.note(&Change::NotMade { path: folder.clone() });
            match noted {
                Err(error) => Refused::Journal(error),
                Ok(()) => {
                    self.refused(&folder, format!("to make {}", folder.display()), error, older.as_deref())
                }
            }
        })
    }

    /// Writes a line of a group's schemata. Where the group was there before us, `before` is what it says.
    ///
    /// Noted are the values that are written and those that the kernel will make of them: whoever is killed before
    /// [`Writer::note_in_force`] has changed limits to these.
    ///
    /// # Errors
    /// Why the kernel does not take it: then nothing of the line is in force.
    pub fn limit(&self, name: &str, write: &Write, before: Option<&Schemata>) -> Result<(), Refused> {
        let (folder, line) = (self.root.join(name), &write.line);
        if let Some(before) = before {
            for values in [&line.values, &write.expected] {
                self.note_limits(&folder, &line.name, &values.iter().collect::<Vec<_>>(), before)?;
            }
        }
        let older = self.status();
        let file = folder.join("schemata");
        put(&file, &format!("{line}\n")).map_err(|error| {
            self.refused(&file, format!("'{line}' in {}", file.display()), error, older.as_deref())
        })
    }

    /// Notes what the kernel was seen to make of a line, where that is not what was written.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn note_in_force(
        &self,
        name: &str,
        line: &Line,
        before: &Schemata,
        now: &Schemata,
    ) -> Result<(), Refused> {
        let Some(seen) = now.line(&line.name) else { return Ok(()) };
        let differs =
            |(domain, value): &(&u32, &u64)| line.values.get(domain).is_some_and(|written| written != *value);
        let values: Vec<(&u32, &u64)> = seen.values.iter().filter(differs).collect();
        self.note_limits(&self.root.join(name), &line.name, &values, before)
    }

    fn note_limits(
        &self,
        folder: &Path,
        line: &str,
        values: &[(&u32, &u64)],
        before: &Schemata,
    ) -> Result<(), Refused> {
        for &(&domain, &new) in values {
            let Some(old) = before.value(line, domain).filter(|&old| old != new) else { continue };
            self.note(&Change::Limit { path: folder.to_owned(), line: line.to_owned(), domain, old, new })?;
        }
        Ok(())
    }

    /// Puts a task of the group `from` into the group `name`; false where it has ended.
    ///
    /// # Errors
    /// Why it stays where it is.
    pub fn assign(&self, name: &str, tid: u32, from: &str) -> Result<bool, Refused> {
        let Some(start) = tasks::start_time(tid) else { return Ok(false) };
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.note(&Change::Assigned { tid, start, from, to: to.clone() })?;
        let file = to.join("tasks");
        match put(&file, &format!("{tid}\n")) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error, tid) => Ok(false),
            Err(error) => Err(self.refused(&file, format!("task {tid} in {}", file.display()), error, None)),
        }
    }

    /// Puts CPUs, all of them in the group `from` now, into the group `name`, beside those that it has.
    ///
    /// # Errors
    /// Why they stay where they are: for one, they are offline.
    pub fn claim(&self, name: &str, cpus: &CpuSet, from: &str) -> Result<(), Refused> {
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.note(&Change::Claimed { cpus: cpus.clone(), from, to: to.clone() })?;
        let older = self.status();
        let file = to.join("cpus_list");
        add_cpus(&file, cpus).map_err(|error| {
            self.refused(&file, format!("CPUs {cpus} in {}", file.display()), error, older.as_deref())
        })
    }

    /// Notes CPUs that the kernel takes out of the monitoring group `from` when they leave the group that it is in for
    /// the group `name`. To be called before that, so that they are put back after it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn note_lost(&self, name: &str, cpus: &CpuSet, from: &str) -> Result<(), Refused> {
        let (from, to) = (self.root.join(from), self.root.join(name));
        self.note(&Change::Claimed { cpus: cpus.clone(), from, to })
    }

    fn note(&self, change: &Change) -> Result<(), Refused> {
        self.journal.note(change).map_err(Refused::Journal)
    }

    /// What the kernel said of the last command; absent where that is nothing.
    fn status(&self) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path("info", "last_cmd_status"))).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text != "ok")
    }

    /// `older` is what the kernel said before: where it says the same now, that may be of an earlier command.
    fn refused(&self, file: &Path, what: String, error: io::Error, older: Option<&str>) -> Refused {
        let status = self.status().map(|status| match older {
            Some(older) if older == status => format!("{status}; this may be of an earlier command"),
            _ => status,
        });
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => Refused::NoRight(file.to_owned()),
            Some(Errno::ROFS) => Refused::ReadOnly(self.root.to_owned()),
            Some(Errno::NOSPC) => Refused::Full(status),
            Some(Errno::BUSY) => Refused::Busy(status),
            Some(Errno::EXIST) => Refused::Exists(file.to_owned()),
            Some(Errno::NOENT | Errno::NODEV) => Refused::Gone(file.to_owned()),
            _ => Refused::Other { what, error, status },
        }
    }
}

/// Mounts resctrl at `point`.
///
/// # Errors
/// Those of `mount(2)`; the journal cannot be written.
pub fn mount(journal: &Journal, point: &Path) -> Result<(), Refused> {
    journal.note(&Change::Mount { point: point.to_owned() }).map_err(Refused::Journal)?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("resctrl", point, "resctrl", flags, None).map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => Refused::NoRight(point.to_owned()),
        errno => Refused::Other {
            what: format!("to mount {}", point.display()),
            error: errno.into(),
            status: None,
        },
    })
}
