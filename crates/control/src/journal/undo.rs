//! Taking back what a journal holds.

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

/// What became of a journal's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Tasks that have their CPUs back.
    pub tasks: usize,
    /// Processes that are back in their control group.
    pub moved: usize,
    /// Control groups that are gone.
    pub groups: usize,
    /// Settings of the kernel that are as before.
    pub files: usize,
    /// Tasks that are back in their group of cache and bandwidth control.
    pub assigned: usize,
    /// Groups of cache and bandwidth control that are gone.
    pub classes: usize,
    /// Limits of such groups that are as before.
    pub limits: usize,
    /// File systems that are mounted no more.
    pub mounts: usize,
    /// What somebody else has changed since, and was left alone: a sentence each.
    pub left: Vec<String>,
    /// What can be taken back only when somebody else is done with it. The journal is kept, with nothing but this.
    #[serde(skip)]
    pub later: Vec<Change>,
    /// What could not be taken back, and why: a sentence each. The journal is kept.
    pub failed: Vec<String>,
}

/// Rounds in which tasks are sought that were born in the one before.
const ROUNDS: usize = 20;

/// A task that is being born has the CPUs that its maker had when that began (`dup_task_struct` in `kernel/fork.c`), and
/// is seen only at the end of it: the next look comes so much later.
const BIRTH: Duration = Duration::from_millis(20);

/// A process of the journal that still runs.
struct Process {
    start: u64,
    /// What tasks are to have that it makes.
    cpus: CpuSet,
}

/// A task whose affinity is not what it was.
struct Task {
    pid: u32,
    tid: u32,
    start: u64,
    /// What it had before us.
    old: CpuSet,
    /// What it has.
    now: CpuSet,
    /// Whether it has that from us.
    ours: bool,
}

/// Takes back what the journal at `path` holds, whose lock the caller has.
///
/// # Errors
/// It cannot be read.
pub(super) fn restore(path: &Path) -> io::Result<Restored> {
    // One after the other in a folder: what is handed over to another journal must not come after that was read.
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    retry_on_intr(|| flock(&folder, FlockOperation::LockExclusive))?;
    Ok(Pending::read(path)?.restore())
}

