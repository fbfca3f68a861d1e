//! The monitor thread. From the first reading to the signal it neither allocates nor blocks. Its reads take
//! no lock that another task may hold while waiting for memory. Its messages go through a channel with free
//! capacity, or are lost.

mod evidence;
mod messages;
mod pause;
mod signal;
mod surveys;
mod tables;
mod watch_plan;

pub use tables::TableSpace;
pub use watch_plan::{WatchPlan, WatchState};

use crate::decision::{
    assessment::{Assessment, GAP_NS, assess},
    cause::{Candidates, CauseFinder, CauseFinding, FamilyKey, Suspect},
    process_table::ProcessTable,
    shortage::Action,
};
use crate::error::{Error, Result};
use crate::event::{EventDetail, MonitorEvent, SlowPathMessage};
use crate::process_scan::ProcessScanner;
use manycore_linux::wake_channel::{Sender, WakeUp};
use manycore_linux::{clock::now_ns, sd_notify::ServiceManager};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::Receiver,
};

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// While available memory decreases, surveys may take one part in this many of the time.
const SURVEY_SHARE: u64 = 10;

/// Interval between readings for metrics.
const METRICS_INTERVAL_NS: u64 = SECOND;

/// Interval between readings for the slow path if neither metrics nor members of control groups depend on them.
const REST_INTERVAL_NS: u64 = 10 * SECOND;

/// Capacity of the channels to and from the slow path.
pub const QUEUE: usize = 1 << 7;

/// The monitor: takes readings, assesses them and acts.
#[allow(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Monitor {
    plan: Box<WatchPlan>,
    table: ProcessTable,
    finder: CauseFinder,
    scanner: ProcessScanner,
    survey_ns: u64,
    surveyed_ns: u64,
    metrics_sent_ns: u64,
    /// Time of the last result on memory that processes hold in addition to their pages.
    extra_memory_ns: u64,
    /// Start of the search for this memory that is under way.
    search_started_ns: Option<u64>,
    /// Whether such a search is possible.
    can_search: bool,
    is_dry: bool,
    has_metrics: bool,
    events: Sender<MonitorEvent>,
    messages: Receiver<SlowPathMessage>,
    wake_up: WakeUp,
    manager: Option<ServiceManager>,
    watchdog_ns: u64,
    next_shared_pid: u32,
    next_group_pid: u32,
    /// CPUs of the machine, including those that are offline.
    cpus: usize,
    /// A child process used for the rehearsal.
    rehearsal_child: Option<Child>,
    /// During the rehearsal no messages are sent.
    is_rehearsing: bool,
    is_over: bool,
}

/// What a monitor needs.
pub struct MonitorConfig {
    /// What is watched.
    pub plan: Box<WatchPlan>,
    /// Whether signals are only reported.
    pub is_dry: bool,
    /// Whether readings are published as metrics.
    pub has_metrics: bool,
    /// Channel to the slow path.
    pub events: Sender<MonitorEvent>,
    /// Channel from the slow path.
    pub messages: Receiver<SlowPathMessage>,
    /// Wakes the monitor when there are messages from the slow path.
    pub wake_up: WakeUp,
    /// The service manager that expects signs of life.
    pub manager: Option<ServiceManager>,
}

impl Monitor {
    /// Creates a monitor and allocates all that it will need.
    ///
    /// # Errors
    /// [`Error::System`] if `/proc` cannot be read.
    pub fn new(config: MonitorConfig) -> Result<Self> {
        let TableSpace { table, finder } = TableSpace::allocate();
        Ok(Self {
            plan: config.plan,
            table,
            finder,
            scanner: ProcessScanner::open(Path::new("/"))
                .map_err(Error::system("cannot list the processes of this machine"))?,
            survey_ns: 0,
            surveyed_ns: 0,
            metrics_sent_ns: 0,
            extra_memory_ns: 0,
            search_started_ns: None,
            can_search: true,
            is_dry: config.is_dry,
            has_metrics: config.has_metrics,
            events: config.events,
            messages: config.messages,
            wake_up: config.wake_up,
            manager: config.manager,
            watchdog_ns: 0,
            next_shared_pid: 0,
            next_group_pid: 0,
            cpus: pause::possible_cpus(),
            rehearsal_child: None,
            is_rehearsing: false,
            is_over: false,
        })
    }

    /// Starts a child process for the rehearsal. This runs code that is not needed later.
    pub fn spawn_rehearsal_child(&mut self) {
        // It waits for input that never comes.
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        self.rehearsal_child = child.ok();
    }

    /// Runs until the slow path sends [`SlowPathMessage::Stop`].
    pub fn run(&mut self) {
        self.rehearse();
        while !self.is_over {
            let end = self.tick().saturating_add(now_ns());
            // Messages of the slow path are processed as they arrive. Few of them call for a new reading.
            loop {
                let only_facts = self.wait(end.saturating_sub(now_ns()));
                if self.receive_messages() || !only_facts {
                    break;
                }
            }
        }
    }

    /// Executes the whole path to a signal once without effect, so that its code and data are in memory
    /// before they are needed.
    fn rehearse(&mut self) {
        self.tick();
        let among = Candidates { watch: 0, excluded: &[] };
        if let Some(watch) = self.plan.watches.first() {
            let _ = self.finder.find_cause(&self.table, &watch.reading, &among);
        }
        if let Some(error) = self.rehearse_signal() {
            self.send_event(0, &EventDetail::CannotOpen(error.raw_os_error().unwrap_or(0)));
        }
        if let Some(manager) = &self.manager {
            manager.send("READY=1\nSTATUS=watching");
        }
    }

