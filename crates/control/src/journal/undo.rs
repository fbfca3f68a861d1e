//! Undoes the changes of a journal.

use super::{Change, Pending, classes, settings};
use crate::{cpuset, enclosure};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use rustix::{
    fs::{FlockOperation, flock},
    io::retry_on_intr,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs::{self, File},
    io,
    path::Path,
    thread,
    time::Duration,
};

/// The outcome of undoing a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Number of tasks whose CPUs were restored.
    pub tasks: usize,
    /// Number of processes that were moved back to their control group.
    pub moved: usize,
    /// Number of control groups that were removed.
    pub groups: usize,
    /// Number of kernel settings that were restored.
    pub files: usize,
    /// Number of tasks that were moved back to their resctrl group.
    pub assigned: usize,
    /// Number of resctrl groups that were removed.
    pub classes: usize,
    /// Number of limits of resctrl groups that were restored.
    pub limits: usize,
    /// Number of file systems that were unmounted.
    pub mounts: usize,
    /// Settings that another program has changed since and that were left unchanged, one sentence each.
    pub left: Vec<String>,
    /// Changes that cannot be undone while another program uses them. The journal is kept, with only these
    /// changes.
    #[serde(skip)]
    pub later: Vec<Change>,
    /// Changes that could not be undone, and why, one sentence each. The journal is kept.
    pub failed: Vec<String>,
}

/// Maximum number of rounds in which tasks are searched that were created during the round before.
const ROUNDS: usize = 20;

/// Delay between two rounds. A new task has the CPUs that its parent had when its creation began
/// (`dup_task_struct` in `kernel/fork.c`), but becomes visible only at the end of its creation.
const BIRTH: Duration = Duration::from_millis(20);

/// A process of the journal that still runs.
struct Process {
    start: u64,
    /// CPUs for the tasks that it creates.
    cpus: CpuSet,
}

/// A task whose affinity differs from the original one.
struct Task {
    pid: u32,
    tid: u32,
    start: u64,
    /// The affinity before our change.
    old: CpuSet,
    /// The current affinity.
    now: CpuSet,
    /// Whether the current affinity was set by us.
    ours: bool,
}

/// Undoes the changes of the journal at `path`, whose lock the caller holds.
///
/// # Errors
/// It cannot be read.
pub(super) fn restore(path: &Path) -> io::Result<Restored> {
    // Only one undo per directory at a time: a change must not be handed to another journal after that was
    // read.
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    retry_on_intr(|| flock(&folder, FlockOperation::LockExclusive))?;
    Ok(Pending::read(path)?.restore())
}

