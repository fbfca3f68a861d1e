//! Keeps the tasks of commands and processes on the CPUs of their workers.

use super::{Place, Recorder};
use manycore_host::{
    affinity,
    births::{Birth, Births, News},
    clock::now_ns,
    tasks,
};
use manycore_model::{CpuSet, placement::Seats};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Looks after something new has appeared, and at the start.
const SOON: Duration = Duration::from_millis(1);

/// Longest time without a look while threads are seated as they appear, where the kernel does not tell of births.
const SEATING: Duration = Duration::from_millis(8);

/// Shortest time between looks at all tasks: what they use, and whether they changed their affinity.
const WATCHING: Duration = Duration::from_millis(128);

/// The first such look; each later one comes after twice the time, so that short commands are seen too.
const FIRST_WATCH: Duration = Duration::from_millis(8);

/// Looks at many tasks come as seldom as they must to cost less than a two-hundredth of a CPU.
const THRIFT: u32 = 200;

/// Seats the threads of trees of processes on the workers' CPUs as they appear, and sees where one of them changes
/// its own affinity.
///
/// Affinity is inherited, so nothing leaves the place as a whole between two looks.
pub struct Keeper {
    /// Places of the workers; one means that the tasks have it all in common.
    seats: Seats,
    /// Whether each seat is that of a whole copy, which starts there with all its tasks.
    copies: bool,
    /// The union of the seats, or what this process may use.
    whole: CpuSet,
    births: Births,
    tasks: BTreeMap<u32, Known>,
    /// Processes of the tasks, with their start times.
    processes: BTreeMap<u32, Option<u64>>,
    pause: Duration,
    watched: Instant,
    watching: Duration,
    own: BTreeMap<String, CpuSet>,
    refused: BTreeMap<String, String>,
    /// Affinities of tasks that were taken over.
    former: BTreeSet<CpuSet>,
    recorder: Option<Recorder>,
}

/// When a task was born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Birthday {
    /// Before we looked first.
    Before,
    /// Since; when, nobody told.
    Since,
    /// At this time in nanoseconds of `CLOCK_MONOTONIC`.
    At(u64),
}

/// A task that was seen.
struct Known {
    pid: u32,
    /// CPU time at the last look.
    cpu_ns: u64,
    at_ns: u64,
    /// Not compared yet since it was born and seated: in a control group the kernel gives a new task its maker's
    /// affinity after it has told of the birth (`cpuset_fork`), and so takes back what we gave in between.
    fresh: bool,
}

impl Keeper {
    /// For a command that starts in `place`, from a process that may use `inherited`.
    pub fn new(place: &Place, inherited: &CpuSet) -> Self {
        let whole = place.cpus().unwrap_or_else(|| inherited.clone());
        let seats = if place.workers.is_empty() { vec![whole.clone()] } else { place.workers.clone() };
        Self {
            seats: Seats::new(seats),
            copies: false,
            whole,
            births: Births::asked(),
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            pause: SOON,
            watched: Instant::now(),
            watching: FIRST_WATCH,
            own: BTreeMap::new(),
            refused: BTreeMap::new(),
            former: BTreeSet::new(),
            recorder: None,
        }
    }

    /// For copies that start each on the seat of its number.
    pub fn of_copies(place: &Place, inherited: &CpuSet) -> Self {
        Self { copies: true, ..Self::new(place, inherited) }
    }

    /// The same keeper, told of births by the kernel where it does that, which journals what it changes and records
    /// where the tasks run.
    pub fn recording(self, recorder: Recorder) -> Self {
        Self { births: Births::watch(), recorder: Some(recorder), ..self }
    }

    /// Tasks that changed their own affinity: name, and the CPUs that they chose last.
    pub fn own_affinities(&self) -> &BTreeMap<String, CpuSet> {
        &self.own
    }

    /// Tasks that could not be moved: name, and why.
    pub fn refused(&self) -> &BTreeMap<String, String> {
        &self.refused
    }