impl Pending {
    /// Takes back all changes, newest first. Tasks that have ended are passed over, also where another has
    /// their id now; what somebody else has changed since is left alone. Where that was another journal's owner, he
    /// is told what it was before us. The journal is removed unless something failed. Nothing is done where its owner
    /// lives, or somebody is at it already.
    ///
    /// What is taken back is what the journal holds by then, which may be more than when `self` was read.
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
                restored
                    .failed
                    .push(format!("its processes are those of another namespace ({place}): undo it there"));
                return restored;
            }
            self.restore_tasks(&mut restored);
            classes::restore(self, &mut restored);
            settings::restore(self, &mut restored);
            if self.damaged > 0 {
                let (lines, path) = (self.damaged, self.path.display());
                restored.failed.push(format!("{lines} lines of {path} cannot be read: look, then remove it"));
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

    /// Journals of the same folder that are newer.
    pub(super) fn newer(&self) -> Vec<Self> {
        let (all, _) = super::pending(self.path.parent().unwrap_or(Path::new("."))).unwrap_or_default();
        all.into_iter().filter(|other| other.header.began_ns > self.header.began_ns).collect()
    }

    fn restore_tasks(&self, restored: &mut Restored) {
        // Looked at before control groups are left: kernels before 6.2 reset affinities then.
        let mut members = self.members();
        let (mut ours, others): (Vec<Task>, Vec<Task>) =
            self.tasks(&members).into_iter().partition(|task| task.ours);
        self.hand_over(others, restored);
        self.name_untracked(restored);
        // Groups are left last: until then they show what is started meanwhile.
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
            // Kernels before 6.2 reset affinities as groups are left.
            for task in given_back.values().filter(|task| !task.is_restored()) {
                task.restore(restored);
            }
        }
        restored.tasks = given_back.len();
        if !ours.is_empty() && restored.failed.is_empty() {
            restored.failed.push(format!("{} tasks go on making others on our CPUs", ours.len()));
        }
    }

    /// Tells newer journals what tasks had before us that they have placed since; tells the user of the others.
    fn hand_over(&self, tasks: Vec<Task>, restored: &mut Restored) {
        let newer = if tasks.is_empty() { Vec::new() } else { self.newer() };
        for Task { pid, tid, old, now, .. } in tasks {
            let placed_it =
                |other: &&Self| other.affinities().get(&(pid, tid)).is_some_and(|(_, new)| **new == now);
            match newer.iter().find(placed_it).map(|other| other.append(&Change::Former { pid, tid, old })) {
                Some(Ok(())) => {}
                Some(Err(error)) => restored.failed.push(format!("cannot tell another journal: {error}")),
                None => restored.left.push(changed(&format!("thread {tid} of process {pid}"), &now)),
            }
        }
    }

    /// Groups of the journal that are there.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().filter_map(|change| match change {
            Change::Group { path } if path.is_dir() => Some(path.as_path()),
            _ => None,
        })
    }

    /// Processes in the groups of the journal, with their start: nothing that was started in one leaves it by hiding.
    fn members(&self) -> BTreeMap<u32, u64> {
        let members: BTreeSet<u32> = self.groups().flat_map(enclosure::members).collect();
        members.into_iter().filter_map(|pid| Some((pid, tasks::start_time(pid)?))).collect()
    }

    /// Says where processes of a command may have been missed: those that left their parents and have another
    /// environment, where no group held them and `run` was no longer there to see them.
    fn name_untracked(&self, restored: &mut Restored) {
        let is_run = self.changes.iter().any(|change| matches!(change, Change::Command { .. }));
        let by_owner = self.header.owner.is_some_and(|(pid, _)| pid == std::process::id());
        if is_run && !by_owner && self.groups().next().is_none() {
            restored.left.push(
                "no control group held what it started: daemons that began after manycore was killed, with \
                 another environment, were not tracked and may have kept its CPUs"
                    .to_owned(),
            );
        }
    }

    /// What processes are to have of which nothing else is known.
    fn usual_cpus(&self) -> Option<&CpuSet> {
        self.changes.iter().find_map(|change| match change {
            Change::Command { old, .. } => Some(old),
            Change::Process { cpus, .. } => Some(cpus),
            _ => None,
        })
    }

    /// Processes that the journal names, `members` of its groups and all below them, as far as they still run.
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
            let below =
                tasks::tree(&[pid]).into_iter().filter(|other| *other == pid || !named.contains_key(other));
            found.extend(below.filter_map(|pid| {
                Some((pid, Process { start: tasks::start_time(pid)?, cpus: cpus.clone() }))
            }));
        }
        found
    }

    /// What each task is to have back, and was given last.
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

    /// Living tasks of the journal that do not have what they had.
    fn tasks(&self, members: &BTreeMap<u32, u64>) -> Vec<Task> {
        let given = self.affinities();
        let starts = self.changes.iter().filter_map(|change| match change {
            Change::Command { new, .. } => Some(new),
            _ => None,
        });
        // Of CPUs that are offline the kernel does not tell.
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
                    // Born since our last entry, with what its maker had; or never touched.
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

    /// Moves processes back to the groups that they were in, and those that were born in ours to the one above.
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
    /// Whether it has what it had, as far as its CPUs are online.
    fn is_restored(&self) -> bool {
        affinity::of(self.tid).is_ok_and(|now| now.is_subset(&self.old))
    }

    /// Gives it back what it had; whether that was done.
    fn restore(&self, restored: &mut Restored) -> bool {
        // It may end at any moment; another that gets its id is not a thread of a process with this start.
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
                    .push(format!("cannot give thread {tid} of process {pid} CPUs {old}: {error}"));
            }
            Err(_) => {}
        }
        false
    }
}

/// That something is not as we left it.
pub(super) fn changed(what: &str, now: &dyn Display) -> String {
    format!("{what} was changed by somebody else since, to {now}: left as it is")
}
