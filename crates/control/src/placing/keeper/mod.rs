//! Enforces the affinities of tasks, so that they run on the CPUs of their workers.

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

/// Time to the next scan after new tasks have appeared, and at the start.
const SOON: Duration = Duration::from_millis(1);

/// Maximum time between scans for new threads if the kernel does not report process events.
const SEATING: Duration = Duration::from_millis(8);

/// Time between scans of all tasks for their CPU time and their affinities.
const WATCHING: Duration = Duration::from_millis(128);

/// Time to the first such scan. Each later interval is longer by a quarter, so that short commands are
/// observed to their end.
const FIRST_WATCH: Duration = Duration::from_millis(8);

/// Pins the threads of process trees to the workers' CPUs when they appear, and notices tasks that change
/// their own affinity.
///
/// Affinity is inherited, so between two scans no task leaves the CPUs of the whole placement.
pub struct Keeper {
    /// The assignment of tasks to workers. A single worker means that all tasks share its CPUs.
    seats: Seats,
    /// Whether each worker is a copy of a command, which starts on the worker's CPUs with all its tasks.
    copies: bool,
    /// The union of the workers' CPUs, or the CPUs that this process may use.
    whole: CpuSet,
    births: Births,
    tasks: BTreeMap<u32, Known>,
    /// Processes of the tasks, with their start times.
    processes: BTreeMap<u32, Option<u64>>,
    /// Processes that had ended at the last scan of all tasks. Their earlier children belong to the command
    /// as well.
    gone: BTreeSet<u32>,
    pause: Duration,
    /// Time of the last search for processes.
    sought: Instant,
    watched: Instant,
    watching: Duration,
    own: BTreeMap<String, CpuSet>,
    refused: BTreeMap<String, String>,
    /// Former affinities of tasks that were taken over.
    former: BTreeSet<CpuSet>,
    /// CPUs that this process may use. The kernel gives them to tasks whose CPUs have all gone offline.
    inherited: CpuSet,
    /// Tasks that were pinned in the last scan. In a cpuset the kernel sets the affinity of a new task to
    /// its parent's after it has reported the creation (`cpuset_fork` in `copy_process`), which may undo an
    /// affinity set in between.
    fresh: Vec<u32>,
    /// CPUs that were online at the last scan.
    online: Option<CpuSet>,
    /// Whether a control group is being entered. Kernels before 6.2 reset affinities then, in version 2 to
    /// all CPUs first.
    entering: bool,
    /// Tasks whose affinity the kernel rejects at the moment.
    unsettled: BTreeSet<u32>,
    recorder: Option<Recorder>,
}

/// When a task was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Birthday {
    /// Before the first scan.
    Before,
    /// After the first scan, at an unknown time.
    Since,
    /// At this time in nanoseconds of `CLOCK_MONOTONIC`.
    At(u64),
}

/// A known task.
struct Known {
    pid: u32,
    /// CPU time in nanoseconds at the last scan.
    cpu_ns: u64,
    at_ns: u64,
}

impl Keeper {
    /// Enforces `place` for a command started by a process that may use `inherited`.
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

    /// Enforces `place` for copies of a command, each of which starts on the CPUs of the worker with its
    /// number.
    pub fn of_copies(place: &Place, inherited: &CpuSet) -> Self {
        Self { copies: true, ..Self::new(place, inherited) }
    }

    /// Adds a recorder for changes and for the placement trace, and subscribes to process events of the
    /// kernel if possible.
    pub fn recording(self, recorder: Recorder) -> Self {
        Self { births: Births::watch(), recorder: Some(recorder), ..self }
    }

    /// Returns the tasks that changed their own affinity: name, and the CPUs that they chose last.
    pub fn own_affinities(&self) -> &BTreeMap<String, CpuSet> {
        &self.own
    }

    /// Returns the tasks that could not be moved: name and reason.
    pub fn refused(&self) -> &BTreeMap<String, String> {
        &self.refused
    }

