//! The slow path of the guard, everything that may take time: names, files in memory, event lines, metrics,
//! queries, new rules.

mod about;
mod brake;
mod files;
mod lines;
mod scribe;
mod seeker;

pub use about::why;
pub use scribe::Scribe;
pub use seeker::look as look_at_holdings;

use crate::decision::{
    line::{Kind, Why},
    stage::Stage,
};
use crate::error::Result;
use crate::{
    event::{Event, Fact, What},
    groups::Groups,
    metrics::{Metrics, Sink},
    question::{Desk, Question},
    rules::{Of, Rules},
    watcher::Plan,
};
use crate::{memory_room::GroupRoom, memory_use};
use about::is_same;
use brake::Brake;
use files::Spotter;
use manycore_linux::tasks;
use rustix::{io::write, process::Signal};
use seeker::Seeker;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc,
        atomic::AtomicUsize,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval at which signals and queries are polled if no event arrives.
const IDLE: Duration = Duration::from_millis(500);

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Least time between two queries: each makes the monitor survey all processes, and any user may send one.
const QUESTIONS: Duration = Duration::from_millis(250);

/// What the slow path works with.
pub struct Clerk {
    /// The rules in force.
    pub rules: Rules,
    /// Control groups from the command line, needed when rules are reloaded.
    pub groups_asked: Vec<String>,
    /// Channel from the monitor thread.
    pub events: Receiver<Event>,
    /// Channel to the monitor thread.
    pub facts: SyncSender<Fact>,
    /// Wakes the monitor thread.
    pub wake: OwnedFd,
    /// Returns the signals to this process that came since the last call.
    pub signals: Box<dyn FnMut() -> Vec<Signal>>,
    /// The socket for queries.
    pub desk: Option<Desk>,
    /// Writes event lines.
    pub scribe: Scribe,
    /// Publishes metrics.
    pub sink: Sink,
    /// Whether Erlang nodes are queried before they are ended.
    pub beam: bool,
    /// Whether this is a dry run.
    pub is_dry: bool,
}

/// In place of the number of a watch, for messages about the guard itself.
const GUARD: usize = usize::MAX;

/// A message about a watch.
type Note = (usize, String);

/// A query that the monitor thread works on, and the answers so far.
struct Asked {
    question: Question,
    answers: Vec<Why>,
    since: Instant,
}

/// State of the slow path.
struct State {
    groups: Groups,
    metrics: Metrics,
    spotter: Spotter,
    /// Absent if the kernel does not provide what the search needs.
    seeker: Option<Seeker>,
    /// Capacity of the last table sent to the monitor; `usize::MAX` if it cannot grow further.
    room: usize,
    /// What each watch has slowed down.
    brakes: BTreeMap<usize, Brake>,
    asked: Option<Asked>,
    /// Time when the last query was forwarded.
    answered: Option<Instant>,
    /// Channel to the thread that measures shared memory, which may take long.
    closer: SyncSender<(u32, u64)>,
    /// Messages of the threads that query nodes.
    notes: Receiver<Note>,
    noting: SyncSender<Note>,
    /// Nodes that were queried, and when.
    nodes: Vec<(u32, Instant)>,
    /// Number of queries of nodes under way.
    asking: Arc<AtomicUsize>,
    /// Watches that cannot be read.
    blind: BTreeSet<usize>,
    /// Number of the rules in force.
    rules: u32,
    /// Names of the watches in the rules before.
    former: Vec<String>,
    /// Processes in the watched groups at the last reading.
    members: BTreeMap<usize, BTreeSet<u32>>,
    is_over: bool,
    started: Instant,
}

