//! Everything of the guard that may take time: names, files in memory, lines, metrics, questions, new rules.

mod about;
mod brake;
mod files;

pub use about::why;

use super::{
    event::{Event, Fact, Sent, What},
    groups::Groups,
    metrics::{Metrics, Sink},
    question::{Desk, Question},
    rules::{Of, Rules, Slow},
    watcher::Plan,
};
use crate::{cli::Format, failure::Outcome, live::History, output, report::guard_text, signals::Signals};
use about::{culprit, is_same, node, reap, stuck};
use brake::Brake;
use files::Spotter;
use manycore_host::{clock::utc, memory_room::GroupRoom, memory_use, tasks};
use manycore_model::guard::{
    choice::{Finding, Kin, Suspect},
    line::{Kind, LINE_SCHEMA, Line, Why},
    stage::{Assessment, Reading, Stage},
};
use rustix::{io::write, process::Signal};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::OwnedFd,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// How often signals and questions are looked for while nothing happens.
const IDLE: Duration = Duration::from_millis(250);

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often figures are handed on.
const FIGURES: Duration = Duration::from_secs(5);

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
    /// Signals to us.
    pub signals: Signals,
    /// Questions.
    pub desk: Option<Desk>,
    /// How lines are printed.
    pub format: Format,
    /// Where lines are kept as JSON.
    pub history: History,
    /// Where figures go.
    pub sink: Sink,
    /// Whether Erlang nodes are asked before they are ended.
    pub beam: bool,
    /// Whether nothing is done.
    pub is_dry: bool,
}

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
    /// What each watch has slowed down.
    brakes: BTreeMap<usize, Brake>,
    asked: Option<Asked>,
    /// Looks at shared memory, which may take long.
    closer: SyncSender<(u32, u64)>,
    /// Notes of threads that ask nodes.
    notes: Receiver<Note>,
    noting: SyncSender<Note>,
    /// Nodes that were asked, and when.
    nodes: Vec<(u32, Instant)>,
    /// Watches that cannot be read.
    blind: BTreeSet<usize>,
    /// Who was in watched groups.
    members: BTreeMap<usize, BTreeSet<u32>>,
    is_over: bool,
    started: Instant,
}

