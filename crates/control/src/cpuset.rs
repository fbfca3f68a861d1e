//! Control groups that hold processes on CPUs and memory nodes (`cpuset`, `Documentation/admin-guide/cgroup-v2.rst`
//! and `cgroup-v1/cpusets.rst`): unlike an affinity, a cpuset cannot be left by the process itself.

use crate::journal::{Change, Journal};
use manycore_linux::tasks;
use manycore_topology::CpuSet;
use manycore_topology::{
    cgroup::{self, Flavour, Folder},
    tree::Tree,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The controller's name.
const CONTROLLER: &str = "cpuset";

/// Beginning of the names of groups that we make.
const PREFIX: &str = "manycore-";

/// A group of ours below the one that a process was in.
#[derive(Debug)]
pub struct Hold {
    home: PathBuf,
    group: PathBuf,
    /// Whether the command was started in it already.
    entered: bool,
}

/// The name of groups that belong to a journal.
pub(crate) fn name_of(journal: &Journal) -> String {
    format!("{PREFIX}{}", journal.id())
}

impl Hold {
    /// Makes a group below the one of process `pid`, so that its other limits go on, for `cpus` and `nodes` (those
    /// of the group above where empty). It is named after the journal.
    ///
    /// # Errors
    /// Why there can be none here, for people; what was made until then is in the journal.
    pub fn make(journal: &Journal, pid: u32, cpus: &CpuSet, nodes: &CpuSet) -> Result<Self, String> {
        let tree = Tree::open(Path::new("/")).map_err(|error| error.to_string())?;
        let home = home(&tree, pid).ok_or_else(|| missing(pid))?;
        let mut folder = Path::new("/").join(&home.path);
        // Of version 2 it may be in a group of ours since its start.
        if folder.ends_with(name_of(journal)) {
            folder.pop();
        }
        let group = folder.join(name_of(journal));
        let entered = home.flavour == Flavour::Unified && group.is_dir();
        let make = || -> io::Result<()> {
            if home.flavour == Flavour::Unified {
                enable(journal, &folder)?;
            }
            if !entered {
                journal.note(&Change::Group { path: group.clone() })?;
                fs::create_dir(&group)?;
            }
            if home.flavour == Flavour::Unified {
                share_domain(&group)?;
            }
            fs::write(group.join("cpuset.cpus"), cpus.to_string())?;
            match home.flavour {
                Flavour::Unified if nodes.is_empty() => Ok(()),
                // Version 1 inherits nothing.
                _ if nodes.is_empty() => {
                    fs::write(group.join("cpuset.mems"), fs::read(folder.join("cpuset.mems"))?)
                }
                _ => fs::write(group.join("cpuset.mems"), nodes.to_string()),
            }
        };
        match make() {
            Ok(()) => Ok(Self { home: folder, group, entered }),
            Err(error) => {
                // What is left now, undo would find.
                let _ = if entered { Ok(()) } else { remove(&group) };
                Err(format!("no cpuset can be made in {}: {error}", folder.display()))
            }
        }
    }

    /// Removes the group again, as nobody has entered it.
    pub fn give_up(self) {
        if !self.entered {
            let _ = remove(&self.group);
        }
    }

    /// Moves process `pid` in, with all its threads. Takes a grace period of the kernel.
    ///
    /// # Errors
    /// It or one of its threads is not in the group that this one is below, or those of writing `cgroup.procs`: the
    /// process is gone, or must not be moved.
    pub fn take(&self, journal: &Journal, pid: u32) -> io::Result<()> {
        let start = tasks::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (self.home.clone(), self.group.clone());
        let now = folder_of(pid);
        if now.as_ref() == Some(&to) {
            return Ok(());
        }
        let groups = |tid: u32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/cgroup")).ok();
        let own = groups(pid);
        let together = tasks::threads(pid)
            .into_iter()
            .all(|tid| groups(tid).is_none_or(|one| Some(&one) == own.as_ref()));
        if now.as_ref() != Some(&from) || !together {
            return Err(io::Error::other("it or some of its threads are in other control groups"));
        }
        journal.note(&Change::Moved { pid, start, from, to })?;
        move_to(pid, &self.group)
    }
}

/// Why no cpuset was found for a process.
fn missing(pid: u32) -> &'static str {
    if tasks::is_alive(pid) { "no cpuset controller reaches its control group" } else { "it has ended" }
}

