//! Finds the tasks of a command: by process events, or by searching process trees.

use crate::placement::enforcer::{AffinityEnforcer, Creation, KnownTask};
use manycore_linux::{affinity, clock::now_ns, proc_events::TaskCreated, tasks};
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

impl AffinityEnforcer {
    /// Searches for new tasks in the trees below `roots` and below known processes.
    pub(super) fn find_new_tasks(&mut self, roots: &[u32]) -> bool {
        self.last_search = Instant::now();
        let roots: Vec<u32> = roots.iter().copied().chain(self.processes.keys().copied()).collect();
        let living: BTreeMap<u32, u32> = tasks::with_descendants(&roots)
            .into_iter()
            .flat_map(|pid| tasks::threads(pid).into_iter().map(move |tid| (tid, pid)))
            .collect();
        let ended = self.tasks.iter().filter(|(tid, known)| living.get(tid) != Some(&known.pid));
        for tid in ended.map(|(tid, _)| *tid).collect::<Vec<_>>() {
            // The CPU time of a zombie can still be read.
            self.update_task(tid, true);
        }
        self.assignment.retain(|tid| living.contains_key(&tid));
        self.tasks.retain(|tid, known| living.get(tid) == Some(&known.pid));
        let new: Vec<(u32, u32)> =
            living.into_iter().filter(|(tid, _)| !self.tasks.contains_key(tid)).collect();
        for &(tid, pid) in &new {
            self.add_task(pid, tid, Creation::AfterFirstScan);
        }
        !new.is_empty()
    }

    /// Pins a task whose creation the kernel reported, if it belongs to a known process.
    pub(super) fn task_created(&mut self, task: &TaskCreated) {
        if !self.tasks.contains_key(&task.tid)
            && (self.belongs_to_command(task.pid) || self.belongs_to_command(task.parent))
        {
            self.add_task(task.pid, task.tid, Creation::At(task.at_ns));
            // A task that has already ended may have created others, as daemons do.
            self.processes.entry(task.pid).or_insert_with(|| tasks::start_time(task.pid));
        }
    }

    /// Returns whether process `pid` belongs to the command. It may have ended, and its id may be in use
    /// again.
    pub(super) fn belongs_to_command(&self, pid: u32) -> bool {
        let now = tasks::start_time(pid);
        match self.processes.get(&pid) {
            Some(start) => now.is_none() || now == *start,
            None => now.is_none() && self.ended.contains(&pid),
        }
    }

    /// Pins a new task, unless it has chosen its CPUs itself.
    pub(super) fn add_task(&mut self, pid: u32, tid: u32, creation: Creation) {
        let Ok(cpus) = affinity::of_thread(tid) else { return };
        if !self.inheritable_affinities(creation.latest_ns()).contains(&cpus)
            && !self.may_be_reset(tid, &cpus)
        {
            self.register_task(pid, tid, creation);
            self.record_own_affinity(tid, cpus);
        } else if self.copies {
            self.register_task(pid, tid, creation);
        } else {
            self.assign_and_pin(pid, tid, &cpus, creation);
        }
    }

    pub(super) fn register_task(&mut self, pid: u32, tid: u32, creation: Creation) -> u64 {
        let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
        self.tasks
            .insert(tid, KnownTask { pid, cpu_ns, at_ns: now_ns(), created_before: creation.latest_ns() });
        self.processes.entry(pid).or_insert_with(|| tasks::start_time(pid));
        cpu_ns
    }

    /// Returns the affinities that a new task can have without having chosen one: the CPUs on which the
    /// command started, and those of workers with tasks that may have created it. A task on the CPUs of a
    /// worker without tasks went there itself, and so did one that existed before the worker had a task.
    pub(super) fn inheritable_affinities(&self, created_before: u64) -> Vec<CpuSet> {
        if self.copies {
            return self.assignment.all().to_vec();
        }
        // What is inherited from a task that has chosen its CPUs is its choice as well.
        let placed = self.assignment.tasks().filter(|tid| !self.assignment.is_adopted(*tid));
        let taken: BTreeSet<usize> = placed.filter_map(|tid| self.assignment.worker_of(tid)).collect();
        let was_used = |worker: &usize| self.used_since[*worker].is_none_or(|used| used < created_before);
        let taken = taken.into_iter().filter(was_used).map(|worker| self.assignment.cpus(worker).clone());
        let lost = (self.entering_cgroup || self.assignment.any_offline()).then(|| self.own_cpus.clone());
        taken
            .chain([self.all_cpus.clone()])
            .chain(self.former_affinities.iter().cloned())
            .chain(lost)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::WorkerCpus;
    use manycore_linux::memory_policy::MemoryPolicy;
    use std::process::Command;

    #[test]
    fn a_task_that_is_older_than_the_first_task_of_a_worker_did_not_inherit_its_cpus() {
        let workers: Vec<CpuSet> = (0..2).map(CpuSet::single).collect();
        let place = WorkerCpus { workers: workers.clone(), memory: MemoryPolicy::Default };
        let mut enforcer = AffinityEnforcer::new(&place, &"0-1".parse().unwrap());
        for (task, used) in [(10, 100), (11, 200)] {
            let worker = enforcer.assignment.assign(task).unwrap();
            enforcer.used_since[worker] = Some(used);
        }
        let may_inherit = |created, cpus: &CpuSet| enforcer.inheritable_affinities(created).contains(cpus);
        assert!(may_inherit(150, &workers[0]) && !may_inherit(150, &workers[1]));
        assert!(may_inherit(250, &workers[1]) && !may_inherit(50, &workers[0]));
    }

    #[test]
    fn what_is_inherited_from_a_task_that_chose_its_cpus_is_kept() {
        let workers: Vec<CpuSet> = (0..2).map(CpuSet::single).collect();
        let place = WorkerCpus { workers: workers.clone(), memory: MemoryPolicy::Default };
        let mut enforcer = AffinityEnforcer::new(&place, &"0-1".parse().unwrap());
        assert_eq!(enforcer.assignment.adopt(10, &workers[1]), Some(1));
        assert!(!enforcer.inheritable_affinities(u64::MAX).contains(&workers[1]));
        assert_eq!(enforcer.assignment.assign(11), Some(0));
        assert!(enforcer.inheritable_affinities(u64::MAX).contains(&workers[0]));
    }

    /// A command starts on the CPUs of its worker, and may create others before it is scanned.
    #[test]
    fn children_of_a_command_that_started_on_its_cpus_inherited_them() {
        let cpus = affinity::of_thread(0).unwrap();
        let place = WorkerCpus { workers: vec![cpus.clone()], memory: MemoryPolicy::Default };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut enforcer = AffinityEnforcer::new(&place, &cpus);
        enforcer.take_over(&[child.id()]);
        assert_eq!(enforcer.used_since, [Some(0)]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
