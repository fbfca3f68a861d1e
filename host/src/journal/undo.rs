//! Taking back what a journal holds.

use super::{Change, Pending};
use crate::{affinity, cpuset, tasks};
use manycore_model::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs, io,
};

/// What became of a journal's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Tasks that have their CPUs back.
    pub tasks: usize,
    /// Processes that are back in their control group.
    pub moved: usize,
    /// Control groups that are gone.
    pub groups: usize,
    /// Settings of the kernel that are as before.
    pub files: usize,
    /// What somebody else has changed since, and was left alone: a sentence each.
    pub left: Vec<String>,
    /// What could not be taken back, and why: a sentence each. The journal is kept.
    pub failed: Vec<String>,
}

/// Rounds in which tasks are sought that were born in the one before.
const ROUNDS: usize = 20;

/// A process of the journal that still runs.
struct Process {
    start: u64,
    /// What tasks are to have that it makes.
    cpus: CpuSet,
}

/// A task whose affinity is still ours.
struct Task {
    pid: u32,
    tid: u32,
    start: u64,
    cpus: CpuSet,
}

impl Pending {
    /// Takes back all changes, newest first. Tasks that have ended are passed over, also where another has
    /// their id now; what somebody else has changed since is left alone. The journal is removed unless
    /// something failed.
    pub fn undo(&self) -> Restored {
        let mut restored = Restored::default();
        if !self.is_of_another_boot() {
            self.restore(&mut restored);
        }
        if restored.failed.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        restored
    }

    fn restore(&self, restored: &mut Restored) {
        // Looked at before control groups are left: kernels before 6.2 reset affinities then.
        let mut tasks = self.tasks(&mut Some(&mut restored.left));
        self.leave_groups(restored);
        for _ in 0..ROUNDS {
            if tasks.is_empty() || !restored.failed.is_empty() {
                break;
            }
            for task in &tasks {
                task.restore(restored);
            }
            tasks = self.tasks(&mut None);
        }
        self.changes.iter().rev().for_each(|change| restore_setting(change, restored));
    }

    /// Processes that the journal names and all below them, as far as they still run.
    fn processes(&self) -> BTreeMap<u32, Process> {
        let mut named = BTreeMap::new();
        for change in &self.changes {
            match change {
                Change::Process { pid, start, cpus } if tasks::start_time(*pid) == Some(*start) => {
                    named.insert(*pid, cpus);
                }
                Change::Command { mark, old, .. } => {
                    let marked = tasks::all().into_iter().filter(|&pid| tasks::has_environment(pid, mark));
                    named.extend(marked.map(|pid| (pid, old)));
                }
                _ => {}
            }
        }
        let mut found = BTreeMap::new();
        let of =
            |pid: u32, cpus: &CpuSet| Some(Process { start: tasks::start_time(pid)?, cpus: cpus.clone() });
        for (&pid, &cpus) in &named {
            let below =
                tasks::tree(&[pid]).into_iter().filter(|other| *other == pid || !named.contains_key(other));
            found.extend(below.filter_map(|pid| Some((pid, of(pid, cpus)?))));
        }
        found
    }

    /// The affinity that each task had first, and was given last.
    fn affinities(&self) -> BTreeMap<(u32, u32), (&CpuSet, &CpuSet)> {
        let mut known: BTreeMap<(u32, u32), (&CpuSet, &CpuSet)> = BTreeMap::new();
        for change in &self.changes {
            if let Change::Affinity { pid, tid, old, new } = change {
                known.entry((*pid, *tid)).and_modify(|entry| entry.1 = new).or_insert((old, new));
            }
        }
        known
    }

    /// Tasks whose affinity is still ours; those that have another from somebody else are told to `others`.
    fn tasks(&self, others: &mut Option<&mut Vec<String>>) -> Vec<Task> {
        let given = self.affinities();
        let starts = self.changes.iter().filter_map(|change| match change {
            Change::Command { new, .. } => Some(new),
            _ => None,
        });
        let online = affinity::online();
        let shown = |cpus: &CpuSet| online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
        let ours: BTreeSet<CpuSet> = given.values().map(|(_, new)| *new).chain(starts).map(shown).collect();
        let mut found = Vec::new();
        for (pid, process) in self.processes() {
            for tid in tasks::threads(pid) {
                let Ok(now) = affinity::of(tid) else { continue };
                let cpus = match given.get(&(pid, tid)) {
                    Some((old, _)) if now == shown(old) => continue,
                    Some((old, new)) if now == shown(new) => old,
                    Some(_) => {
                        if let Some(others) = others {
                            others.push(changed(&format!("thread {tid} of process {pid}"), &now));
                        }
                        continue;
                    }
                    // Born since our last entry, with what its maker had.
                    None if ours.contains(&now) && now != shown(&process.cpus) => &process.cpus,
                    None => continue,
                };
                found.push(Task { pid, tid, start: process.start, cpus: cpus.clone() });
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
    fn restore(&self, restored: &mut Restored) {
        let is_same = || tasks::start_time(self.pid) == Some(self.start);
        // It may end at any moment; another that gets its id has another start.
        if !is_same() {
            return;
        }
        match affinity::restrict(self.tid, &self.cpus) {
            Ok(()) => restored.tasks += 1,
            Err(error) if is_same() && tasks::threads(self.pid).contains(&self.tid) => {
                let Self { pid, tid, cpus, .. } = self;
                restored
                    .failed
                    .push(format!("cannot give thread {tid} of process {pid} CPUs {cpus}: {error}"));
            }
            Err(_) => {}
        }
    }
}

fn restore_setting(change: &Change, restored: &mut Restored) {
    let (path, result) = match change {
        Change::Group { path } if path.is_dir() => {
            (path, cpuset::remove(path).inspect(|()| restored.groups += 1))
        }
        Change::Controller { path, controller } => (path, cpuset::disable(path, controller)),
        Change::File { path, old, new } => match fs::read_to_string(path).as_deref().map(str::trim) {
            Ok(now) if same(now, old) => return,
            Ok(now) if same(now, new) => (path, fs::write(path, old).inspect(|()| restored.files += 1)),
            Ok(now) => return restored.left.push(changed(&path.display().to_string(), &now)),
            // Gone with its device, and its setting with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => (path, Err(io::Error::new(error.kind(), error.to_string()))),
        },
        _ => return,
    };
    if let Err(error) = result {
        restored.failed.push(format!("cannot restore {}: {error}", path.display()));
    }
}

fn changed(what: &str, now: &dyn Display) -> String {
    format!("{what} was changed by somebody else since, to {now}: left as it is")
}

/// Whether two texts are the same setting: the kernel writes CPU lists in its own way.
fn same(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<CpuSet>(), b.parse::<CpuSet>()), (Ok(a), Ok(b)) if a == b)
}
