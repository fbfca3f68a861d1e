//! Keeps the tasks of commands and processes on the CPUs of their workers.

mod watch;

use crate::placing::{Place, Recorder};
use manycore_linux::{
    affinity,
    births::{Birth, Births, News},
    clock::now_ns,
    tasks,
};
use manycore_placement::Seats;
use manycore_topology::CpuSet;
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Looks after something new has appeared, and at the start.
const SOON: Duration = Duration::from_millis(1);

/// Longest time without a look while threads are seated as they appear, where the kernel does not tell of births.
const SEATING: Duration = Duration::from_millis(8);

/// Shortest time between looks at all tasks: what they use, and whether they changed their affinity.
const WATCHING: Duration = Duration::from_millis(128);

/// The first such look; each later one comes after a quarter more, so that little is left unseen at the end of short commands.
const FIRST_WATCH: Duration = Duration::from_millis(8);

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
    /// Those that had ended at the last look at all tasks. What they started before that is ours.
    gone: BTreeSet<u32>,
    pause: Duration,
    /// When all processes were looked up last.
    sought: Instant,
    watched: Instant,
    watching: Duration,
    own: BTreeMap<String, CpuSet>,
    refused: BTreeMap<String, String>,
    /// Affinities of tasks that were taken over.
    former: BTreeSet<CpuSet>,
    /// What we may use ourselves: the kernel gives it to tasks whose CPUs have all gone offline.
    inherited: CpuSet,
    /// Tasks that were seated at the last look. In a cpuset the kernel gives a new task its maker's affinity after it
    /// has told of the birth (`cpuset_fork` in `copy_process`), and so may take back what we gave in between.
    fresh: Vec<u32>,
    /// CPUs that were online at the last look.
    online: Option<CpuSet>,
    /// Whether a control group is being entered: kernels before 6.2 reset affinities then, in version 2 to all CPUs first.
    entering: bool,
    /// Tasks whose seat the kernel refuses for now.
    unsettled: BTreeSet<u32>,
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
            gone: BTreeSet::new(),
            pause: SOON,
            sought: Instant::now(),
            watched: Instant::now(),
            watching: FIRST_WATCH,
            own: BTreeMap::new(),
            refused: BTreeMap::new(),
            former: BTreeSet::new(),
            inherited: inherited.clone(),
            fresh: Vec::new(),
            online: affinity::online(),
            entering: false,
            unsettled: BTreeSet::new(),
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
        self.look_below(&|| roots.to_vec())
    }

    /// The same; `roots` are only asked for where all processes have to be looked up.
    pub fn look_below(&mut self, roots: &dyn Fn() -> Vec<u32>) -> Duration {
        let longest = match self.births {
            Births::Asked(_) if self.seating() => SEATING,
            _ => self.watching,
        };
        self.confirm();
        let appeared = match self.births.news() {
            News::Unknown => self.find(&roots()),
            News::Births(births) => {
                let before = self.tasks.len();
                for birth in &births {
                    self.welcome(birth);
                }
                self.tasks.len() > before
            }
            News::None => false,
        };
        self.pause = if appeared || !self.fresh.is_empty() { SOON } else { (self.pause * 2).min(longest) };
        if self.watched.elapsed() >= self.watching {
            self.watch(roots);
        }
        self.pause
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
        self.sought = Instant::now();
        let roots: Vec<u32> = roots.iter().copied().chain(self.processes.keys().copied()).collect();
        let living: BTreeMap<u32, u32> = tasks::tree(&roots)
            .into_iter()
            .flat_map(|pid| tasks::threads(pid).into_iter().map(move |tid| (tid, pid)))
            .collect();
        let ended = self.tasks.iter().filter(|(tid, known)| living.get(tid) != Some(&known.pid));
        for tid in ended.map(|(tid, _)| *tid).collect::<Vec<_>>() {
            // A zombie shows what it has used.
            self.record(tid, true);
        }
        self.seats.keep(|tid| living.contains_key(&tid));
        self.tasks.retain(|tid, known| living.get(tid) == Some(&known.pid));
        let new: Vec<(u32, u32)> =
            living.into_iter().filter(|(tid, _)| !self.tasks.contains_key(tid)).collect();
        for &(tid, pid) in &new {
            self.admit(pid, tid, Birthday::Since);
        }
        !new.is_empty()
    }

    /// Seats a task whose birth the kernel told, where it is of a process of ours.
    fn welcome(&mut self, birth: &Birth) {
        if !self.tasks.contains_key(&birth.tid) && (self.is_ours(birth.pid) || self.is_ours(birth.parent)) {
            self.admit(birth.pid, birth.tid, Birthday::At(birth.at_ns));
            // One that has ended already may have made others, as daemons do.
            self.processes.entry(birth.pid).or_insert_with(|| tasks::start_time(birth.pid));
        }
    }

    /// Whether process `pid` is one of ours, which may have ended; another process may have its id since.
    fn is_ours(&self, pid: u32) -> bool {
        let now = tasks::start_time(pid);
        match self.processes.get(&pid) {
            Some(start) => now.is_none() || now == *start,
            None => now.is_none() && self.gone.contains(&pid),
        }
    }

    /// Seats tasks again that lost their seats in the moment of their birth, which is over when they have run.
    fn confirm(&mut self) {
        for tid in std::mem::take(&mut self.fresh) {
            let (Some(seat), Some(known)) = (self.seats.seat(tid), self.tasks.get(&tid)) else { continue };
            let has_run = tasks::cpu_ns(known.pid, tid).is_none_or(|used| used > 0);
            if affinity::of(tid)
                .is_ok_and(|now| now != *self.seats.cpus(seat) && self.heirlooms().contains(&now))
            {
                self.settle(tid, seat);
            }
            if !has_run {
                self.fresh.push(tid);
            }
        }
    }

    /// Seats a new task, unless it has chosen CPUs itself.
    fn admit(&mut self, pid: u32, tid: u32, born: Birthday) {
        let Ok(cpus) = affinity::of(tid) else { return };
        if !self.heirlooms().contains(&cpus) {
            self.get_to_know(pid, tid);
            self.note(tid, cpus);
        } else if self.copies {
            self.get_to_know(pid, tid);
        } else {
            self.seat(pid, tid, &cpus, born);
        }
    }

    fn get_to_know(&mut self, pid: u32, tid: u32) -> u64 {
        let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
        self.tasks.insert(tid, Known { pid, cpu_ns, at_ns: now_ns() });
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
        let lost = (self.entering || self.seats.any_closed()).then(|| self.inherited.clone());
        taken.chain([self.whole.clone()]).chain(self.former.iter().cloned()).chain(lost).collect()
    }

    /// Gives a task a seat, from the CPUs that it has now.
    fn seat(&mut self, pid: u32, tid: u32, now: &CpuSet, born: Birthday) {
        let Some(mut seat) = self.seats.take(tid) else { return };
        let mut placed = self.put(pid, tid, now, seat, born);
        if placed.as_ref().is_err_and(|error| is(error, Errno::INVAL)) {
            // Its CPUs have gone offline since we looked.
            self.follow();
            let Some(other) = self.seats.take(tid).filter(|other| *other != seat) else {
                self.refuse(pid, tid, "its control group leaves it none of the planned CPUs");
                return;
            };
            seat = other;
            placed = self.put(pid, tid, now, seat, born);
        }
        match placed {
            Ok(()) => {
                let arrived_ns = now_ns();
                let cpu_ns = self.get_to_know(pid, tid);
                if born != Birthday::Before {
                    self.fresh.push(tid);
                }
                if let Some(recorder) = &mut self.recorder {
                    let delay =
                        if let Birthday::At(at) = born { Some(arrived_ns.saturating_sub(at)) } else { None };
                    recorder.arrived(pid, tid, seat, cpu_ns, delay);
                }
            }
            // One that ends meanwhile needs no seat.
            Err(error) if error.kind() == ErrorKind::NotFound || is(&error, Errno::SRCH) => {
                self.seats.leave(tid);
            }
            Err(error) => self.refuse(pid, tid, &error.to_string()),
        }
    }

    /// Journals and sets an affinity.
    fn put(&mut self, pid: u32, tid: u32, now: &CpuSet, seat: usize, born: Birthday) -> io::Result<()> {
        let cpus = self.seats.cpus(seat).clone();
        if let Some(recorder) = &mut self.recorder {
            recorder.before(pid, tid, now, &cpus, born != Birthday::Before)?;
        }
        if *now == cpus { Ok(()) } else { affinity::restrict(tid, &cpus) }
    }

    fn refuse(&mut self, pid: u32, tid: u32, why: &str) {
        self.seats.leave(tid);
        self.get_to_know(pid, tid);
        self.refused.insert(name(tid), why.to_owned());
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
        if !is_same || noted.is_err() {
            return;
        }
        // A CPU that has just come online is in the cpuset a moment later. One that ends meanwhile needs no seat.
        match affinity::restrict(tid, &cpus) {
            Err(error) if is(&error, Errno::INVAL) => drop(self.unsettled.insert(tid)),
            _ => drop(self.unsettled.remove(&tid)),
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn name(tid: u32) -> String {
    tasks::name(tid).unwrap_or_else(|| "a task".to_owned())
}