impl Clerk {
    /// Works until a signal ends it.
    ///
    /// # Errors
    /// [`crate::failure::Failure::Missing`] where control groups cannot be read.
    pub fn run(mut self) -> Outcome {
        let groups = Groups::new().map_err(crate::failure::Failure::missing)?;
        let names = self.rules.watches.iter().map(|watch| watch.name.clone());
        let (noting, notes) = sync_channel(16);
        let closer = self.closer().map_err(crate::failure::Failure::missing)?;
        let mut state = State {
            groups,
            metrics: Metrics::new(names),
            spotter: Spotter::default(),
            brakes: BTreeMap::new(),
            asked: None,
            closer,
            notes,
            noting,
            nodes: Vec::new(),
            blind: BTreeSet::new(),
            members: BTreeMap::new(),
            is_over: false,
            started: Instant::now(),
        };
        let mut shown = Instant::now();
        while !state.is_over {
            match self.events.recv_timeout(IDLE) {
                Ok(event) => self.take(&mut state, &event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.attend(&mut state);
            if shown.elapsed() >= FIGURES {
                self.sink.put(&state.metrics);
                shown = Instant::now();
            }
        }
        self.release_all(&mut state);
        self.send(Fact::Stop);
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
        for signal in self.signals.take() {
            match signal {
                Signal::HUP => self.reload(state),
                _ => state.is_over = true,
            }
        }
        while let Ok((watch, note)) = state.notes.try_recv() {
            self.say(state, watch, Kind::Note, |line| line.note = note);
        }
        // One whose answer got lost must not stop all others.
        state.asked.take_if(|asked| asked.since.elapsed() > PATIENCE);
        if state.asked.is_none()
            && let Some(question) = self.desk.as_ref().and_then(Desk::next)
        {
            // So that it is known which watches include it.
            if let Some(start) = tasks::start_time(question.pid) {
                self.identify(state, question.pid, start);
            }
            self.pass(Fact::Why(question.pid));
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
            let (plan, notes) = Plan::open(&rules).map_err(crate::failure::Failure::missing)?;
            Ok((rules, plan, notes))
        });
        match opened {
            Ok((rules, plan, notes)) => {
                state.metrics = Metrics::new(rules.watches.iter().map(|watch| watch.name.clone()));
                self.release_all(state);
                self.rules = rules;
                state.blind.clear();
                state.members.clear();
                self.send(Fact::Rules(Box::new(plan)));
                for note in notes.into_iter().chain(["the new rules count from now on".to_owned()]) {
                    self.say(state, 0, Kind::Note, |line| line.note = note);
                }
            }
            Err(failure) => {
                let note = format!("the old rules still count: {}", failure.message());
                self.say(state, 0, Kind::Note, |line| line.note = note);
            }
        }
    }

    fn take(&mut self, state: &mut State, event: &Event) {
        let watch = event.watch;
        match event.what {
            What::Look { processes, survey_ns } => {
                (state.metrics.processes, state.metrics.survey_seconds) = (processes, survey_ns as f64 / 1e9);
                state.metrics.look(watch, event.reading, event.told);
                self.follow(state, watch);
                if watch == 0 {
                    state.spotter.look(event.told.stage == Stage::Calm);
                }
            }
            What::Identify { pid, start } => self.identify(state, pid, start),
            What::Share { pid, start } => {
                let _ = state.closer.try_send((pid, start));
            }
            What::SeekWriter => self.pass(Fact::Writer(state.spotter.writer())),
            What::Answer(answer) => self.answer(state, event, &answer),
            What::Warn(finding) => self.warn(state, event, &finding),
            What::Sent(sent) => self.sent(state, event, &sent),
            What::Gone { suspect, kin, after_ns } => {
                self.tell(state, event, Kind::Gone, Some((&suspect, kin)), |line| {
                    line.after_ms = Some(after_ns as f64 / 1e6);
                });
            }
            What::Stuck(suspect, kin) => {
                let seen = suspect.process.seen;
                reap(seen.pid, seen.start);
                let why = stuck(seen.pid);
                self.tell(state, event, Kind::Stuck, Some((&suspect, kin)), |line| line.note = why);
            }
            What::Spare(suspect, kin) => self.tell(state, event, Kind::Spare, Some((&suspect, kin)), |_| {}),
            What::Refused(suspect, number) => {
                let error = std::io::Error::from_raw_os_error(number);
                self.tell(state, event, Kind::Refused, Some((&suspect, None)), |line| {
                    line.note = error.to_string();
                });
            }
            What::Nobody => self.tell(state, event, Kind::Nobody, None, |_| {}),
            What::Files(bytes) => {
                let files = state.spotter.files(bytes);
                self.tell(state, event, Kind::Files, None, |line| line.files = Some(files));
            }
            What::Over => {
                self.release(state, watch);
                self.tell(state, event, Kind::Over, None, |_| {});
            }
            What::Blind => {
                state.blind.insert(watch);
                self.note(state, event, "cannot be read: there is no such group, or it has no limit");
            }
            What::Sighted => {
                state.blind.remove(&watch);
                self.note(state, event, "can be read");
            }
            What::Lame(number) => {
                let error = std::io::Error::from_raw_os_error(number);
                self.note(state, event, &format!("nobody can be ended: pidfd_open(2) fails: {error}"));
            }
            What::LeftOut(count) => {
                self.note(
                    state,
                    event,
                    &format!("{count} processes more than there is room for are not followed"),
                );
            }
        }
    }

    fn note(&mut self, state: &mut State, event: &Event, text: &str) {
        self.tell(state, event, Kind::Note, None, |line| text.clone_into(&mut line.note));
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
            state.blind.clear();
            state.members.clear();
            self.send(Fact::Rules(Box::new(plan)));
        }
    }

    fn identify(&mut self, state: &mut State, pid: u32, start: u64) {
        let Some(found) = state.groups.identify(pid, start, &self.rules) else { return };
        self.pass(found.fact(pid, start));
    }