    /// Takes all readings and acts on them. Returns the nanoseconds until the next tick.
    pub fn tick(&mut self) -> u64 {
        let now = now_ns();
        self.notify_watchdog(now);
        self.scan_named(now);
        for at in 0..self.plan.watches.len() {
            self.read(at, now);
        }
        if now.saturating_sub(self.surveyed_ns) >= self.survey_interval_ns() {
            self.survey_all(now);
        }
        for at in 0..self.plan.watches.len() {
            self.step(at);
        }
        self.request_groups();
        let interval_ns = if self.is_read_each_second() { METRICS_INTERVAL_NS } else { REST_INTERVAL_NS };
        if now.saturating_sub(self.metrics_sent_ns) >= interval_ns {
            self.metrics_sent_ns = now;
            for at in 0..self.plan.watches.len() {
                let what = EventDetail::Reading {
                    processes: self.table.processes().len(),
                    survey_ns: self.survey_ns,
                };
                self.send_event(at, &what);
            }
        }
        self.pause()
    }

    /// Whether metrics or the members of control groups depend on readings.
    fn is_read_each_second(&self) -> bool {
        self.has_metrics || self.plan.group_watches != 0
    }

    /// Sends the service manager's watchdog signal when it is due.
    fn notify_watchdog(&mut self, now: u64) {
        let Some(manager) = &self.manager else { return };
        let due = manager
            .keep_alive_interval
            .is_some_and(|beat| now.saturating_sub(self.watchdog_ns) >= beat.as_nanos() as u64);
        if due {
            self.watchdog_ns = now;
            manager.send("WATCHDOG=1");
        }
    }

    /// Reads one watch and assesses the reading.
    fn read(&mut self, at: usize, now: u64) {
        let watch = &mut self.plan.watches[at];
        let reading = watch.read(now, &self.table);
        let was_unreadable = std::mem::replace(&mut watch.is_unreadable, reading.is_none());
        let Some(reading) = reading else {
            watch.trend.clear();
            watch.assessment = Assessment::default();
            if !was_unreadable {
                self.send_event(at, &EventDetail::Unreadable);
            }
            return;
        };
        // After a change of the limit, earlier readings cannot be compared. The same holds for readings from
        // before a suspend.
        let has_slept = now.saturating_sub(watch.reading.at_ns) > GAP_NS && watch.reading.at_ns > 0;
        if reading.total_bytes != watch.reading.total_bytes {
            watch.trend.clear();
        }
        watch.trend.add(reading.at_ns, reading.available_with_swap(), GAP_NS);
        watch.reading = reading;
        watch.assessment = assess(&reading, &watch.trend, &watch.limits);
        watch.confirm_trend(now);
        if has_slept || was_unreadable {
            self.table.discard_marks();
            self.surveyed_ns = 0;
        }
        if was_unreadable {
            self.send_event(at, &EventDetail::Readable);
        }
    }

    /// Takes the next step of one watch.
    fn step(&mut self, at: usize) {
        let now = now_ns();
        self.keep_searching(at);
        let has_exited = self.has_exited(at);
        let watch = &mut self.plan.watches[at];
        let order = watch.shortage.step(
            now,
            &watch.assessment,
            watch.reading.available_with_swap(),
            has_exited,
            watch.grace_ns(),
        );
        match order {
            Action::Nothing => self.kill_new_members(at),
            Action::Warn => {
                self.refresh_table();
                let finding = self.find_cause(at);
                self.send_event(at, &EventDetail::Warn(finding));
            }
            Action::Term => self.find_and_signal(at, false),
            Action::Kill => self.find_and_signal(at, true),
            Action::Escalate => self.escalate_to_kill(at),
            Action::Exited => {
                self.report_target(at, |suspect, family, at_ns| EventDetail::Exited {
                    suspect,
                    family,
                    after_ns: now.saturating_sub(at_ns),
                });
                self.plan.watches[at].target = None;
            }
            Action::Stuck => {
                self.report_target(at, |suspect, family, _| EventDetail::Stuck(suspect, family));
                let watch = &mut self.plan.watches[at];
                if let Some(target) = watch.target.take() {
                    let reading = target.suspect.process.reading;
                    watch.shortage.exclude(reading.pid, reading.start);
                }
            }
            Action::LeaveRunning => {
                self.report_target(at, |suspect, family, _| EventDetail::LeftRunning(suspect, family));
                self.plan.watches[at].target = None;
            }
            Action::Over => {
                self.plan.watches[at].group_wait_ns = None;
                self.plan.watches[at].holder_wait_ns = None;
                self.send_event(at, &EventDetail::Over);
            }
        }
    }

    fn report_target(&mut self, at: usize, what: impl Fn(Suspect, Option<FamilyKey>, u64) -> EventDetail) {
        let assessment = self.plan.watches[at]
            .target
            .as_ref()
            .map(|target| what(target.suspect, target.family, target.at_ns));
        if let Some(what) = assessment {
            self.send_event(at, &what);
        }
    }

    /// Returns the cause according to the table.
    fn find_cause(&mut self, at: usize) -> CauseFinding {
        let watch = &self.plan.watches[at];
        let among = Candidates { watch: at, excluded: watch.shortage.excluded() };
        self.finder.find_cause(&self.table, &watch.reading, &among)
    }

    /// Sends a message to the slow path. Returns false if the channel is full.
    fn send_event(&self, at: usize, what: &EventDetail) -> bool {
        let Some(watch) = self.plan.watches.get(at).filter(|_| !self.is_rehearsing) else { return false };
        let event = MonitorEvent {
            rules: self.plan.number,
            watch: at,
            reading: watch.reading,
            assessment: watch.assessment,
            what: *what,
        };
        self.events.try_send(event)
    }
}
