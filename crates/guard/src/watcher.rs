//! The thread that acts. From the first reading to the signal it neither allocates nor waits: what it reads takes no
//! lock that somebody can hold who waits for memory, what it says goes through a channel with room, or is lost.

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
use manycore_linux::{clock::now_ns, notify::Manager};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, SyncSender},
};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// All processes are looked at so often while nothing happens.
const CALM_SURVEY_NS: u64 = 30 * SECOND;

/// Looking at all processes may take this part of the time then.
const CALM_SURVEY_SHARE: u64 = 5_000;

/// So often while processes of a name are watched.
const NAMED_SURVEY_NS: u64 = 2 * SECOND;

/// So often at most while memory goes.
const QUICK_SURVEY_NS: u64 = SECOND / 5;

/// Looking at all processes may take this part of the time while memory goes.
const SURVEY_SHARE: u64 = 10;

/// A table that is not older serves to find a cause.
const FRESH_NS: u64 = SECOND / 50;

/// While somebody is waited for.
const WAITING_NS: u64 = SECOND / 50;

/// Where memory is always short and does not go.
const STEADY_NS: u64 = SECOND / 10;

/// Longest pause.
const LONGEST_NS: u64 = SECOND;

/// How often metrics get a reading.
const LOOK_NS: u64 = SECOND;

/// Values that may be on their way to the clerk, and from him.
pub const QUEUE: usize = 1 << 9;

/// Processes whose control group is asked for in a tick.
const WHO: usize = 256;

/// Processes whose shared part is asked for after a survey.
const SHARES: usize = 4;

/// Memory from which on it is asked for, in KiB; beyond the larger one it takes too long to tell.
const SHARE_KIB: std::ops::Range<u32> = 32 << 10..1 << 20;

/// Reads, judges and acts.
#[allow(clippy::struct_excessive_bools, reason = "each is set apart from the others")]
pub struct Watcher {
    plan: Box<Plan>,
    table: Table,
    chooser: Chooser,
    survey: Survey,
    survey_ns: u64,
    surveyed_ns: u64,
    looked_ns: u64,
    /// When it was found last what processes hold beside their pages.
    held_ns: u64,
    /// Since when this is searched for.
    sought_ns: Option<u64>,
    /// Whether it can be found at all.
    can_seek: bool,
    is_dry: bool,
    events: SyncSender<Event>,
    facts: Receiver<Fact>,
    wake: OwnedFd,
    manager: Option<Manager>,
    beaten_ns: u64,
    share_next: u32,
    who_next: u32,
    /// A child of ours to rehearse on.
    victim: Option<Child>,
    /// Nothing is told.
    is_rehearsing: bool,
    is_over: bool,
}

/// What it takes to be one.
pub struct Means {
    /// What is watched.
    pub plan: Box<Plan>,
    /// Whether signals are only told of.
    pub is_dry: bool,
    /// To the clerk.
    pub events: SyncSender<Event>,
    /// From the clerk.
    pub facts: Receiver<Fact>,
    /// Readable when there are facts.
    pub wake: OwnedFd,
    /// Who wants to know that we live.
    pub manager: Option<Manager>,
}

impl Watcher {
    /// With all that it will need.
    ///
    /// # Errors
    /// The folder of processes cannot be read.
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

    /// Starts a child to rehearse on, which takes code that is not needed later.
    pub fn prepare(&mut self) {
        // It waits for input that never comes.
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        self.victim = child.ok();
    }

    /// Watches until it is told to stop.
    pub fn run(&mut self) {
        self.rehearse();
        while !self.is_over {
            let end = self.tick().saturating_add(now_ns());
            // What the clerk has found out is taken in as it comes, and seldom a reason to look again.
            loop {
                let only_facts = self.wait(end.saturating_sub(now_ns()));
                if self.take_facts() || !only_facts {
                    break;
                }
            }
        }
    }

    /// Goes the whole way once without harm, so that its code and data lie in memory before they are needed.
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
            manager.tell("READY=1\nSTATUS=watching");
        }
    }

    /// One look at everything, and what follows; nanoseconds until the next.
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

    /// Tells the service manager that we live.
    fn beat(&mut self, now: u64) {
        let Some(manager) = &self.manager else { return };
        let due =
            manager.beat.is_some_and(|beat| now.saturating_sub(self.beaten_ns) >= beat.as_nanos() as u64);
        if due {
            self.beaten_ns = now;
            manager.tell("WATCHDOG=1");
        }
    }

    /// Reads one watch and judges it.
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
        // A limit that was changed is another quantity, and so is a past from before a sleep.
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

    /// Brings those up to date that are watched by their names. Who has just begun may become another program.
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

    /// How often all processes are looked at.
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

    /// Looks at all processes, and makes this a moment from which growth is told.
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

    /// Has the clerk find out the control groups of some that are new; the others come with the next ticks.
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
        // None is left; the next survey may find more.
        self.who_next = u32::MAX;
    }

    /// Has the clerk find out how much of some processes others have too.
    fn ask_shares(&mut self) {
        if self.plan.watches.iter().any(|watch| watch.told.stage >= Stage::Warn) {
            return;
        }
        // Those that come next by id, from where we stopped last time.
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

    /// One watch's next step.
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

    /// Who has caused it, as far as the table knows.
    fn find(&mut self, at: usize) -> Finding {
        let watch = &self.plan.watches[at];
        let among = Among { watch: at, except: watch.incident.left_out() };
        self.chooser.choose(&self.table, &watch.reading, &among)
    }

    /// A table that is fresh enough to find a cause.
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
                // Always short, and no shorter.
                STEADY_NS
            } else {
                pause_ns(&watch.reading, &watch.told, &watch.limits, LONGEST_NS)
            }
        };
        self.plan.watches.iter().map(of).min().unwrap_or(LONGEST_NS)
    }

    /// Waits until it is time, tasks stall for memory or whoever was killed is gone; or, which is told, until the clerk
    /// has found out something and nothing else has happened.
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
        // The bell of a group that was removed would ring for ever.
        let is_broken =
            |fd: &PollFd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        let broken: [bool; WATCHES] = std::array::from_fn(|at| is_broken(&all[1 + at]));
        for (watch, _) in self.plan.watches.iter_mut().zip(broken).filter(|(_, broken)| *broken) {
            watch.bell = None;
        }
        only_facts
    }

    /// Tells the clerk; `false` where there was no room.
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
