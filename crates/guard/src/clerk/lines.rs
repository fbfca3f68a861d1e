//! Turns events into lines, and does what goes with them.

use crate::clerk::{
    Clerk, State,
    about::{culprit, node, reap, stuck},
};
use crate::decision::{
    choice::{Finding, Kin, Suspect},
    holdings,
    line::{Kind, LINE_SCHEMA, Line},
    stage::{Assessment, Reading},
};
use crate::{
    event::{Event, Fact, Sent, What},
    rules::Slow,
    watcher::Room,
};
use manycore_linux::clock::utc;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Number of nodes that are queried at the same time.
const MOST_ASKED: usize = 4;

impl Clerk {
    /// Reports an event.
    pub(super) fn line_of(&mut self, state: &mut State, event: &Event) {
        match event.what {
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
                let error = io::Error::from_raw_os_error(number);
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
                self.release(state, event.watch);
                self.tell(state, event, Kind::Over, None, |_| {});
            }
            What::Lame(number) => {
                let error = io::Error::from_raw_os_error(number);
                self.note(state, event, &format!("no process can be ended: pidfd_open(2) fails: {error}"));
            }
            What::Look { .. }
            | What::Identify { .. }
            | What::Share { .. }
            | What::SeekHolders
            | What::LeftOut(_)
            | What::Answer(_)
            | What::Blind
            | What::Sighted => {}
        }
    }

    pub(super) fn note(&mut self, state: &mut State, event: &Event, text: &str) {
        self.tell(state, event, Kind::Note, None, |line| text.clone_into(&mut line.note));
    }

    /// Reports a warning, slows the cause down and queries nodes.
    fn warn(&mut self, state: &mut State, event: &Event, finding: &Finding) {
        let suspect = finding.suspect();
        let files = match *finding {
            Finding::Files(bytes) => Some(state.spotter.files(bytes)),
            _ => None,
        };
        let who = suspect.as_ref().map(|(suspect, kin)| (suspect, *kin));
        self.tell(state, event, Kind::Warn, who, |line| line.files = files);
        let Some((suspect, _)) = suspect.filter(|_| event.rules == state.rules) else { return };
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
        // A frozen process could not exit.
        self.release(state, event.watch);
        let kind = if sent.is_kill { Kind::Kill } else { Kind::Term };
        let held = &sent.suspect.process.held;
        let is_writer = held.kind == holdings::Kind::File && held.growth_kib > 0 && sent.resort.is_none();
        let files = is_writer.then(|| state.spotter.files(sent.suspect.growth));
        self.tell(state, event, kind, Some((&sent.suspect, sent.kin)), |line| {
            line.after_ms = Some(sent.after_ns as f64 / 1e6);
            line.files = files;
            if let Some(score) = sent.resort {
                line.note = format!(
                    "last resort: no process is shown to have taken the memory, and this one has the \
                    highest oom_score ({score}) of all eligible processes"
                );
            } else if sent.was_asked {
                line.note.push_str("it was sent SIGTERM and has not exited in time");
            }
        });
        if !sent.is_kill {
            self.ask_node(state, event.watch, &sent.suspect);
        }
    }

    /// Queries an Erlang node for its largest process in a thread of its own, at most once a minute.
    fn ask_node(&self, state: &mut State, watch: usize, suspect: &Suspect) {
        let seen = suspect.process.seen;
        if !self.beam || !seen.name.as_bytes().starts_with(b"beam") {
            return;
        }
        state.nodes.retain(|(_, asked)| asked.elapsed() < Duration::from_mins(1));
        if state.nodes.iter().any(|(pid, _)| *pid == seen.pid) {
            return;
        }
        // A node whose file system or memory blocks the query holds up one thread, and at most this many.
        let asking = Arc::clone(&state.asking);
        if asking.fetch_add(1, Ordering::Relaxed) >= MOST_ASKED {
            asking.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        state.nodes.push((seen.pid, Instant::now()));
        let notes = state.noting.clone();
        let ask = move || {
            let _ = notes.try_send((watch, node(seen.pid)));
            asking.fetch_sub(1, Ordering::Relaxed);
        };
        let _ = thread::Builder::new().name("node".to_owned()).spawn(ask);
    }

    /// Sends the monitor a larger table, unless it cannot grow further.
    pub(super) fn make_room(&mut self, state: &mut State, event: &Event, left_out: usize) {
        let room = Room::enough();
        let capacity = room.capacity();
        if capacity > state.room {
            state.room = capacity;
            self.pass(Fact::Room(Box::new(room)));
            self.note(
                state,
                event,
                &format!(
                    "the process table grows to {capacity} entries because {left_out} processes did not fit"
                ),
            );
        } else if state.room != usize::MAX {
            state.room = usize::MAX;
            let text = format!(
                "{left_out} processes do not fit into the process table: the smallest are not tracked"
            );
            self.note(state, event, &text);
        }
    }

    pub(super) fn say(&mut self, state: &mut State, watch: usize, kind: Kind, fill: impl FnOnce(&mut Line)) {
        let event = Event {
            rules: state.rules,
            watch,
            reading: Reading::default(),
            told: Assessment::default(),
            what: What::Over,
        };
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
        let is_read = event.reading.total > 0;
        let is_former = event.rules != state.rules;
        let name = match state.former.get(event.watch).filter(|_| is_former) {
            Some(name) => name,
            None => self.rules.watches.get(event.watch).map_or("guard", |watch| watch.name.as_str()),
        };
        let mut line = Line {
            schema: LINE_SCHEMA.to_owned(),
            at: utc(),
            watch: name.to_owned(),
            event: kind,
            dry_run: self.is_dry,
            reading: is_read.then_some(event.reading),
            told: is_read.then_some(event.told),
            culprit: who.map(|(suspect, kin)| {
                culprit(&mut state.groups, &self.rules, suspect, kin, event.reading.at_ns)
            }),
            files: None,
            after_ms: None,
            note: String::new(),
        };
        fill(&mut line);
        let bytes = line.culprit.as_ref().map_or(0, |culprit| culprit.bytes);
        if !line.dry_run && !is_former {
            state.metrics.count(event.watch, kind, bytes, line.after_ms.map(|ms| ms / 1e3));
        }
        self.sink.put(&state.metrics);
        self.scribe.write(line);
    }
}