    /// Tells what is coming, slows it down and asks nodes.
    fn warn(&mut self, state: &mut State, event: &Event, finding: &Finding) {
        let suspect = match *finding {
            Finding::Process(suspect) => Some((suspect, None)),
            Finding::Family(suspect, kin) => Some((suspect, Some(kin))),
            Finding::Files(_) | Finding::Nobody => None,
        };
        let files = match *finding {
            Finding::Files(bytes) => Some(state.spotter.files(bytes)),
            _ => None,
        };
        let who = suspect.as_ref().map(|(suspect, kin)| (suspect, *kin));
        self.tell(state, event, Kind::Warn, who, |line| line.files = files);
        let Some((suspect, _)) = suspect else { return };
        let slow = self.rules.watches.get(event.watch).map(|watch| watch.slow).unwrap_or_default();
        let pid = suspect.process.seen.pid;
        let slow = if self.is_dry { Slow::No } else { slow };
        let brake = state.brakes.entry(event.watch).or_default();
        let told = brake.slow(slow, pid, &state.groups, &self.rules);
        match told {
            Some(Ok(note)) => {
                self.tell(state, event, Kind::Slow, Some((&suspect, None)), |line| line.note = note);
            }
            Some(Err(note)) => self.note(state, event, &note),
            None => {}
        }
        self.ask_node(state, event.watch, &suspect);
    }

    fn sent(&mut self, state: &mut State, event: &Event, sent: &Sent) {
        // What is frozen could not end.
        self.release(state, event.watch);
        let kind = if sent.is_kill { Kind::Kill } else { Kind::Term };
        let files = sent.is_writer.then(|| state.spotter.files(sent.suspect.growth));
        self.tell(state, event, kind, Some((&sent.suspect, sent.kin)), |line| {
            line.dry_run = sent.is_dry;
            line.after_ms = Some(sent.after_ns as f64 / 1e6);
            line.files = files;
            if sent.was_asked {
                line.note.push_str("it was asked to end and has not done so in time");
            }
        });
        if !sent.is_kill {
            self.ask_node(state, event.watch, &sent.suspect);
        }
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

    /// Has a thread ask an Erlang node for its heaviest process, once a minute.
    fn ask_node(&self, state: &mut State, watch: usize, suspect: &Suspect) {
        let seen = suspect.process.seen;
        if !self.beam || !seen.name.as_bytes().starts_with(b"beam") {
            return;
        }
        state.nodes.retain(|(_, asked)| asked.elapsed() < Duration::from_mins(1));
        if state.nodes.iter().any(|(pid, _)| *pid == seen.pid) {
            return;
        }
        state.nodes.push((seen.pid, Instant::now()));
        let notes = state.noting.clone();
        let ask = move || {
            let _ = notes.try_send((watch, node(seen.pid)));
        };
        let _ = thread::Builder::new().name("node".to_owned()).spawn(ask);
    }

    fn answer(&mut self, state: &mut State, event: &Event, answer: &super::event::Answer) {
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

    fn say(&mut self, state: &mut State, watch: usize, kind: Kind, fill: impl FnOnce(&mut Line)) {
        let event =
            Event { watch, reading: Reading::default(), told: Assessment::default(), what: What::Over };
        self.tell(state, &event, kind, None, fill);
    }

    fn tell(
        &mut self,
        state: &mut State,
        event: &Event,
        kind: Kind,
        who: Option<(&Suspect, Option<Kin>)>,
        fill: impl FnOnce(&mut Line),
    ) {
        let name = self.rules.watches.get(event.watch).map_or("", |watch| watch.name.as_str());
        let mut line = Line {
            schema: LINE_SCHEMA.to_owned(),
            at: utc(),
            watch: name.to_owned(),
            event: kind,
            dry_run: false,
            reading: event.reading,
            told: event.told,
            culprit: who.map(|(suspect, kin)| {
                culprit(&mut state.groups, &self.rules, suspect, kin, event.reading.at_ns)
            }),
            files: None,
            after_ms: None,
            note: String::new(),
        };
        fill(&mut line);
        let bytes = line.culprit.as_ref().map_or(0, |culprit| culprit.bytes);
        if !line.dry_run {
            state.metrics.count(event.watch, kind, bytes, line.after_ms.map(|ms| ms / 1e3));
        }
        self.sink.put(&state.metrics);
        // A reader that went away, or a full disk, must not end the guard.
        if self.format == Format::Text {
            let _ = output::print(&format!("{}\n", guard_text::line(&line)));
        }
        let _ = self.history.keep(&line, self.format);
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