    /// Returns the running processes whose affinity is enforced.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Returns the recorder.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// Returns the file descriptor that becomes readable on process events, if the kernel reports them.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.births.descriptor()
    }

    /// Returns whether tasks are pinned one by one to different workers.
    fn seating(&self) -> bool {
        !self.copies && self.seats.all().iter().any(|seat| *seat != self.whole)
    }

    /// Scans the process trees below `roots`. Returns the time until the next scan is needed, unless
    /// [`descriptor`](Self::descriptor) becomes readable earlier.
    pub fn look(&mut self, roots: &[u32]) -> Duration {
        self.look_below(&|| roots.to_vec())
    }

    /// The same. `roots` is called only if all processes have to be searched.
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

    /// Moves all tasks of the trees below `roots` to another placement.
    pub fn move_to(&mut self, place: &Place, inherited: &CpuSet, roots: &[u32]) {
        let own = std::mem::take(&mut self.own);
        *self = Self { own, ..Self::new(place, inherited) };
        self.take_over(roots);
    }

    /// Pins all tasks of the trees below `roots`, whatever affinity they have.
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
        // Tasks that were created meanwhile.
        self.find(roots);
    }

    /// Pins all tasks again whose affinity was reset. Control groups of version 1, and of version 2 before
    /// Linux 6.2, reset the affinities of tasks that enter.
    pub fn seat_again(&mut self) {
        let seated: Vec<(u32, usize)> =
            self.seats.tasks().filter_map(|tid| Some((tid, self.seats.seat(tid)?))).collect();
        for (tid, seat) in seated {
            if affinity::of(tid).is_ok_and(|cpus| cpus == self.whole && cpus != *self.seats.cpus(seat)) {
                self.settle(tid, seat);
            }
        }
    }

    /// Searches for new tasks in the trees below `roots` and below known processes.
    fn find(&mut self, roots: &[u32]) -> bool {
        self.sought = Instant::now();
        let roots: Vec<u32> = roots.iter().copied().chain(self.processes.keys().copied()).collect();
        let living: BTreeMap<u32, u32> = tasks::tree(&roots)
            .into_iter()
            .flat_map(|pid| tasks::threads(pid).into_iter().map(move |tid| (tid, pid)))
            .collect();
        let ended = self.tasks.iter().filter(|(tid, known)| living.get(tid) != Some(&known.pid));
        for tid in ended.map(|(tid, _)| *tid).collect::<Vec<_>>() {
            // The CPU time of a zombie can still be read.
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

    /// Pins a task whose creation the kernel reported, if it belongs to a known process.
    fn welcome(&mut self, birth: &Birth) {
        if !self.tasks.contains_key(&birth.tid) && (self.is_ours(birth.pid) || self.is_ours(birth.parent)) {
            self.admit(birth.pid, birth.tid, Birthday::At(birth.at_ns));
            // A task that has already ended may have created others, as daemons do.
            self.processes.entry(birth.pid).or_insert_with(|| tasks::start_time(birth.pid));
        }
    }

    /// Returns whether process `pid` belongs to the command. It may have ended, and its id may be in use
    /// again.
    fn is_ours(&self, pid: u32) -> bool {
        let now = tasks::start_time(pid);
        match self.processes.get(&pid) {
            Some(start) => now.is_none() || now == *start,
            None => now.is_none() && self.gone.contains(&pid),
        }
    }

    /// Pins tasks again whose affinity was reset during their creation, which is complete when they have
    /// run.
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

    /// Pins a new task, unless it has chosen its CPUs itself.
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

    /// Returns the affinities that a new task can have without having chosen one: the CPUs on which the
    /// command started, and those of workers with tasks that may have created it. A task on the CPUs of a
    /// worker without tasks went there itself.
    fn heirlooms(&self) -> Vec<CpuSet> {
        if self.copies {
            return self.seats.all().to_vec();
        }
        let taken: BTreeSet<usize> = self.seats.tasks().filter_map(|tid| self.seats.seat(tid)).collect();
        let taken = taken.into_iter().map(|seat| self.seats.cpus(seat).clone());
        let lost = (self.entering || self.seats.any_closed()).then(|| self.inherited.clone());
        taken.chain([self.whole.clone()]).chain(self.former.iter().cloned()).chain(lost).collect()
    }

    /// Assigns a task to a worker and pins it; `now` is its current affinity.
    fn seat(&mut self, pid: u32, tid: u32, now: &CpuSet, born: Birthday) {
        let Some(mut seat) = self.seats.take(tid) else { return };
        let mut placed = self.put(pid, tid, now, seat, born);
        if placed.as_ref().is_err_and(|error| is(error, Errno::INVAL)) {
            // The worker's CPUs have gone offline since the last scan.
            self.follow();
            let Some(other) = self.seats.take(tid).filter(|other| *other != seat) else {
                self.refuse(pid, tid, "its control group allows none of the planned CPUs");
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
            // A task that ends meanwhile need not be pinned.
            Err(error) if error.kind() == ErrorKind::NotFound || is(&error, Errno::SRCH) => {
                self.seats.leave(tid);
            }
            Err(error) => self.refuse(pid, tid, &error.to_string()),
        }
    }

    /// Records the change in the journal and sets the affinity.
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

    /// Moves a known task to another worker.
    fn settle(&mut self, tid: u32, seat: usize) {
        let Some(known) = self.tasks.get(&tid) else { return };
        // The id may be in use again by another task.
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
        // A CPU that has just come online enters the cpuset a moment later. A task that ends meanwhile need
        // not be pinned.
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
