//! Scans pinned tasks: their CPU time, their affinity, and which CPUs are online.

use crate::placing::keeper::{Keeper, WATCHING, name};
use manycore_linux::{affinity, clock::now_ns, tasks};
use manycore_topology::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Scans are spaced so that they cost less than 1/200 of a CPU, however many tasks there are.
const THRIFT: u32 = 200;

/// Returns the CPU time of this thread. Wall time would include long waits for the kernel while a CPU goes
/// offline.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Maximum time between scans, so that CPUs that go offline or come online are noticed.
const LONGEST: Duration = Duration::from_secs(5);

/// Time between searches for processes whose creation was not reported.
const SEEKING: Duration = Duration::from_secs(1);

impl Keeper {
    /// Sets whether a control group is being entered.
    pub fn enter(&mut self, entering: bool) {
        self.entering = entering;
    }

    /// Records that these processes belong to the command, including those whose creation was not reported.
    pub fn know(&mut self, pids: &[u32]) {
        if let Some(recorder) = &mut self.recorder {
            for &pid in pids {
                recorder.know(pid);
            }
        }
    }

    /// Scans all tasks for the last time.
    pub fn finish(&mut self, roots: &[u32]) {
        self.births.news();
        self.find(roots);
        self.count();
        let tids: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.compare(tid);
            self.record(tid, true);
        }
    }

    /// Adds up the CPU time of all known processes.
    pub fn count(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.count(&self.processes);
        }
    }

    /// Records the CPU time of a process that has just ended, and whether it had changed its affinity.
    pub fn farewell(&mut self, pid: u32) {
        let tids: Vec<u32> =
            self.tasks.iter().filter(|(_, known)| known.pid == pid).map(|(tid, _)| *tid).collect();
        if tids.is_empty() {
            self.compare(pid);
        }
        for tid in tids {
            self.compare(tid);
            self.record(tid, true);
        }
    }

    /// Scans all tasks, and searches below `roots` for tasks whose creation was not reported.
    pub(super) fn watch(&mut self, roots: &dyn Fn() -> Vec<u32>) {
        let began = thread_cpu();
        self.forget_ended();
        if self.recorder.is_some() && self.sought.elapsed() >= SEEKING {
            self.find(&roots());
        }
        self.follow();
        if let Some(recorder) = &mut self.recorder {
            recorder.looking();
        }
        self.count();
        let tids: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tids {
            self.compare(tid);
            self.record(tid, false);
        }
        if self.seating() {
            for (tid, seat) in self.seats.even_out() {
                self.settle(tid, seat);
            }
        }
        self.watched = Instant::now();
        self.watching = (self.watching * 5 / 4)
            .min(WATCHING)
            .max(thread_cpu().saturating_sub(began) * THRIFT)
            .min(LONGEST);
    }

    /// Moves tasks away from workers whose CPUs have gone offline.
    pub(super) fn follow(&mut self) {
        self.online = affinity::online();
        let moved = self.online.as_ref().map(|online| self.seats.follow(online)).unwrap_or_default();
        for (tid, seat) in moved {
            self.settle(tid, seat);
        }
    }

    fn forget_ended(&mut self) {
        let ended = |pid: u32, start: Option<u64>| start.is_none() || tasks::start_time(pid) != start;
        self.gone =
            self.processes.iter().filter(|(pid, start)| ended(**pid, **start)).map(|(pid, _)| *pid).collect();
        self.processes.retain(|pid, _| !self.gone.contains(pid));
        if let Some(recorder) = &mut self.recorder {
            recorder.forget(|pid| self.processes.contains_key(&pid));
        }
        let (processes, seats) = (&self.processes, &mut self.seats);
        self.tasks.retain(|tid, known| {
            let alive = processes.contains_key(&known.pid);
            if !alive {
                seats.leave(*tid);
            }
            alive
        });
    }

    /// Updates a task's load by the CPU time that it has used, and records its CPU. Forgets the task if it
    /// has ended.
    pub(super) fn record(&mut self, tid: u32, last: bool) {
        let Some(known) = self.tasks.get_mut(&tid) else { return };
        let Some(cpu_ns) = tasks::cpu_ns(known.pid, tid) else {
            self.tasks.remove(&tid);
            self.unsettled.remove(&tid);
            self.seats.leave(tid);
            return;
        };
        let now = now_ns();
        let share =
            cpu_ns.saturating_sub(known.cpu_ns) as f64 / now.saturating_sub(known.at_ns).max(1) as f64;
        (known.cpu_ns, known.at_ns) = (cpu_ns, now);
        self.seats.weigh(tid, share);
        if let Some(recorder) = &mut self.recorder {
            let seat = self.seats.seat(tid);
            recorder.saw(
                known.pid,
                tid,
                cpu_ns,
                seat,
                seat.map_or(&self.whole, |seat| self.seats.cpus(seat)),
                last,
            );
        }
    }

    /// Checks whether a task has changed its own affinity.
    pub(super) fn compare(&mut self, tid: u32) {
        let Ok(cpus) = affinity::of(tid) else { return };
        if self.fresh.contains(&tid) {
            return;
        }
        let shown =
            |cpus: &CpuSet| self.online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
        let expected = match self.seats.seat(tid) {
            Some(seat) => {
                // If some of the worker's CPUs are offline, the kernel reports only the online ones. If all
                // are offline, the kernel resets the affinity.
                let left = shown(self.seats.cpus(seat));
                // While a CPU goes offline or comes online, and when its cpuset changes, the kernel widens
                // a task's affinity to the CPUs that are left. A task with more CPUs than its worker, but
                // within the placement, is assumed to be such a case.
                let widened = cpus.is_subset(&self.whole) && (cpus.is_empty() || cpus.len() > left.len());
                let was_reset = widened || self.entering || self.unsettled.contains(&tid);
                if cpus != left && was_reset {
                    return self.settle(tid, seat);
                }
                left == cpus || left.is_empty()
            }
            None => self.heirlooms().contains(&cpus),
        };
        if !expected {
            self.seats.leave(tid);
            self.note(tid, cpus);
        }
    }

    pub(super) fn note(&mut self, tid: u32, cpus: CpuSet) {
        if let (Some(recorder), Some(known)) = (&mut self.recorder, self.tasks.get(&tid)) {
            recorder.chose(known.pid, tid, &cpus);
        }
        self.own.insert(name(tid), cpus);
    }
}
