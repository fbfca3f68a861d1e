//! The monitor thread. From the first reading to the signal it neither allocates nor blocks. Its reads take
//! no lock that another task may hold while waiting for memory. Its messages go through a channel with free
//! capacity, or are lost.

mod act;
mod doubt;
mod facts;
mod plan;
mod room;

pub use plan::{Plan, Watched};
pub use room::Room;

use crate::decision::{
    choice::{Among, Chooser, Finding, Kin, Suspect},
    incident::Order,
    stage::{Assessment, Cause, GAP_NS, Reading, Stage, assess, pause_ns},
    table::{Process, Shield, Table, WATCHES},
};
use crate::event::{Event, Fact, What};
use crate::memory_use::Survey;
use manycore_linux::{clock::now_ns, sd_notify::ServiceManager};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, SyncSender},
};

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Interval between surveys of all processes while memory is plentiful.
const CALM_SURVEY_NS: u64 = 30 * SECOND;

/// While memory is plentiful, surveys may take one part in this many of the time.
const CALM_SURVEY_SHARE: u64 = 5_000;

/// Interval between surveys while processes of a name are watched.
const NAMED_SURVEY_NS: u64 = 2 * SECOND;

/// Shortest interval between surveys while available memory decreases.
const QUICK_SURVEY_NS: u64 = SECOND / 5;

/// While available memory decreases, surveys may take one part in this many of the time.
const SURVEY_SHARE: u64 = 10;

/// A table that is at most this old is used to find a cause.
const FRESH_NS: u64 = SECOND / 50;

/// Pause between readings while a process that was sent a signal has not exited yet.
const WAITING_NS: u64 = SECOND / 50;

/// Pause between readings if memory is always short but does not decrease.
const STEADY_NS: u64 = SECOND / 10;

/// Longest pause between readings.
const LONGEST_NS: u64 = SECOND;

/// Interval between readings for metrics.
const LOOK_NS: u64 = SECOND;

/// Capacity of the channels to and from the slow path.
pub const QUEUE: usize = 1 << 9;

/// Largest number of processes for which one tick requests the control group.
const WHO: usize = 256;

/// Number of processes for which a survey requests the amount of shared memory.
const SHARES: usize = 4;

/// The amount is requested for processes of this size, in KiB. For larger ones it takes too long to
/// determine.
const SHARE_KIB: std::ops::Range<u32> = 32 << 10..1 << 20;

/// The monitor: takes readings, assesses them and acts.
#[allow(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Watcher {
    plan: Box<Plan>,
    table: Table,
    chooser: Chooser,
    survey: Survey,
    survey_ns: u64,
    surveyed_ns: u64,
    looked_ns: u64,
    /// Time of the last result on memory that processes hold in addition to their pages.
    held_ns: u64,
    /// Start of the search for this memory that is under way.
    sought_ns: Option<u64>,
    /// Whether such a search is possible.
    can_seek: bool,
    is_dry: bool,
    events: SyncSender<Event>,
    facts: Receiver<Fact>,
    wake: OwnedFd,
    manager: Option<ServiceManager>,
    beaten_ns: u64,
    share_next: u32,
    who_next: u32,
    /// A child process used for the rehearsal.
    victim: Option<Child>,
    /// During the rehearsal no messages are sent.
    is_rehearsing: bool,
    is_over: bool,
}

/// What a monitor needs.
pub struct Means {
    /// What is watched.
    pub plan: Box<Plan>,
    /// Whether signals are only reported.
    pub is_dry: bool,
    /// Channel to the slow path.
    pub events: SyncSender<Event>,
    /// Channel from the slow path.
    pub facts: Receiver<Fact>,
    /// Readable when there are messages from the slow path.
    pub wake: OwnedFd,
    /// The service manager that expects signs of life.
    pub manager: Option<ServiceManager>,
}