impl Clerk {
    /// Runs until a signal ends it.
    ///
    /// # Errors
    /// [`crate::error::Error::Unavailable`] where control groups cannot be read.
    pub fn run(mut self) -> Result {
        let groups = Groups::new().map_err(crate::error::Error::unavailable)?;
        let names = self.rules.watches.iter().map(|watch| watch.name.clone());
        let (noting, notes) = sync_channel(16);
        let closer = self.closer().map_err(crate::error::Error::unavailable)?;
        let wake = self.wake.try_clone().map_err(crate::error::Error::unavailable)?;
        let seeker = Seeker::begin(self.facts.clone(), wake).ok();
        let mut state = State {
            groups,
            metrics: Metrics::new(names),
            spotter: Spotter::default(),
            seeker,
            room: 0,
            brakes: BTreeMap::new(),
            asked: None,
            answered: None,
            closer,
            notes,
            noting,
            nodes: Vec::new(),
            asking: Arc::default(),
            blind: BTreeSet::new(),
            rules: 0,
            former: Vec::new(),
            members: BTreeMap::new(),
            is_over: false,
            started: Instant::now(),
        };
        // The first metrics are published as soon as there are any.
        let mut shown: Option<Instant> = None;
        while !state.is_over {
            match self.events.recv_timeout(IDLE) {
                Ok(event) => self.take(&mut state, &event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.attend(&mut state);
            if shown.is_none_or(|shown| shown.elapsed() >= self.sink.every()) {
                shown = self.sink.put(&state.metrics).then(Instant::now);
            }
        }
        self.release_all(&mut state);
        self.send(Fact::Stop);
        self.scribe.end();
        Ok(())
    }

    /// Starts a thread that reports to the monitor how much memory processes share with others. It may block
    /// on the `mmap_lock` of a process. No other thread waits for it.
    fn closer(&self) -> std::io::Result<SyncSender<(u32, u64)>> {
        let (sender, asked) = sync_channel::<(u32, u64)>(8);
        let facts = self.facts.clone();
        let look = move || {
            for (pid, start) in asked {
                if let Some(kib) = memory_use::shared(Path::new("/"), pid).filter(|_| is_same(pid, start)) {
                    let _ = facts.try_send(Fact::Shared { pid, start, kib });
                }
            }
        };
        thread::Builder::new().name("closer".to_owned()).spawn(look)?;
        Ok(sender)
    }

    /// Handles signals, queries and notes.
    fn attend(&mut self, state: &mut State) {
        for signal in (self.signals)() {
            match signal {
                Signal::HUP => {
                    self.scribe.reopen();
                    self.reload(state);
                }
                _ => state.is_over = true,
            }
        }
        while let Ok((watch, note)) = state.notes.try_recv() {
            self.say(state, watch, Kind::Note, |line| line.note = note);
        }
        // A lost answer must not block all later queries.
        state.asked.take_if(|asked| asked.since.elapsed() > PATIENCE);
        if state.asked.is_none()
            && state.answered.is_none_or(|answered| answered.elapsed() >= QUESTIONS)
            && let Some(question) = self.desk.as_ref().and_then(Desk::next)
        {
            // This makes sure that the watches of the process are known.
            if let Some(start) = tasks::start_time(question.pid) {
                self.identify(state, question.pid, start);
            }
            self.pass(Fact::Why(question.pid));
            state.answered = Some(Instant::now());
            state.asked = Some(Asked { question, answers: Vec::new(), since: Instant::now() });
        }
    }

    fn pass(&self, fact: Fact) {
        if self.facts.try_send(fact).is_ok() {
            let _ = write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// As [`Self::pass`], but blocks until the channel has free capacity.
    fn send(&self, fact: Fact) {
        if self.facts.send(fact).is_ok() {
            let _ = write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Loads the rules again. Keeps the old ones if the new ones are invalid.
    fn reload(&mut self, state: &mut State) {
        let loaded = Rules::load(self.rules.path.as_deref(), &self.groups_asked);
        let opened = loaded.and_then(|rules| {
            let (plan, notes) = Plan::open(&rules).map_err(crate::error::Error::unavailable)?;
            Ok((rules, plan, notes))
        });
        match opened {
            Ok((rules, plan, notes)) => {
                let names = rules.watches.iter().map(|watch| watch.name.clone());
                state.metrics = state.metrics.renewed(names);
                self.release_all(state);
                let former = std::mem::replace(&mut self.rules, rules);
                self.begin(state, plan, &former);
                for note in notes.into_iter().chain(["the new rules apply from now on".to_owned()]) {
                    self.say(state, GUARD, Kind::Note, |line| line.note = note);
                }
            }
            Err(failure) => {
                let note = format!("the old rules still count: {failure}");
                self.say(state, GUARD, Kind::Note, |line| line.note = note);
            }
        }
    }

    fn take(&mut self, state: &mut State, event: &Event) {
        let watch = event.watch;
        let is_former = event.rules != state.rules;
        match event.what {
            // These events belong to rules that are no longer in force. The monitor sends them again for the
            // new ones.
            What::Look { .. } | What::Answer(_) | What::Blind | What::Sighted if is_former => {}
            What::Look { processes, survey_ns } => {
                (state.metrics.processes, state.metrics.survey_seconds) = (processes, survey_ns as f64 / 1e9);
                state.metrics.look(watch, event.reading, event.told);
                self.follow(state, watch);
                if watch == 0 {
                    let is_calm = event.told.stage == Stage::Calm;
                    state.spotter.look(is_calm);
                    if let Some(seeker) = state.seeker.as_ref().filter(|_| is_calm) {
                        seeker.look(true);
                    }
                }
            }
            What::Identify { pid, start } => self.identify(state, pid, start),
            What::Share { pid, start } => {
                let _ = state.closer.try_send((pid, start));
            }
            What::SeekHolders => match &state.seeker {
                Some(seeker) => seeker.look(false),
                None => self.pass(Fact::NoHoldings),
            },
            What::LeftOut(count) => self.make_room(state, event, count),
            What::Answer(answer) => self.answer(state, event, &answer),
            What::Blind => {
                state.blind.insert(watch);
                self.note(state, event, "cannot be read: there is no such group, or it has no limit");
            }
            What::Sighted => {
                state.blind.remove(&watch);
                self.note(state, event, "can be read");
            }
            _ => self.line_of(state, event),
        }
    }

    /// Reports to the monitor which processes have entered or left a watched group. Opens the group again if
    /// it was created anew.
    fn follow(&mut self, state: &mut State, watch: usize) {
        let Some(Of::Group { folder, mount }) = self.rules.watches.get(watch).map(|watch| &watch.of) else {
            return;
        };
        if state.blind.contains(&watch) {
            // The open files belong to a removed group of the same name.
            let room = GroupRoom::open(folder, mount);
            if room.is_ok_and(|mut room| room.read(0).is_some()) {
                self.say(state, watch, Kind::Note, |line| "can be read".clone_into(&mut line.note));
                self.open_again(state);
            }
            return;
        }
        let members = members(folder);
        let before = state.members.insert(watch, members.clone()).unwrap_or_default();
        for pid in members.symmetric_difference(&before) {
            if let Some(start) = tasks::start_time(*pid) {
                self.identify(state, *pid, start);
            }
        }
    }

    /// Opens everything that is watched again, with the same rules.
    fn open_again(&mut self, state: &mut State) {
        if let Ok((plan, _)) = Plan::open(&self.rules) {
            self.begin(state, plan, &self.rules);
        }
    }

    /// Puts our rules in force in the monitor.
    fn begin(&self, state: &mut State, mut plan: Plan, former: &Rules) {
        state.rules += 1;
        plan.number = state.rules;
        state.former = former.watches.iter().map(|watch| watch.name.clone()).collect();
        state.blind.clear();
        state.members.clear();
        self.send(Fact::Rules(Box::new(plan)));
    }

    fn identify(&mut self, state: &mut State, pid: u32, start: u64) {
        let Some(found) = state.groups.identify(pid, start, &self.rules) else { return };
        self.pass(found.fact(pid, start));
    }

    fn release_all(&mut self, state: &mut State) {
        while let Some((&watch, _)) = state.brakes.first_key_value() {
            self.release(state, watch);
        }
    }

    fn release(&mut self, state: &mut State, watch: usize) {
        let Some(mut brake) = state.brakes.remove(&watch) else { return };
        for note in brake.release() {
            self.say(state, watch, Kind::Release, |line| line.note = note);
        }
    }

    fn answer(&mut self, state: &mut State, event: &Event, answer: &crate::event::Answer) {
        let Some(Asked { question, mut answers, since }) = state.asked.take() else { return };
        answers.push(why(
            &mut state.groups,
            &self.rules,
            question.pid,
            event,
            answer,
            state.started.elapsed(),
        ));
        if answers.len() == self.rules.watches.len() {
            question.answer(&answers);
        } else {
            state.asked = Some(Asked { question, answers, since });
        }
    }
}

/// Returns the processes of a control group and of all groups below it.
fn members(folder: &Path) -> BTreeSet<u32> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut all: BTreeSet<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(members(&entry.path()));
    }
    all
}