impl Pending {
    /// Undoes all changes, newest first. Tasks that have ended are skipped, even if their ids were reused.
    /// Settings that another program has changed since are left unchanged. If that was the owner of a newer
    /// journal, the original value is recorded there. The journal is removed unless something failed. Does
    /// nothing if the owner still runs or another undo is in progress.
    ///
    /// The journal is read again, so changes that were recorded after `self` was read are undone as well.
    pub fn undo(&self) -> Option<Restored> {
        let _lock = match self.lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Restored::default()),
            lock => lock.ok()?,
        };
        Some(restore(&self.path).unwrap_or_else(|error| Restored {
            failed: vec![format!("cannot read {}: {error}", self.path.display())],
            ..Restored::default()
        }))
    }

    fn restore(&self) -> Restored {
        let mut restored = Restored::default();
        if !self.is_of_another_boot() {
            if self.is_of_another_namespace() {
                let place = &self.header.namespace;
                restored.failed.push(format!(
                    "its processes are in another process namespace ({place}): run undo there"
                ));
                return restored;
            }
            self.restore_tasks(&mut restored);
            classes::restore(self, &mut restored);
            settings::restore(self, &mut restored);
            if self.damaged > 0 {
                let (lines, path) = (self.damaged, self.path.display());
                restored
                    .failed
                    .push(format!("{lines} lines of {path} cannot be read: check the file, then remove it"));
            }
        }
        if restored.failed.is_empty() && restored.later.is_empty() {
            let _ = fs::remove_file(&self.path);
        } else if restored.failed.is_empty()
            && let Err(error) = self.keep_only(&restored.later)
        {
            restored.failed.push(format!("cannot write {}: {error}", self.path.display()));
        }
        restored
    }

    /// Returns the newer journals in the same directory.
    pub(super) fn newer(&self) -> Vec<Self> {
        let (all, _) = super::pending(self.path.parent().unwrap_or(Path::new("."))).unwrap_or_default();
        all.into_iter().filter(|other| other.header.began_ns > self.header.began_ns).collect()
    }

    fn restore_tasks(&self, restored: &mut Restored) {
        // Read before control groups are left, since kernels before 6.2 then reset affinities.
        let mut members = self.members();
        let (mut ours, others): (Vec<Task>, Vec<Task>) =
            self.tasks(&members).into_iter().partition(|task| task.ours);
        self.hand_over(others, restored);
        self.name_untracked(restored);
        // Groups are left last: until then they show which processes are started meanwhile.
        let opened = self.groups().all(|group| cpuset::open(group).is_ok());
        if !opened {
            self.leave_groups(restored);
        }
        let mut given_back = BTreeMap::new();
        for _ in 0..ROUNDS {
            for task in ours {
                if task.restore(restored) {
                    given_back.insert(task.tid, task);
                }
            }
            thread::sleep(if given_back.is_empty() { Duration::ZERO } else { BIRTH });
            members.extend(self.members());
            ours = self.tasks(&members).into_iter().filter(|task| task.ours).collect();
            if ours.is_empty() || !restored.failed.is_empty() {
                break;
            }
        }
        if opened {
            self.leave_groups(restored);
            // Kernels before 6.2 reset affinities when a group is left.
            for task in given_back.values().filter(|task| !task.is_restored()) {
                task.restore(restored);
            }
        }
        restored.tasks = given_back.len();
        if !ours.is_empty() && restored.failed.is_empty() {
            restored
                .failed
                .push(format!("{} tasks keep creating new tasks on the CPUs of the journal", ours.len()));
        }
    }

    /// Handles tasks whose affinity was changed after us: records the original affinity in the newer journal
    /// that changed it, or reports it to the user.
    fn hand_over(&self, tasks: Vec<Task>, restored: &mut Restored) {
        let newer = if tasks.is_empty() { Vec::new() } else { self.newer() };
        for Task { pid, tid, old, now, .. } in tasks {
            let placed_it =
                |other: &&Self| other.affinities().get(&(pid, tid)).is_some_and(|(_, new)| **new == now);
            match newer.iter().find(placed_it).map(|other| other.append(&Change::Former { pid, tid, old })) {
                Some(Ok(())) => {}
                Some(Err(error)) => restored.failed.push(format!("cannot write to another journal: {error}")),
                None => restored.left.push(changed(&format!("thread {tid} of process {pid}"), &now)),
            }
        }
    }

    /// Returns the existing groups of the journal.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().filter_map(|change| match change {
            Change::Group { path } if path.is_dir() => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns the processes in the groups of the journal, with their start times. A process cannot leave its
    /// group by hiding from its parent.
    fn members(&self) -> BTreeMap<u32, u64> {
        let members: BTreeSet<u32> = self.groups().flat_map(enclosure::members).collect();
        members.into_iter().filter_map(|pid| Some((pid, tasks::start_time(pid)?))).collect()
    }

    /// Warns if processes of a command may have been missed: processes that left their parents and changed
    /// their environment, if no group contained them and `run` was no longer there to track them.
    fn name_untracked(&self, restored: &mut Restored) {
        let is_run = self.changes.iter().any(|change| matches!(change, Change::Command { .. }));
        let by_owner = self.header.owner.is_some_and(|(pid, _)| pid == std::process::id());
        if is_run && !by_owner && self.groups().next().is_none() {
            restored.left.push(
                "no control group contained the processes of the command: daemons that started after manycore was killed, \
                 with another environment, were not tracked and may have kept its CPUs"
                    .to_owned(),
            );
        }
    }

    /// Returns the CPUs for processes that the journal has no other entry for.
    fn usual_cpus(&self) -> Option<&CpuSet> {
        self.changes.iter().find_map(|change| match change {
            Change::Command { old, .. } => Some(old),
            Change::Process { cpus, .. } => Some(cpus),
            _ => None,
        })
    }

    /// Returns the processes in the journal, the `members` of its groups, and their descendants, as far as
    /// they still run.
    fn processes(&self, members: &BTreeMap<u32, u64>) -> BTreeMap<u32, Process> {
        let mut named: BTreeMap<u32, &CpuSet> = BTreeMap::new();
        if let Some(cpus) = self.usual_cpus() {
            let living = members.iter().filter(|(pid, start)| tasks::start_time(**pid) == Some(**start));
            named.extend(living.map(|(&pid, _)| (pid, cpus)));
        }
        for change in &self.changes {
            match change {
                Change::Process { pid, start, cpus } if tasks::start_time(*pid) == Some(*start) => {
                    named.insert(*pid, cpus);
                }
                Change::Command { mark, old, .. } => {
                    let marked = tasks::all().into_iter().filter(|&pid| tasks::has_environment(pid, mark));
                    for pid in marked {
                        named.entry(pid).or_insert(old);
                    }
                }
                Change::Former { pid, tid, old } if pid == tid => {
                    named.entry(*pid).and_modify(|cpus| *cpus = old);
                }
                _ => {}
            }
        }
        let mut found = BTreeMap::new();
        for (&pid, &cpus) in &named {
            let below = tasks::with_descendants(&[pid])
                .into_iter()
                .filter(|other| *other == pid || !named.contains_key(other));
            found.extend(below.filter_map(|pid| {
                Some((pid, Process { start: tasks::start_time(pid)?, cpus: cpus.clone() }))
            }));
        }
        found
    }

    /// Returns the original affinity of each task and the affinity that was set last.
    fn affinities(&self) -> BTreeMap<(u32, u32), (&CpuSet, &CpuSet)> {
        let mut known: BTreeMap<(u32, u32), (&CpuSet, &CpuSet)> = BTreeMap::new();
        for change in &self.changes {
            match change {
                Change::Affinity { pid, tid, old, new } => {
                    known.entry((*pid, *tid)).and_modify(|entry| entry.1 = new).or_insert((old, new));
                }
                Change::Former { pid, tid, old } => {
                    known.entry((*pid, *tid)).and_modify(|entry| entry.0 = old);
                }
                _ => {}
            }
        }
        known
    }

    /// Returns the running tasks of the journal whose affinity differs from the original one.
    fn tasks(&self, members: &BTreeMap<u32, u64>) -> Vec<Task> {
        let given = self.affinities();
        let starts = self.changes.iter().filter_map(|change| match change {
            Change::Command { new, .. } => Some(new),
            _ => None,
        });
        // The kernel does not report CPUs that are offline.
        let online = affinity::online();
        let shown = |cpus: &CpuSet| online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
        let all_ours: BTreeSet<CpuSet> =
            given.values().map(|(_, new)| *new).chain(starts).map(shown).collect();
        let mut found = Vec::new();
        for (pid, process) in self.processes(members) {
            for tid in tasks::threads(pid) {
                let Ok(now) = affinity::of(tid) else { continue };
                let (old, ours) = match given.get(&(pid, tid)) {
                    Some((old, new)) => (*old, now == shown(new)),
                    // Created since our last entry, with the affinity of its parent; or never changed.
                    None if all_ours.contains(&now) => (&process.cpus, true),
                    None => continue,
                };
                if now != shown(old) {
                    found.push(Task { pid, tid, start: process.start, old: old.clone(), now, ours });
                }
            }
        }
        found
    }

    /// Moves processes back to their groups, and processes that were created in our groups to the parent
    /// group.
    fn leave_groups(&self, restored: &mut Restored) {
        for change in self.changes.iter().rev() {
            let result = match change {
                Change::Moved { pid, start, from, to }
                    if tasks::start_time(*pid) == Some(*start)
                        && cpuset::folder_of(*pid).as_ref() == Some(to) =>
                {
                    cpuset::move_to(*pid, from).inspect(|()| restored.moved += 1)
                }
                Change::Group { path } if path.is_dir() => cpuset::empty(path),
                _ => Ok(()),
            };
            if let Err(error) = result {
                restored.failed.push(format!("cannot move a process out of its control group: {error}"));
            }
        }
    }
}

impl Task {
    /// Whether it has its original affinity, as far as its CPUs are online.
    fn is_restored(&self) -> bool {
        affinity::of(self.tid).is_ok_and(|now| now.is_subset(&self.old))
    }

    /// Restores its affinity; returns whether that was done.
    fn restore(&self, restored: &mut Restored) -> bool {
        // It may end at any time. A new task with its id does not belong to a process with this start time.
        let is_same = || {
            tasks::start_time(self.pid) == Some(self.start)
                && Path::new(&format!("/proc/{}/task/{}", self.pid, self.tid)).exists()
        };
        if !is_same() {
            return false;
        }
        match affinity::restrict(self.tid, &self.old) {
            Ok(()) => return true,
            Err(error) if is_same() => {
                let Self { pid, tid, old, .. } = self;
                restored
                    .failed
                    .push(format!("cannot restore CPUs of thread {tid} of process {pid} to {old}: {error}"));
            }
            Err(_) => {}
        }
        false
    }
}

/// Returns the message that a setting is not as we left it.
pub(super) fn changed(what: &str, now: &dyn Display) -> String {
    format!("{what} was changed to {now} by another program: left unchanged")
}
