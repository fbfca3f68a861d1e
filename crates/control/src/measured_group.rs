//! The control group of an instance of a service that is measured: limits, membership, freezing and the end of all that the
//! instance has started.
//!
//! Unlike the group of a command that is placed, its processes end with it: when it is removed, when its journal is undone,
//! and by the cleanup process. In version 1 it is one group in each hierarchy that is needed; in version 2 it is a single one.
//! Membership is inherited, also by daemons that fork twice.

use crate::{
    GroupError,
    cpuset::PREFIX,
    group_dir::{self, CPUSET},
    group_end, group_limits, group_place,
    journal::{Change, Journal},
};
use manycore_linux::{child, pidfd::open_pidfd};
use manycore_topology::{
    cgroup::{self, HierarchyKind},
    sys_tree::SysTree,
};
use rustix::process::{Signal, pidfd_send_signal};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

pub use crate::group_limits::{GroupLimits, MAX_CPUS, MIN_CPUS, WEIGHTS, cpu_shares};

/// Maximum time until all processes of a group are frozen. One that waits for a device freezes when it is served.
const MAX_FREEZE: Duration = Duration::from_secs(1);

/// Interval between two looks whether they are. Version 1 does not report it.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// A group created by manycore. It exists until it is removed or its journal is undone.
#[derive(Debug)]
pub struct MeasuredGroup {
    parts: Vec<GroupPart>,
}

/// The group in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupPart {
    /// Its directory.
    folder: PathBuf,
    flavour: HierarchyKind,
    /// The controllers that it is for.
    controllers: Vec<&'static str>,
}

impl MeasuredGroup {
    /// Creates a group named `name`, below our own group where possible, otherwise beside it. Each directory is given to
    /// `announce` and recorded in `journal` before it exists.
    ///
    /// # Errors
    /// Why a group with these limits cannot be created. What was created until then is removed; a group of this name that
    /// exists is left alone.
    pub fn create(
        journal: &Journal,
        announce: &mut dyn FnMut(&Path) -> io::Result<()>,
        name: &str,
        limits: &GroupLimits,
    ) -> Result<Self, GroupError> {
        let planned = plan(&SysTree::open(Path::new("/"))?, &format!("{PREFIX}{name}"), limits)?;
        let failed = |part: &GroupPart, error: io::Error| {
            let parent = part.folder.parent().unwrap_or(&part.folder).to_owned();
            GroupError::Create { what: "control group", parent, error }
        };
        // It is another program's, as in another process namespace, and must not be ended by our journal.
        if let Some(part) = planned.iter().find(|part| part.folder.exists()) {
            return Err(failed(part, io::ErrorKind::AlreadyExists.into()));
        }
        let mut group = Self { parts: Vec::new() };
        for part in planned {
            let made = announce(&part.folder).and_then(|()| part.create(journal, limits));
            match made {
                Ok(()) => group.parts.push(part),
                // The affinity of the processes says the same.
                Err(_) if part.controllers == [CPUSET] => drop(group_end::remove(&part.folder)),
                Err(error) => {
                    let _ = group_end::remove(&part.folder);
                    let _ = group.remove();
                    return Err(failed(&part, error));
                }
            }
        }
        Ok(group)
    }

    /// Returns its directories.
    pub fn folders(&self) -> Vec<&Path> {
        self.parts.iter().map(|part| part.folder.as_path()).collect()
    }

    /// Makes `command` enter it before it executes its program. A command that cannot enter does not start.
    ///
    /// # Errors
    /// The files of the group cannot be opened.
    pub fn hold(&self, command: &mut Command) -> io::Result<()> {
        for part in &self.parts {
            // In version 1, a thread that moves itself does not wait for a grace period of the kernel.
            let file = if part.flavour == HierarchyKind::Unified { "cgroup.procs" } else { "tasks" };
            let entrance: File = OpenOptions::new().write(true).open(part.folder.join(file))?;
            child::must_enter_cgroup(command, entrance);
        }
        Ok(())
    }

    /// Returns the processes in it and in groups below it.
    pub fn members(&self) -> BTreeSet<u32> {
        self.folders().into_iter().flat_map(group_dir::members_below).collect()
    }