/// Folder of the group that sets the CPUs of process `pid`.
pub(crate) fn folder_of(pid: u32) -> Option<PathBuf> {
    let tree = Tree::open(Path::new("/")).ok()?;
    Some(Path::new("/").join(home(&tree, pid)?.path))
}

/// The same; a version 2 group only where the controller reaches it.
fn home(tree: &Tree, pid: u32) -> Option<Folder> {
    let folders = cgroup::folders_of(tree, &pid.to_string(), CONTROLLER);
    let reaches = |folder: &Folder| {
        folder.flavour == Flavour::Named
            || folder.flavour == Flavour::Unified && lists(&format!("/{}/cgroup.controllers", folder.path))
    };
    // The last folder of a hierarchy is the group itself; hierarchies come one after the other.
    folders.into_iter().rfind(reaches)
}

fn lists(path: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|name| name == CONTROLLER)
}

/// Lets children of a version 2 group have cpusets. Where another journal says that it did that, we share in it: who
/// ends last disables it.
fn enable(journal: &Journal, folder: &Path) -> io::Result<()> {
    let path = folder.join("cgroup.subtree_control");
    let change = Change::Controller { path: path.clone(), controller: CONTROLLER.to_owned() };
    let enabled = lists(&path.to_string_lossy());
    if !enabled || journal.others().iter().any(|other| other.changes.contains(&change)) {
        journal.note(&change)?;
    }
    if enabled { Ok(()) } else { fs::write(path, format!("+{CONTROLLER}")) }
}

/// Makes a new group a threaded one where the one above it holds processes, as that of a service or a login does:
/// such a group may have no other children with members. All else that limits the one above goes on.
fn share_domain(group: &Path) -> io::Result<()> {
    let kind = group.join("cgroup.type");
    match fs::read_to_string(&kind)?.trim() {
        "domain invalid" => fs::write(kind, "threaded"),
        _ => Ok(()),
    }
}

/// Takes the controller from children of a version 2 group, unless one of them uses it or they do not have it: it
/// may never have been given to them.
pub(crate) fn disable(path: &Path, controller: &str) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|_| lists(&path.to_string_lossy())) else { return Ok(()) };
    let uses = |child: &PathBuf| {
        fs::read_to_string(child.join("cpuset.cpus")).is_ok_and(|cpus| !cpus.trim().is_empty())
    };
    if children(folder).iter().any(uses) { Ok(()) } else { fs::write(path, format!("-{controller}")) }
}

pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

pub(crate) fn move_to(pid: u32, group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), pid.to_string())
}

/// Processes in a group, zombies too; of a threaded group, which does not tell them, the threads: to move one of them
/// by `cgroup.procs` moves its process.
pub(crate) fn members(group: &Path) -> Vec<u32> {
    let read = |file: &str| fs::read_to_string(group.join(file));
    let text = read("cgroup.procs").or_else(|_| read("cgroup.threads")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// Lets a group use all CPUs of the one above it, so that affinities in it can be widened.
///
/// # Errors
/// Those of writing `cpuset.cpus`.
pub(crate) fn open(group: &Path) -> io::Result<()> {
    let (own, above) = (group.join("cpuset.cpus"), group.parent().unwrap_or(group).join("cpuset.cpus"));
    if !own.exists() {
        return Ok(());
    }
    // Version 1 inherits nothing; a group of version 2 without CPUs of its own has those above.
    let cpus = if group.join("cpuset.effective_cpus").exists() { fs::read(above)? } else { b"\n".to_vec() };
    fs::write(own, cpus)
}

/// Moves all processes that are in a group to the one above it.
pub(crate) fn empty(group: &Path) -> io::Result<()> {
    let Some(above) = group.parent() else { return Ok(()) };
    for pid in members(group) {
        match move_to(pid, above) {
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes a group with those who have come to it.
pub(crate) fn remove(group: &Path) -> io::Result<()> {
    // A process that forks while we move it leaves a child behind; one that has ended leaves in its own time.
    const TRIES: usize = 200;
    if !children(group).is_empty() {
        return Err(io::Error::other("there are other groups in it, which have to go first"));
    }
    for _ in 0..TRIES {
        match fs::remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => empty(group)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => return result,
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(io::Error::other("processes keep coming to it"))
}
