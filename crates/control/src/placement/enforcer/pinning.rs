//! Pins tasks to the CPUs of their workers, and pins them again when the kernel has reset their affinity.

use crate::placement::{
    WorkerCpus,
    enforcer::{AffinityEnforcer, Creation, name},
};
use manycore_linux::{affinity, clock::now_ns, tasks};
use manycore_topology::CpuSet;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

impl AffinityEnforcer {
    /// Pins all tasks of the trees below `roots`, whatever affinity they have.
    pub fn take_over(&mut self, roots: &[u32]) {
        self.proc_events.next_batch();
        for pid in tasks::with_descendants(roots) {
            for tid in tasks::threads(pid) {
                if let Ok(cpus) = affinity::of_thread(tid) {
                    self.assign_and_pin(pid, tid, &cpus, Creation::BeforeFirstScan);
                    self.former_affinities.insert(cpus);
                }
            }
        }
        // Tasks that were created meanwhile.
        self.find_new_tasks(roots);
    }

    /// Moves all tasks of the trees below `roots` to another placement.
    pub fn move_to(&mut self, place: &WorkerCpus, own_cpus: &CpuSet, roots: &[u32]) {
        let own_affinities = std::mem::take(&mut self.own_affinities);
        let journal = self.journal.take();
        *self = Self { own_affinities, journal, ..Self::new(place, own_cpus) };
        self.take_over(roots);
    }

    /// Pins all tasks again whose affinity was reset. Before Linux 6.2, cpusets reset the affinities of tasks that enter.
    pub(crate) fn repin_all(&mut self) {
        let pinned: Vec<(u32, usize)> =
            self.assignment.tasks().filter_map(|tid| Some((tid, self.assignment.worker_of(tid)?))).collect();
        for (tid, worker) in pinned {
            let was_reset = |cpus: &CpuSet| *cpus == self.all_cpus || self.may_be_reset(tid, cpus);
            if affinity::of_thread(tid)
                .is_ok_and(|cpus| cpus != *self.assignment.cpus(worker) && was_reset(&cpus))
            {
                self.move_task(tid, worker);
            }
        }
    }

    /// Pins tasks again whose affinity was reset during their creation, which is complete when they have
    /// run.
    pub(super) fn repin_new_tasks(&mut self) {
        for tid in std::mem::take(&mut self.newly_pinned) {
            let (Some(worker), Some(known)) = (self.assignment.worker_of(tid), self.tasks.get(&tid)) else {
                continue;
            };
            let has_run = tasks::cpu_ns(known.pid, tid).is_none_or(|used| used > 0);
            if affinity::of_thread(tid).is_ok_and(|now| {
                now != *self.assignment.cpus(worker)
                    && self.inheritable_affinities(known.created_before).contains(&now)
            }) {
                self.move_task(tid, worker);
            }
            if !has_run {
                self.newly_pinned.push(tid);
            }
        }
    }

    /// Assigns a task to a worker and pins it; `now` is its current affinity.
    pub(super) fn assign_and_pin(&mut self, pid: u32, tid: u32, now: &CpuSet, creation: Creation) {
        let Some(mut worker) = self.assignment.assign(tid) else { return };
        let mut placed = self.set_affinity(pid, tid, now, worker, creation);
        if placed.as_ref().is_err_and(|error| is(error, Errno::INVAL)) {
            // The worker's CPUs have gone offline since the last scan.
            self.leave_offline_cpus();
            let Some(other) = self.assignment.assign(tid).filter(|other| *other != worker) else {
                self.refuse(pid, tid, "its control group allows none of the planned CPUs");
                return;
            };
            worker = other;
            placed = self.set_affinity(pid, tid, now, worker, creation);
        }
        match placed {
            Ok(()) => {
                let pinned_ns = now_ns();
                let cpu_ns = self.register_task(pid, tid, creation);
                if creation != Creation::BeforeFirstScan {
                    self.newly_pinned.push(tid);
                }
                if let Some(journal) = &mut self.journal {
                    journal.task_pinned(pid, tid, worker, cpu_ns, creation.delay_ns(pinned_ns));
                }
            }
            // A task that ends meanwhile need not be pinned.
            Err(error) if error.kind() == ErrorKind::NotFound || is(&error, Errno::SRCH) => {
                self.assignment.remove(tid);
            }
            Err(error) if is(&error, Errno::PERM) => self.refuse(
                pid,
                tid,
                &format!("{error}: run manycore as root, or as the user of the process"),
            ),
            Err(error) => self.refuse(pid, tid, &error.to_string()),
        }
    }

    /// Records the change in the journal and sets the affinity.
    pub(super) fn set_affinity(
        &mut self,
        pid: u32,
        tid: u32,
        now: &CpuSet,
        worker: usize,
        creation: Creation,
    ) -> io::Result<()> {
        let cpus = self.assignment.cpus(worker).clone();
        if let Some(journal) = &mut self.journal {
            journal.record_change(pid, tid, now, &cpus, creation != Creation::BeforeFirstScan)?;
        }
        // A command starts on the CPUs of its worker.
        let mut since = 0;
        if *now != cpus {
            since = now_ns();
            affinity::restrict(tid, &cpus)?;
        }
        self.used_since[worker].get_or_insert(since);
        Ok(())
    }

    pub(super) fn refuse(&mut self, pid: u32, tid: u32, why: &str) {
        self.assignment.remove(tid);
        self.register_task(pid, tid, Creation::AfterFirstScan);
        self.refused.insert(format!("{} (pid {pid})", name(pid)), why.to_owned());
    }

    /// Moves a known task to another worker.
    pub(super) fn move_task(&mut self, tid: u32, worker: usize) {
        let Some(known) = self.tasks.get(&tid) else { return };
        // The id may be in use again by another task.
        let is_same =
            self.processes.get(&known.pid).is_some_and(|start| *start == tasks::start_time(known.pid))
                && tasks::threads(known.pid).contains(&tid);
        let Ok(now) = affinity::of_thread(tid) else { return };
        let cpus = self.assignment.cpus(worker).clone();
        let noted = match &mut self.journal {
            Some(journal) => journal.record_change(known.pid, tid, &now, &cpus, false),
            None => Ok(()),
        };
        if !is_same || noted.is_err() {
            return;
        }
        // A CPU that has just come online enters the cpuset a moment later. A task that ends meanwhile need
        // not be pinned.
        match affinity::restrict(tid, &cpus) {
            Err(error) if is(&error, Errno::INVAL) => drop(self.rejected.insert(tid)),
            _ => drop(self.rejected.remove(&tid)),
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
