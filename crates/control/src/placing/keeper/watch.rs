//! Looks at tasks that are seated: what they use, whether they stay, and which CPUs are still there.

use crate::placing::keeper::{Keeper, WATCHING, name};
use manycore_linux::{affinity, clock::now_ns, tasks};
use manycore_topology::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Looks at many tasks come as seldom as they must to cost less than a two-hundredth of a CPU.
const THRIFT: u32 = 200;

/// CPU time of this thread: the kernel may have us wait for long where a CPU goes offline.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// But not more seldom than this: a CPU that goes or comes is to be seen.
const LONGEST: Duration = Duration::from_secs(5);

/// Time between looks for processes whose births were missed.
const SEEKING: Duration = Duration::from_secs(1);

impl Keeper {
    /// Says that a control group is being entered, or has been.
    pub fn enter(&mut self, entering: bool) {
        self.entering = entering;
    }

    /// Journals that these processes are ours, also those that were never seen by their births.
    pub fn know(&mut self, pids: &[u32]) {
        if let Some(recorder) = &mut self.recorder {
            for &pid in pids {
                recorder.know(pid);
            }
        }
    }

    /// Looks at all tasks for the last time.
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

    /// Adds up what all known processes have used.
    pub fn count(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.count(&self.processes);
        }
    }

    /// Sees what a process that has just ended had used, and whether it had changed its affinity.
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

    /// Looks at all tasks, and for those below `roots` whose births were missed.
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

    /// Leaves seats whose CPUs have gone offline.
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

    /// Weighs a task by what it has used, and records where; forgets it where it has ended.
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

    /// Sees whether a task has changed its affinity itself.
    pub(super) fn compare(&mut self, tid: u32) {
        let Ok(cpus) = affinity::of(tid) else { return };
        if self.fresh.contains(&tid) {
            return;
        }
        let shown =
            |cpus: &CpuSet| self.online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
        let expected = match self.seats.seat(tid) {
            Some(seat) => {
                // Of a seat with offline CPUs the kernel shows those that are online; where there are none, it takes
                // the seat away.
                let left = shown(self.seats.cpus(seat));
                // While a CPU goes or comes, and when its cpuset changes, the kernel widens a task's affinity to what
                // it finds: whoever has more than its seat within the place is taken for such a one.
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