    /// Returns the memory in bytes that the kernel charges to it, if it has a limit for memory.
    pub fn memory(&self) -> Option<u64> {
        let part = self.parts.iter().find(|part| part.controllers.contains(&"memory"))?;
        let unified = part.flavour == HierarchyKind::Unified;
        let file = if unified { "memory.current" } else { "memory.usage_in_bytes" };
        fs::read_to_string(part.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Stops all of its processes, and waits until they are stopped, for a second at most: by its freezer, or by SIGSTOP
    /// if it has none.
    ///
    /// # Errors
    /// The freezer cannot be written.
    pub fn freeze(&self) -> io::Result<()> {
        let Some((freezer, is)) = self.freezer() else {
            self.signal_all(Signal::STOP);
            return Ok(());
        };
        fs::write(&freezer.file, freezer.frozen)?;
        let deadline = Instant::now() + MAX_FREEZE;
        while !is_frozen(&is) && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Makes all of its processes run again.
    ///
    /// # Errors
    /// The freezer cannot be written.
    pub fn thaw(&self) -> io::Result<()> {
        match self.freezer() {
            Some((freezer, _)) => fs::write(freezer.file, freezer.thawed),
            None => {
                self.signal_all(Signal::CONT);
                Ok(())
            }
        }
    }

    /// Kills all processes in it and removes it.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        let folders = self.folders();
        group_end::kill_all(&folders);
        folders.into_iter().try_for_each(group_end::remove)
    }

    /// Returns the file that freezes it, and the file that shows whether it is frozen.
    fn freezer(&self) -> Option<(Freezer, PathBuf)> {
        self.parts.iter().find_map(|part| {
            let file = |name: &str| Some(part.folder.join(name)).filter(|path| path.exists());
            if let Some(state) = file("freezer.state") {
                return Some((Freezer { file: state.clone(), frozen: "FROZEN", thawed: "THAWED" }, state));
            }
            let (freeze, events) = (file("cgroup.freeze")?, file("cgroup.events")?);
            Some((Freezer { file: freeze, frozen: "1", thawed: "0" }, events))
        })
    }

    /// Signals all members, also those that are created meanwhile, as far as they do not outrun it.
    fn signal_all(&self, signal: Signal) {
        const ROUNDS: usize = 100;
        let mut done = BTreeSet::new();
        for _ in 0..ROUNDS {
            let new: Vec<u32> = self.members().difference(&done).copied().collect();
            if new.is_empty() {
                return;
            }
            for &pid in &new {
                // The pidfd comes first: a process that gets the same id later is not a member.
                if let Ok(process) = open_pidfd(pid)
                    && self.members().contains(&pid)
                {
                    let _ = pidfd_send_signal(&process, signal);
                }
            }
            done.extend(new);
        }
    }
}

/// A file that freezes a group.
struct Freezer {
    file: PathBuf,
    frozen: &'static str,
    thawed: &'static str,
}

/// Whether `freezer.state` (version 1) or `cgroup.events` (version 2) says that all processes are frozen.
fn is_frozen(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| ["FROZEN", "frozen 1"].contains(&line.trim()))
}

/// Decides in which hierarchies groups are needed.
fn plan(tree: &SysTree, name: &str, limits: &GroupLimits) -> Result<Vec<GroupPart>, GroupError> {
    let mut parts: Vec<GroupPart> = Vec::new();
    let wanted =
        [("cpu", limits.cpus.is_some() || limits.weight.is_some()), ("memory", limits.memory.is_some())];
    let mut of_unified = Vec::new();
    for (controller, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        match group_place::named(tree, controller) {
            Some(above) => add(&mut parts, above.join(name), controller),
            None => of_unified.push(controller),
        }
    }
    let unified = |above: PathBuf, controllers| GroupPart {
        folder: above.join(name),
        flavour: HierarchyKind::Unified,
        controllers,
    };
    if !of_unified.is_empty() {
        let above = group_place::unified(tree, &of_unified, true)?;
        if !limits.places.is_empty() && group_place::enables(tree, &above, CPUSET) {
            of_unified.push(CPUSET);
        }
        parts.push(unified(above, of_unified));
    } else if let Some(above) = group_place::named(tree, "freezer") {
        add(&mut parts, above.join(name), "freezer");
    } else if let Some(own) = cgroup::own_unified(tree) {
        parts.push(unified(Path::new("/").join(own.path), Vec::new()));
    } else if parts.is_empty() {
        return Err(GroupError::NotMounted);
    }
    if let Some(above) = group_place::named(tree, CPUSET).filter(|_| !limits.places.is_empty()) {
        add(&mut parts, above.join(name), CPUSET);
    }
    Ok(parts)
}

/// Adds a controller of version 1. Several may be in one hierarchy.
fn add(parts: &mut Vec<GroupPart>, folder: PathBuf, controller: &'static str) {
    match parts.iter_mut().find(|part| part.folder == folder) {
        Some(part) => part.controllers.push(controller),
        None => {
            parts.push(GroupPart { folder, flavour: HierarchyKind::Named, controllers: vec![controller] });
        }
    }
}

impl GroupPart {
    fn create(&self, journal: &Journal, limits: &GroupLimits) -> io::Result<()> {
        let (folder, flavour) = (&self.folder, self.flavour);
        if let Some(above) = folder.parent().filter(|_| flavour == HierarchyKind::Unified) {
            self.controllers.iter().try_for_each(|name| group_dir::enable(journal, above, name))?;
        }
        journal.record(&Change::MeasuredGroup { path: folder.clone() })?;
        fs::create_dir(folder)?;
        let is_for = |controller| self.controllers.contains(&controller);
        if let Some(cpus) = limits.cpus.filter(|_| is_for("cpu")) {
            group_limits::limit_cpus(folder, flavour, cpus)?;
        }
        if let Some(weight) = limits.weight.filter(|_| is_for("cpu")) {
            group_limits::set_weight(folder, flavour, weight)?;
        }
        if let Some(bytes) = limits.memory.filter(|_| is_for("memory")) {
            group_limits::limit_memory(folder, flavour, bytes)?;
        }
        // A group of version 1 with this controller takes no process before its CPUs are set.
        let is_bare = flavour == HierarchyKind::Named && folder.join("cpuset.cpus").exists();
        if is_bare {
            return group_limits::limit_places(folder, flavour, &limits.places);
        }
        if is_for(CPUSET) {
            // If that fails, the affinity of the processes says the same.
            let _ = group_limits::limit_places(folder, flavour, &limits.places);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
