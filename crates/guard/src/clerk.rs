//! Everything of the guard that may take time: names, files in memory, lines, metrics, questions, new rules.

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

/// How often signals and questions are looked for while nothing happens.
const IDLE: Duration = Duration::from_millis(500);

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two questions at least: each has the watcher look at all processes, and any user may ask.
const QUESTIONS: Duration = Duration::from_millis(250);

/// What a clerk works with.
pub struct Clerk {
    /// The rules that count.
    pub rules: Rules,
    /// Control groups on the command line, for new rules.
    pub groups_asked: Vec<String>,
    /// From the watcher.
    pub events: Receiver<Event>,
    /// To the watcher.
    pub facts: SyncSender<Fact>,
    /// Wakes the watcher.
    pub wake: OwnedFd,
    /// Returns the signals to this process that came since the last call.
    pub signals: Box<dyn FnMut() -> Vec<Signal>>,
    /// Questions.
    pub desk: Option<Desk>,
    /// Where lines go.
    pub scribe: Scribe,
    /// Where figures go.
    pub sink: Sink,
    /// Whether Erlang nodes are asked before they are ended.
    pub beam: bool,
    /// Whether nothing is done.
    pub is_dry: bool,
}

/// The watch that what is told of the guard itself belongs to: none.
const GUARD: usize = usize::MAX;

/// Something to be told of a watch.
type Note = (usize, String);

/// A question that the watcher works on, and the answers so far.
struct Asked {
    question: Question,
    answers: Vec<Why>,
    since: Instant,
}

/// What it learns meanwhile.
struct State {
    groups: Groups,
    metrics: Metrics,
    spotter: Spotter,
    /// Absent where the kernel does not tell what it takes.
    seeker: Option<Seeker>,
    /// Processes that there was room made for, or as many as there can be.
    room: usize,
    /// What each watch has slowed down.
    brakes: BTreeMap<usize, Brake>,
    asked: Option<Asked>,
    /// When the last question was passed on.
    answered: Option<Instant>,
    /// Looks at shared memory, which may take long.
    closer: SyncSender<(u32, u64)>,
    /// Notes of threads that ask nodes.
    notes: Receiver<Note>,
    noting: SyncSender<Note>,
    /// Nodes that were asked, and when.
    nodes: Vec<(u32, Instant)>,
    /// How many are asked now.
    asking: Arc<AtomicUsize>,
    /// Watches that cannot be read.
    blind: BTreeSet<usize>,
    /// Number of the rules that count.
    rules: u32,
    /// Names of the watches before.
    former: Vec<String>,
    /// Who was in watched groups.
    members: BTreeMap<usize, BTreeSet<u32>>,
    is_over: bool,
    started: Instant,
}

impl Clerk {
    /// Works until a signal ends it.
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
        // The first figures are handed on as soon as there are any.
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

    /// A thread that tells the watcher how much of processes' memory others have too: it may wait for somebody's
    /// `mmap_lock`, and nobody waits for it.
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

    /// Signals, questions, notes.
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
        // One whose answer got lost must not stop all others.
        state.asked.take_if(|asked| asked.since.elapsed() > PATIENCE);
        if state.asked.is_none()
            && state.answered.is_none_or(|answered| answered.elapsed() >= QUESTIONS)
            && let Some(question) = self.desk.as_ref().and_then(Desk::next)
        {
            // So that it is known which watches include it.
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

    /// As [`Self::pass`], and waits until there is room.
    fn send(&self, fact: Fact) {
        if self.facts.send(fact).is_ok() {
            let _ = write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Takes new rules, or keeps the old ones where the new are wrong.
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
                for note in notes.into_iter().chain(["the new rules count from now on".to_owned()]) {
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
            // Of rules that count no more; the new ones tell again.
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

    /// Tells the watcher who has come to a watched group or left it, and opens the group again where it was made anew.
    fn follow(&mut self, state: &mut State, watch: usize) {
        let Some(Of::Group { folder, mount }) = self.rules.watches.get(watch).map(|watch| &watch.of) else {
            return;
        };
        if state.blind.contains(&watch) {
            // What was opened before is that of a group which is gone, though this one has its name.
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

    /// Opens all that is watched anew, by the same rules.
    fn open_again(&mut self, state: &mut State) {
        if let Ok((plan, _)) = Plan::open(&self.rules) {
            self.begin(state, plan, &self.rules);
        }
    }

    /// Has the watcher go by our rules from now on.
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

/// Processes of a control group and those below it.
fn members(folder: &Path) -> BTreeSet<u32> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut all: BTreeSet<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(members(&entry.path()));
    }
    all
}