impl Watcher {
    /// Creates a monitor and allocates all that it will need.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn new(means: Means) -> std::io::Result<Self> {
        let Room { table, chooser } = Room::enough();
        Ok(Self {
            plan: means.plan,
            table,
            chooser,
            survey: Survey::open(Path::new("/"))?,
            survey_ns: 0,
            surveyed_ns: 0,
            looked_ns: 0,
            held_ns: 0,
            sought_ns: None,
            can_seek: true,
            is_dry: means.is_dry,
            events: means.events,
            facts: means.facts,
            wake: means.wake,
            manager: means.manager,
            beaten_ns: 0,
            share_next: 0,
            who_next: 0,
            victim: None,
            is_rehearsing: false,
            is_over: false,
        })
    }

    /// Starts a child process for the rehearsal. This runs code that is not needed later.
    pub fn prepare(&mut self) {
        // It waits for input that never comes.
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        self.victim = child.ok();
    }

    /// Runs until the slow path sends [`Fact::Stop`].
    pub fn run(&mut self) {
        self.rehearse();
        while !self.is_over {
            let end = self.tick().saturating_add(now_ns());
            // Messages of the slow path are processed as they arrive. Few of them call for a new reading.
            loop {
                let only_facts = self.wait(end.saturating_sub(now_ns()));
                if self.take_facts() || !only_facts {
                    break;
                }
            }
        }
    }

    /// Executes the whole path to a signal once without effect, so that its code and data are in memory
    /// before they are needed.
    fn rehearse(&mut self) {
        self.tick();
        let among = Among { watch: 0, except: &[] };
        if let Some(watch) = self.plan.watches.first() {
            let _ = self.chooser.choose(&self.table, &watch.reading, &among);
        }
        if let Some(error) = self.rehearse_act() {
            self.tell(0, &What::Lame(error.raw_os_error().unwrap_or(0)));
        }
        if let Some(manager) = &self.manager {
            manager.send("READY=1\nSTATUS=watching");
        }
    }

    /// Takes all readings and acts on them. Returns the nanoseconds until the next tick.
    pub fn tick(&mut self) -> u64 {
        let now = now_ns();
        self.beat(now);
        self.follow(now);
        for at in 0..self.plan.watches.len() {
            self.read(at, now);
        }
        if now.saturating_sub(self.surveyed_ns) >= self.survey_every() {
            self.look_at_all(now);
        }
        for at in 0..self.plan.watches.len() {
            self.step(at);
        }
        self.ask_who();
        if now.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now;
            for at in 0..self.plan.watches.len() {
                let what = What::Look { processes: self.table.processes().len(), survey_ns: self.survey_ns };
                self.tell(at, &what);
            }
        }
        self.pause()
    }

    /// Sends the service manager's watchdog signal when it is due.
    fn beat(&mut self, now: u64) {
        let Some(manager) = &self.manager else { return };
        let due = manager
            .keep_alive_interval
            .is_some_and(|beat| now.saturating_sub(self.beaten_ns) >= beat.as_nanos() as u64);
        if due {
            self.beaten_ns = now;
            manager.send("WATCHDOG=1");
        }
    }

    /// Reads one watch and assesses the reading.
    fn read(&mut self, at: usize, now: u64) {
        let watch = &mut self.plan.watches[at];
        let reading = watch.read(now, &self.table);
        let was_blind = std::mem::replace(&mut watch.is_blind, reading.is_none());
        let Some(reading) = reading else {
            watch.trend.clear();
            watch.told = Assessment::default();
            if !was_blind {
                self.tell(at, &What::Blind);
            }
            return;
        };
        // After a change of the limit, earlier readings cannot be compared. The same holds for readings from
        // before a suspend.
        let has_slept = now.saturating_sub(watch.reading.at_ns) > GAP_NS && watch.reading.at_ns > 0;
        if reading.total != watch.reading.total {
            watch.trend.clear();
        }
        watch.trend.add(reading.at_ns, reading.room(), GAP_NS);
        watch.reading = reading;
        watch.told = assess(&reading, &watch.trend, &watch.limits);
        watch.settle(now);
        if has_slept || was_blind {
            self.table.forget();
            self.surveyed_ns = 0;
        }
        if was_blind {
            self.tell(at, &What::Sighted);
        }
    }

    /// Updates the processes that are watched by name, and those that have just started, which may yet
    /// execute another program.
    fn follow(&mut self, now: u64) {
        let Self { plan, table, survey, .. } = self;
        let named = plan.named_watches;
        if named == 0 {
            return;
        }
        survey.newborn(table, now, |process| plan.judge(process));
        let is_followed = |process: &Process| {
            process.watches & named != 0 || now.saturating_sub(process.first_ns) < NAMED_SURVEY_NS
        };
        survey.again(table, now, is_followed, |process| plan.judge(process));
    }

    /// Returns the interval between surveys of all processes, in nanoseconds.
    fn survey_every(&self) -> u64 {
        let is_soon = |watch: &Watched| {
            watch.told.stage >= Stage::Warn || watch.told.seconds_left.is_some_and(|left| left < 60.0)
        };
        if self.plan.watches.iter().any(|watch| watch.incident.is_waiting()) {
            return (QUICK_SURVEY_NS / 4).max(self.survey_ns * SURVEY_SHARE);
        }
        if self.plan.watches.iter().any(is_soon) {
            let is_idle = self.plan.watches.iter().all(Watched::is_steady);
            return if is_idle { 5 * SECOND } else { QUICK_SURVEY_NS.max(self.survey_ns * SURVEY_SHARE) };
        }
        if self.plan.named_watches != 0 {
            NAMED_SURVEY_NS.max(self.survey_ns * 100)
        } else {
            CALM_SURVEY_NS.max(self.survey_ns * CALM_SURVEY_SHARE)
        }
    }

    /// Surveys all processes and makes this a moment from which growth is measured.
    fn look_at_all(&mut self, now: u64) {
        let Self { plan, table, survey, .. } = self;
        let swaps = plan.watches.iter().any(|watch| watch.reading.swap_total > watch.reading.swap_free);
        if survey.run(table, now, swaps, |process| plan.judge(process)).is_err() {
            return;
        }
        let mut readings = [Reading::default(); WATCHES];
        for (reading, watch) in readings.iter_mut().zip(&self.plan.watches) {
            *reading = watch.reading;
        }
        self.table.mark(now, &readings);
        self.survey_ns = now_ns().saturating_sub(now);
        self.surveyed_ns = now;
        if self.table.left_out > 0 {
            self.tell(0, &What::LeftOut(self.table.left_out));
        }
        self.who_next = 0;
        self.ask_shares();
    }

    /// Requests the control groups of new processes. At most [`WHO`] are requested per tick; the others
    /// follow with the next ticks.
    fn ask_who(&mut self) {
        let mut next = self.who_next;
        let (from, mut asked) = (next, 0);
        let is_unknown = |process: &&Process| {
            process.seen.pid > from && !process.is_known && process.shield != Some(Shield::Kernel)
        };
        for process in self.table.processes().iter().filter(is_unknown) {
            let what = What::Identify { pid: process.seen.pid, start: process.seen.start };
            if asked == WHO || !self.tell(0, &what) {
                self.who_next = next;
                return;
            }
            (next, asked) = (process.seen.pid, asked + 1);
        }
        // All have been requested. The next survey may find more.
        self.who_next = u32::MAX;
    }

    /// Requests how much memory of some processes is shared with others.
    fn ask_shares(&mut self) {
        if self.plan.watches.iter().any(|watch| watch.told.stage >= Stage::Warn) {
            return;
        }
        // Continues with the next process ids after those of the last survey.
        let next = self.share_next;
        let big = self.table.processes().iter().filter(|process| SHARE_KIB.contains(&process.seen.kib));
        let mut asked = 0;
        self.share_next = 0;
        for process in big.filter(|process| process.seen.pid > next).take(SHARES) {
            asked = process.seen.pid;
            self.tell(0, &What::Share { pid: process.seen.pid, start: process.seen.start });
        }
        self.share_next = asked;
    }

    /// Takes the next step of one watch.
    fn step(&mut self, at: usize) {
        let now = now_ns();
        self.keep_seeking(at);
        let is_gone = self.is_gone(at);
        let watch = &mut self.plan.watches[at];
        let order = watch.incident.step(now, &watch.told, watch.reading.room(), is_gone, watch.grace_ns());
        match order {
            Order::Nothing => self.go_on(at),
            Order::Warn => {
                self.refresh();
                let finding = self.find(at);
                self.tell(at, &What::Warn(finding));
            }
            Order::Term => self.act(at, false),
            Order::Kill => self.act(at, true),
            Order::Finish => self.finish(at),
            Order::Gone => {
                self.target_of(at, |suspect, kin, at_ns| What::Gone {
                    suspect,
                    kin,
                    after_ns: now.saturating_sub(at_ns),
                });
                self.plan.watches[at].target = None;
            }
            Order::Stuck => {
                self.target_of(at, |suspect, kin, _| What::Stuck(suspect, kin));
                let watch = &mut self.plan.watches[at];
                if let Some(target) = watch.target.take() {
                    let seen = target.suspect.process.seen;
                    watch.incident.leave_out(seen.pid, seen.start);
                }
            }
            Order::Spare => {
                self.target_of(at, |suspect, kin, _| What::Spare(suspect, kin));
                self.plan.watches[at].target = None;
            }
            Order::Over => {
                self.plan.watches[at].asking_ns = None;
                self.plan.watches[at].seeking_ns = None;
                self.tell(at, &What::Over);
            }
        }
    }

    fn target_of(&mut self, at: usize, what: impl Fn(Suspect, Option<Kin>, u64) -> What) {
        let told = self.plan.watches[at]
            .target
            .as_ref()
            .map(|target| what(target.suspect, target.kin, target.at_ns));
        if let Some(what) = told {
            self.tell(at, &what);
        }
    }

    /// Returns the cause according to the table.
    fn find(&mut self, at: usize) -> Finding {
        let watch = &self.plan.watches[at];
        let among = Among { watch: at, except: watch.incident.left_out() };
        self.chooser.choose(&self.table, &watch.reading, &among)
    }

    /// Renews the table if it is too old to find a cause.
    fn refresh(&mut self) {
        let now = now_ns();
        if now.saturating_sub(self.surveyed_ns) > FRESH_NS {
            for at in 0..self.plan.watches.len() {
                self.read(at, now);
            }
            self.look_at_all(now);
        }
    }

    fn pause(&self) -> u64 {
        let now = now_ns();
        let of = |watch: &Watched| {
            if watch.incident.is_waiting() {
                WAITING_NS
            } else if watch.told.stage >= Stage::Term && (watch.is_asking(now) || watch.is_seeking(now)) {
                doubt::MOMENT_NS
            } else if watch.is_blind {
                LONGEST_NS
            } else if watch.is_steady() && watch.told.cause != Cause::None {
                // Memory is always short, but does not become shorter.
                STEADY_NS
            } else {
                pause_ns(&watch.reading, &watch.told, &watch.limits, LONGEST_NS)
            }
        };
        self.plan.watches.iter().map(of).min().unwrap_or(LONGEST_NS)
    }

    /// Waits until the pause has passed, tasks stall for memory or a killed process has exited. Returns true
    /// if only a message of the slow path has arrived.
    fn wait(&mut self, pause_ns: u64) -> bool {
        const PLACES: usize = 2 * WATCHES + 1;
        let none = || PollFd::new(&self.wake, PollFlags::empty());
        let mut all: [PollFd; PLACES] = std::array::from_fn(|_| none());
        all[0] = PollFd::new(&self.wake, PollFlags::IN);
        for (at, watch) in self.plan.watches.iter().enumerate().take(WATCHES) {
            if let Some(bell) = &watch.bell {
                all[1 + at] = PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::PRI);
            }
            if let Some(held) = watch.target.as_ref().and_then(|target| target.held.as_ref()) {
                all[1 + WATCHES + at] = PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN);
            }
        }
        let time = Timespec { tv_sec: (pause_ns / SECOND) as i64, tv_nsec: (pause_ns % SECOND) as i64 };
        let count = poll(&mut all, Some(&time)).unwrap_or(0);
        let only_facts = count == 1 && !all[0].revents().is_empty();
        // The pressure notification of a removed group would fire for ever.
        let is_broken =
            |fd: &PollFd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        let broken: [bool; WATCHES] = std::array::from_fn(|at| is_broken(&all[1 + at]));
        for (watch, _) in self.plan.watches.iter_mut().zip(broken).filter(|(_, broken)| *broken) {
            watch.bell = None;
        }
        only_facts
    }

    /// Sends a message to the slow path. Returns false if the channel is full.
    fn tell(&self, at: usize, what: &What) -> bool {
        let Some(watch) = self.plan.watches.get(at).filter(|_| !self.is_rehearsing) else { return false };
        let event = Event {
            rules: self.plan.number,
            watch: at,
            reading: watch.reading,
            told: watch.told,
            what: *what,
        };
        self.events.try_send(event).is_ok()
    }
}
