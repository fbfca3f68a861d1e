//! Scans pinned tasks: their CPU time, their affinity, and which CPUs are online.

use crate::{
    group_dir,
    placement::enforcer::{AffinityEnforcer, SCAN_INTERVAL, name},
};
use manycore_linux::{
    affinity,
    clock::{now_ns, thread_cpu},
    tasks,
};
use manycore_topology::CpuSet;
use std::time::{Duration, Instant};

/// Scans are spaced so that they cost less than 1/200 of a CPU, however many tasks there are.
const MAX_CPU_FRACTION: u32 = 200;

/// Maximum time between scans, so that CPUs that go offline or come online are noticed.
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Time between searches for processes whose creation was not reported.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

impl AffinityEnforcer {
    /// Sets whether a control group is being entered.
    pub(crate) fn set_entering_cgroup(&mut self, entering: bool) {
        self.entering_cgroup = entering;
    }

    /// Records that these processes belong to the command, including those whose creation was not reported.
    pub(crate) fn record_processes(&mut self, pids: &[u32]) {
        if let Some(journal) = &mut self.journal {
            for &pid in pids {
                journal.record_process(pid);
            }
        }
    }

    /// Scans all tasks for the last time.
    pub(crate) fn final_scan(&mut self, roots: &[u32]) {
        self.proc_events.next_batch();
        self.find_new_tasks(roots);
        self.update_cpu_time();
        let tids: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.check_affinity(tid);
            self.update_task(tid, true);
        }
    }

    /// Adds up the CPU time of all known processes.
    pub(crate) fn update_cpu_time(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.update_cpu_time(&self.processes);
        }
    }

    /// Records the CPU time of a process that has just ended, and whether it had changed its affinity.
    pub fn process_ended(&mut self, pid: u32) {
        let tids: Vec<u32> =
            self.tasks.iter().filter(|(_, known)| known.pid == pid).map(|(tid, _)| *tid).collect();
        // A process that was pinned and whose tasks are forgotten already, because a scan saw its end, has the CPUs of its
        // worker.
        if tids.is_empty() && !self.processes.contains_key(&pid) {
            self.check_affinity(pid);
        }
        for tid in tids {
            self.check_affinity(tid);
            self.update_task(tid, true);
        }
    }

    /// Scans all tasks, and searches below `roots` for tasks whose creation was not reported.
    pub(super) fn scan_all(&mut self, roots: &dyn Fn() -> Vec<u32>) {
        // Wall time would include long waits for the kernel while a CPU goes offline.
        let began = thread_cpu();
        self.forget_ended();
        if self.journal.is_some() && self.last_search.elapsed() >= SEARCH_INTERVAL {
            self.find_new_tasks(&roots());
        }
        self.leave_offline_cpus();
        if let Some(journal) = &mut self.journal {
            journal.begin_scan();
        }
        self.update_cpu_time();
        let tids: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.check_affinity(tid);
            self.update_task(tid, false);
        }
        if self.pins_individually() {
            for (tid, worker) in self.assignment.rebalance() {
                self.move_task(tid, worker);
            }
        }
        self.last_scan = Instant::now();
        self.scan_interval = (self.scan_interval * 5 / 4)
            .min(SCAN_INTERVAL)
            .max(thread_cpu().saturating_sub(began) * MAX_CPU_FRACTION)
            .min(MAX_SCAN_INTERVAL);
    }

    /// Moves tasks away from workers whose CPUs have gone offline.
    pub(super) fn leave_offline_cpus(&mut self) {
        self.online = affinity::online();
        let moved =
            self.online.as_ref().map(|online| self.assignment.update_online(online)).unwrap_or_default();
        for (tid, worker) in moved {
            self.move_task(tid, worker);
        }
    }

    fn forget_ended(&mut self) {
        let ended = |pid: u32, start: Option<u64>| start.is_none() || tasks::start_time(pid) != start;
        self.ended =
            self.processes.iter().filter(|(pid, start)| ended(**pid, **start)).map(|(pid, _)| *pid).collect();
        self.processes.retain(|pid, _| !self.ended.contains(pid));
        if let Some(journal) = &mut self.journal {
            journal.forget(|pid| self.processes.contains_key(&pid));
        }
        let (processes, workers) = (&self.processes, &mut self.assignment);
        self.tasks.retain(|tid, known| {
            let alive = processes.contains_key(&known.pid);
            if !alive {
                workers.remove(*tid);
            }
            alive
        });
    }

    /// Updates a task's load by the CPU time that it has used, and records its CPU. Forgets the task if it
    /// has ended.
    pub(super) fn update_task(&mut self, tid: u32, last: bool) {
        let Some(known) = self.tasks.get_mut(&tid) else { return };
        let Some(cpu_ns) = tasks::cpu_ns(known.pid, tid) else {
            self.tasks.remove(&tid);
            self.rejected.remove(&tid);
            self.assignment.remove(tid);
            return;
        };
        let now = now_ns();
        let share =
            cpu_ns.saturating_sub(known.cpu_ns) as f64 / now.saturating_sub(known.at_ns).max(1) as f64;
        (known.cpu_ns, known.at_ns) = (cpu_ns, now);
        self.assignment.update_load(tid, share);
        if let Some(journal) = &mut self.journal {
            let worker = self.assignment.worker_of(tid);
            journal.record_reading(
                known.pid,
                tid,
                cpu_ns,
                worker,
                worker.map_or(&self.all_cpus, |worker| self.assignment.cpus(worker)),
                last,
            );
        }
    }

    /// Checks whether a task has changed its own affinity.
    pub(super) fn check_affinity(&mut self, tid: u32) {
        let Ok(cpus) = affinity::of_thread(tid) else { return };
        if self.newly_pinned.contains(&tid) {
            return;
        }
        let shown =
            |cpus: &CpuSet| self.online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
        let expected = match self.assignment.worker_of(tid) {
            Some(worker) => {
                // If some of the worker's CPUs are offline, the kernel reports only the online ones. If all
                // are offline, the kernel resets the affinity.
                let left = shown(self.assignment.cpus(worker));
                // While a CPU goes offline or comes online, and when its cpuset changes, the kernel widens
                // a task's affinity to the CPUs that are left. A task with more CPUs than its worker, but
                // within the placement, is assumed to be such a case.
                let widened = !self.assignment.is_adopted(tid)
                    && cpus.is_subset(&self.all_cpus)
                    && (cpus.is_empty() || cpus.len() > left.len());
                let was_reset = widened
                    || self.entering_cgroup && self.kernel_resets
                    || self.rejected.contains(&tid)
                    || cpus != left && self.may_be_reset(tid, &cpus);
                if cpus != left && was_reset {
                    return self.move_task(tid, worker);
                }
                left == cpus || left.is_empty()
            }
            None => self.inheritable_affinities(now_ns()).contains(&cpus) || self.may_be_reset(tid, &cpus),
        };
        if !expected {
            self.record_own_affinity(tid, cpus);
        }
    }

    /// Whether the kernel, and not the task, may have set these CPUs: kernels before 6.2 set all CPUs of the cpuset whenever it
    /// changes, which other programs cause as well.
    pub(super) fn may_be_reset(&self, tid: u32, cpus: &CpuSet) -> bool {
        self.kernel_resets && group_dir::allowed_cpus(tid).is_some_and(|all| *cpus == all)
    }

    pub(super) fn record_own_affinity(&mut self, tid: u32, cpus: CpuSet) {
        if let (Some(journal), Some(known)) = (&mut self.journal, self.tasks.get(&tid)) {
            journal.record_own_affinity(known.pid, tid, &cpus);
        }
        // It counts where it runs, so that no other task is put there while a worker is idle.
        self.assignment.remove(tid);
        if let Some(worker) = self.assignment.adopt(tid, &cpus) {
            self.used_since[worker].get_or_insert_with(now_ns);
        }
        self.own_affinities.insert(name(tid), cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::WorkerCpus;
    use manycore_linux::memory_policy::MemoryPolicy;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use std::process::Command;

    #[test]
    fn an_affinity_that_the_kernel_reset_is_set_again_and_is_not_the_programs() {
        let (own, pid) = (affinity::of_thread(0).unwrap(), std::process::id());
        if own.len() < 2 || group_dir::allowed_cpus(pid) != Some(own.clone()) {
            return println!("SKIPPED: it needs two CPUs, and all that the control group allows");
        }
        let workers = vec![CpuSet::single(own.first().unwrap())];
        let place = WorkerCpus { workers: workers.clone(), memory: MemoryPolicy::Default };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        for kernel_resets in [true, false] {
            let mut enforcer = AffinityEnforcer { kernel_resets, ..AffinityEnforcer::new(&place, &own) };
            enforcer.take_over(&[child.id()]);
            enforcer.newly_pinned.clear();
            affinity::restrict(child.id(), &own).unwrap();
            enforcer.scan_all(&|| vec![child.id()]);
            let now = affinity::of_thread(child.id()).unwrap();
            assert_eq!(now == workers[0], kernel_resets);
            assert_eq!(enforcer.own_affinities().is_empty(), kernel_resets);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Regression test: `sysbench set its own affinity to CPUs 0` was reported of a program that does not.
    #[test]
    fn a_pinned_process_whose_end_a_scan_has_seen_has_no_affinity_of_its_own() {
        let own = affinity::of_thread(0).unwrap();
        let workers: Vec<CpuSet> = own.iter().take(2).map(CpuSet::single).collect();
        if workers.len() < 2 {
            return println!("SKIPPED: it needs two CPUs");
        }
        let place = WorkerCpus { workers, memory: MemoryPolicy::Default };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut enforcer = AffinityEnforcer::new(&place, &own);
        enforcer.take_over(&[child.id()]);
        child.kill().unwrap();
        let zombie = WaitId::Pid(Pid::from_child(&child));
        waitid(zombie, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        enforcer.tasks.clear();
        enforcer.assignment.retain(|_| false);
        enforcer.process_ended(child.id());
        assert!(enforcer.own_affinities().is_empty(), "{:?}", enforcer.own_affinities());
        child.wait().unwrap();
    }
}
