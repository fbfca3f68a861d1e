//! Restores the CPUs of tasks, and moves processes back to their control groups.

use super::UndoResult;
use crate::{
    group_dir,
    journal::{change::Change, pending::Pending},
};
use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    thread,
    time::Duration,
};

/// Maximum number of rounds in which tasks are searched that were created during the round before.
const ROUNDS: usize = 20;

/// Delay between two rounds. A new task has the CPUs that its parent had when its creation began
/// (`dup_task_struct` in `kernel/fork.c`), but becomes visible only at the end of its creation.
const CREATION_DELAY: Duration = Duration::from_millis(20);

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

impl Pending {
    pub(super) fn restore_tasks(&self, restored: &mut UndoResult) {
        // Read before control groups are left, since kernels before 6.2 then reset affinities.
        let mut members = self.members();
        let before = self.current_affinities(&members);
        let (mut ours, others): (Vec<Task>, Vec<Task>) =
            self.tasks(&members).into_iter().partition(|task| task.ours);
        self.record_in_newer(others, restored);
        self.warn_untracked(restored);
        // Groups are left last: until then they show which processes are started meanwhile.
        let mut left = !self.groups().all(|group| group_dir::allow_parent_cpus(group).is_ok());
        if left {
            self.leave_groups(restored);
        }
        let mut done = BTreeMap::new();
        for _ in 0..ROUNDS {
            for task in ours {
                if task.restore(restored) {
                    done.insert(task.tid, task);
                }
            }
            thread::sleep(if done.is_empty() { Duration::ZERO } else { CREATION_DELAY });
            ours = self.tasks_of_ours(&mut members);
            if ours.is_empty() && restored.failed.is_empty() {
                // A process whose fork is in progress is moved after it (`cgroup_threadgroup_rwsem` in
                // `kernel/fork.c`), so its child is visible now, however long its creation took.
                self.leave_groups(restored);
                left = true;
                ours = self.tasks_of_ours(&mut members);
            }
            if !restored.failed.is_empty() || (ours.is_empty() && self.groups_are_empty()) {
                break;
            }
        }
        if !left {
            self.leave_groups(restored);
        }
        // Kernels before 6.2 reset affinities when a group is left.
        for task in done.values().filter(|task| !task.is_restored()) {
            task.restore(restored);
        }
        if restored.failed.is_empty() {
            keep(before.into_iter().filter(|(tid, _)| !done.contains_key(tid)));
        }
        restored.tasks = done.len();
        if !ours.is_empty() && restored.failed.is_empty() {
            restored
                .failed
                .push(format!("{} tasks keep creating new tasks on the CPUs of the journal", ours.len()));
        }
    }

    /// Returns the affinity of each task of the journal.
    fn current_affinities(&self, members: &BTreeMap<u32, u64>) -> Vec<(u32, CpuSet)> {
        let tids = self.processes(members).into_keys().flat_map(tasks::threads);
        tids.filter_map(|tid| Some((tid, affinity::of_thread(tid).ok()?))).collect()
    }

    /// Handles tasks whose affinity was changed after us: records the original affinity in the newer journal
    /// that changed it, or reports it to the user.
    fn record_in_newer(&self, tasks: Vec<Task>, restored: &mut UndoResult) {
        let newer = if tasks.is_empty() { Vec::new() } else { self.newer() };
        for Task { pid, tid, old, now, .. } in tasks {
            let placed_it = |other: &&Self| {
                other.affinities().get(&(pid, tid)).is_some_and(|(_, given)| given.contains(&&now))
            };
            match newer
                .iter()
                .find(placed_it)
                .map(|other| other.append(&Change::OriginalAffinity { pid, tid, old }))
            {
                Some(Ok(())) => {}
                Some(Err(error)) => restored.failed.push(format!("cannot write to another journal: {error}")),
                None => {
                    restored.changed_by_others.push(format!(
                        "the affinity of thread {tid} of process {pid} was changed to {now} since, by itself or by another \
                         program: left unchanged"
                    ));
                }
            }
        }
    }

    /// Returns the existing groups of the journal.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().filter_map(|change| match change {
            Change::ControlGroup { path } if path.is_dir() => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns the processes in the groups of the journal, with their start times. A process cannot leave its
    /// group by hiding from its parent.
    fn members(&self) -> BTreeMap<u32, u64> {
        let members: BTreeSet<u32> = self.groups().flat_map(group_dir::members_below).collect();
        members.into_iter().filter_map(|pid| Some((pid, tasks::start_time(pid)?))).collect()
    }