    /// Living processes that it looks after.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// What it recorded.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// What becomes readable when somebody was born, where the kernel tells.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.births.descriptor()
    }

    /// Whether each task gets a seat of its own.
    fn seating(&self) -> bool {
        !self.copies && self.seats.all().iter().any(|seat| *seat != self.whole)
    }

    /// Looks at the trees below `roots`; returns how long nobody need look again, but for what
    /// [`descriptor`](Self::descriptor) tells.
    pub fn look(&mut self, roots: &[u32]) -> Duration {
        let longest = match self.births {
            Births::Asked(_) if self.seating() => SEATING,
            _ => self.watching,
        };
        let appeared = match self.births.news() {
            News::Unknown => self.find(roots),
            News::Births(births) => births.iter().filter(|birth| self.welcome(birth)).count() > 0,
            News::None => false,
        };
        let told = self.births.descriptor().is_some();
        self.pause = if appeared && !told { SOON } else { (self.pause * 2).min(longest) };
        if self.watched.elapsed() >= self.watching {
            self.watch();
        }
        self.pause
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

    /// Moves all tasks of the trees below `roots` to another place.
    pub fn move_to(&mut self, place: &Place, inherited: &CpuSet, roots: &[u32]) {
        let own = std::mem::take(&mut self.own);
        *self = Self { own, ..Self::new(place, inherited) };
        self.take_over(roots);
    }

    /// Seats all tasks of the trees below `roots`, whatever affinity they have.
    pub fn take_over(&mut self, roots: &[u32]) {
        self.births.news();
        for pid in tasks::tree(roots) {
            for tid in tasks::threads(pid) {
                if let Ok(cpus) = affinity::of(tid) {
                    self.seat(pid, tid, &cpus, Birthday::Before);
                    self.former.insert(cpus);
                }
            }
        }
        // Those that were born meanwhile.
        self.find(roots);
    }

    /// Seats all tasks again that are not where they should be: control groups of version 1, and of version 2
    /// before Linux 6.2, reset affinities of those who enter.
    pub fn seat_again(&mut self) {
        let seated: Vec<(u32, usize)> =
            self.seats.tasks().filter_map(|tid| Some((tid, self.seats.seat(tid)?))).collect();
        for (tid, seat) in seated {
            if affinity::of(tid).is_ok_and(|cpus| cpus == self.whole && cpus != *self.seats.cpus(seat)) {
                self.settle(tid, seat);
            }
        }
    }

    /// Finds tasks that are new in the trees below `roots` and below those that are known.
    fn find(&mut self, roots: &[u32]) -> bool {
        let roots: Vec<u32> = roots.iter().copied().chain(self.processes.keys().copied()).collect();
        let living: BTreeMap<u32, u32> = tasks::tree(&roots)
            .into_iter()
            .flat_map(|pid| tasks::threads(pid).into_iter().map(move |tid| (tid, pid)))
            .collect();
        self.seats.keep(|tid| living.contains_key(&tid));
        self.tasks.retain(|tid, known| living.get(tid) == Some(&known.pid));
        let new: Vec<(u32, u32)> =
            living.into_iter().filter(|(tid, _)| !self.tasks.contains_key(tid)).collect();
        for &(tid, pid) in &new {
            self.admit(pid, tid, Birthday::Since);
        }
        !new.is_empty()
    }

    /// Seats somebody whose birth the kernel told, where it is of a process of ours.
    fn welcome(&mut self, birth: &Birth) -> bool {
        let ours = self.processes.contains_key(&birth.pid) || self.processes.contains_key(&birth.parent);
        if ours && !self.tasks.contains_key(&birth.tid) {
            self.admit(birth.pid, birth.tid, Birthday::At(birth.at_ns));
        }
        ours
    }

    /// Seats a new task, unless it has chosen CPUs itself.
    fn admit(&mut self, pid: u32, tid: u32, born: Birthday) {
        let Ok(cpus) = affinity::of(tid) else { return };
        if !self.heirlooms().contains(&cpus) {
            self.note(tid, cpus);
            self.get_to_know(pid, tid);
        } else if self.copies {
            self.get_to_know(pid, tid);
        } else {
            self.seat(pid, tid, &cpus, born);
        }
    }

    fn get_to_know(&mut self, pid: u32, tid: u32) -> u64 {
        let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
        self.tasks.insert(tid, Known { pid, cpu_ns, at_ns: now_ns(), fresh: false });
        self.processes.entry(pid).or_insert_with(|| tasks::start_time(pid));
        cpu_ns
    }

    /// Places that a new task can have without having chosen one: where the command started, and the seats of
    /// tasks that can have made it. While nobody sits on a seat, whoever is there went there.
    fn heirlooms(&self) -> Vec<CpuSet> {
        if self.copies {
            return self.seats.all().to_vec();
        }
        let taken: BTreeSet<usize> = self.seats.tasks().filter_map(|tid| self.seats.seat(tid)).collect();
        let taken = taken.into_iter().map(|seat| self.seats.cpus(seat).clone());
        taken.chain([self.whole.clone()]).chain(self.former.iter().cloned()).collect()
    }

    /// Gives a task a seat, from the CPUs that it has now.
    fn seat(&mut self, pid: u32, tid: u32, now: &CpuSet, born: Birthday) {
        let Some(seat) = self.seats.take(tid) else { return };
        let cpus = self.seats.cpus(seat).clone();
        let placed = match &mut self.recorder {
            Some(recorder) => recorder.before(pid, tid, now, &cpus, born != Birthday::Before),
            None => Ok(()),
        };
        let placed = placed.and_then(|()| if *now == cpus { Ok(()) } else { affinity::restrict(tid, &cpus) });
        match placed {
            Ok(()) => {
                let arrived_ns = now_ns();
                let cpu_ns = self.get_to_know(pid, tid);
                if let Some(known) = self.tasks.get_mut(&tid) {
                    known.fresh = born != Birthday::Before;
                }
                if let Some(recorder) = &mut self.recorder {
                    let delay =
                        if let Birthday::At(at) = born { Some(arrived_ns.saturating_sub(at)) } else { None };
                    recorder.arrived(pid, tid, seat, cpu_ns, delay);
                }
            }
            Err(error) => {
                self.seats.leave(tid);
                // One that ends meanwhile needs no seat.
                if error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error())
                    && error.kind() != ErrorKind::NotFound
                {
                    self.get_to_know(pid, tid);
                    self.refused.insert(name(tid), error.to_string());
                }
            }
        }
    }

    /// Moves a task that is known to another seat.
    fn settle(&mut self, tid: u32, seat: usize) {
        let Some(known) = self.tasks.get(&tid) else { return };
        // Another may have its id by now.
        let is_same =
            self.processes.get(&known.pid).is_some_and(|start| *start == tasks::start_time(known.pid))
                && tasks::threads(known.pid).contains(&tid);
        let Ok(now) = affinity::of(tid) else { return };
        let cpus = self.seats.cpus(seat).clone();
        let noted = match &mut self.recorder {
            Some(recorder) => recorder.before(known.pid, tid, &now, &cpus, false),
            None => Ok(()),
        };
        if is_same && noted.is_ok() {
            // One that ends meanwhile needs no seat.
            let _ = affinity::restrict(tid, &cpus);
        }
    }

    /// Looks at all tasks.
    fn watch(&mut self) {
        let began = Instant::now();
        self.forget_ended();
        if let Some(online) = affinity::online() {
            for (tid, seat) in self.seats.follow(&online) {
                self.settle(tid, seat);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.looking();
        }
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
        self.watching = (self.watching * 2).min(WATCHING).max(began.elapsed() * THRIFT);
    }

    fn forget_ended(&mut self) {
        self.processes.retain(|pid, start| tasks::start_time(*pid) == *start && start.is_some());
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
    fn record(&mut self, tid: u32, last: bool) {
        let Some(known) = self.tasks.get_mut(&tid) else { return };
        let Some(cpu_ns) = tasks::cpu_ns(known.pid, tid) else {
            self.tasks.remove(&tid);
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
    fn compare(&mut self, tid: u32) {
        let Ok(cpus) = affinity::of(tid) else { return };
        let expected = match self.seats.seat(tid) {
            Some(seat) => {
                let seat = self.seats.cpus(seat);
                // Of a seat with offline CPUs the kernel shows those that are online.
                *seat == cpus
                    || cpus.is_subset(seat)
                        && affinity::online().is_some_and(|online| seat.intersection(&online) == cpus)
            }
            None => self.heirlooms().contains(&cpus),
        };
        let fresh = self.tasks.get_mut(&tid).is_some_and(|known| std::mem::take(&mut known.fresh));
        match self.seats.seat(tid) {
            _ if expected => {}
            Some(seat) if fresh && self.heirlooms().contains(&cpus) => self.settle(tid, seat),
            _ => {
                self.seats.leave(tid);
                self.note(tid, cpus);
            }
        }
    }

    fn note(&mut self, tid: u32, cpus: CpuSet) {
        self.own.insert(name(tid), cpus);
    }
}

fn name(tid: u32) -> String {
    tasks::name(tid).unwrap_or_else(|| "a task".to_owned())
}