    /// Adds processes that have entered the groups to `members`. Returns the tasks that have an affinity of ours.
    fn tasks_of_ours(&self, members: &mut BTreeMap<u32, u64>) -> Vec<Task> {
        members.extend(self.members());
        self.tasks(members).into_iter().filter(|task| task.ours).collect()
    }

    fn groups_are_empty(&self) -> bool {
        !self.members().into_keys().any(tasks::is_alive)
    }

    /// Warns if processes of a command may have been missed: processes that left their parents and changed
    /// their environment, if no group contained them and `run` was no longer there to track them.
    fn warn_untracked(&self, restored: &mut UndoResult) {
        let is_run = self.changes.iter().any(|change| matches!(change, Change::Command { .. }));
        let by_owner = self.header.owner.is_some_and(|owner| owner.pid == std::process::id());
        if is_run && !by_owner && self.groups().next().is_none() {
            restored.changed_by_others.push(
                "no control group contained the processes of the command: daemons that started after manycore was killed, \
                 with another environment, were not tracked and may have kept its CPUs"
                    .to_owned(),
            );
        }
    }

    /// Returns the CPUs for processes that the journal has no other entry for.
    fn default_cpus(&self) -> Option<&CpuSet> {
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
        if let Some(cpus) = self.default_cpus() {
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
                Change::OriginalAffinity { pid, tid, old } if pid == tid => {
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

    /// Returns the original affinity of each task, and the last two affinities that were to be set: after SIGKILL the last
    /// one may not have been set.
    fn affinities(&self) -> BTreeMap<(u32, u32), (&CpuSet, [&CpuSet; 2])> {
        let mut known: BTreeMap<(u32, u32), (&CpuSet, [&CpuSet; 2])> = BTreeMap::new();
        for change in &self.changes {
            match change {
                Change::Affinity { pid, tid, old, new } => {
                    known
                        .entry((*pid, *tid))
                        .and_modify(|(_, given)| *given = [given[1], new])
                        .or_insert((old, [new, new]));
                }
                Change::OriginalAffinity { pid, tid, old } => {
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
            given.values().flat_map(|(_, given)| given).copied().chain(starts).map(shown).collect();
        let mut found = Vec::new();
        for (pid, process) in self.processes(members) {
            for tid in tasks::threads(pid) {
                let Ok(now) = affinity::of_thread(tid) else { continue };
                let (old, ours) = match given.get(&(pid, tid)) {
                    Some((old, given)) => (*old, given.iter().any(|new| now == shown(new))),
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
    fn leave_groups(&self, restored: &mut UndoResult) {
        for change in self.changes.iter().rev() {
            let result = match change {
                Change::ProcessMoved { pid, start, from, to }
                    if tasks::start_time(*pid) == Some(*start)
                        && group_dir::cpuset_folder_of(*pid).as_ref() == Some(to) =>
                {
                    group_dir::move_to(*pid, from).inspect(|()| restored.processes_moved_back += 1)
                }
                Change::ControlGroup { path } if path.is_dir() => group_dir::move_to_parent(path),
                _ => Ok(()),
            };
            if let Err(error) = result {
                restored.failed.push(format!("cannot move a process out of its control group: {error}"));
            }
        }
    }
}

/// Gives tasks that are not restored the affinity that they had: leaving a group of version 1, or of version 2 before
/// Linux 6.2, resets the affinity of all its tasks.
fn keep(tasks: impl Iterator<Item = (u32, CpuSet)>) {
    for (tid, cpus) in tasks {
        if affinity::of_thread(tid).is_ok_and(|now| now != cpus) {
            // It may have ended.
            let _ = affinity::restrict(tid, &cpus);
        }
    }
}

impl Task {
    /// Whether it has its original affinity, as far as its CPUs are online.
    fn is_restored(&self) -> bool {
        affinity::of_thread(self.tid).is_ok_and(|now| now.is_subset(&self.old))
    }

    /// Restores its affinity; returns whether that was done.
    fn restore(&self, restored: &mut UndoResult) -> bool {
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
