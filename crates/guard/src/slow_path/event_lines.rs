//! Turns events into lines, and does what goes with them.

use crate::decision::{
    assessment::{Assessment, MemoryReading},
    cause::{CauseFinding, FamilyKey, Suspect},
    event_line::{EVENT_SCHEMA, EventKind, EventLine},
    memory_objects,
};
use crate::slow_path::{
    SlowPath, SlowPathState,
    details::{cause_details, node, reap, stuck_reason},
};
use crate::{
    event::{EventDetail, MonitorEvent, SignalSent, SlowPathMessage},
    monitor::TableSpace,
    rules::SlowdownMethod,
};
use manycore_linux::clock::utc;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Number of nodes that are queried at the same time.
const MAX_NODE_QUERIES: usize = 4;

impl SlowPath {
    /// Reports an event.
    pub(super) fn report_event(&mut self, state: &mut SlowPathState, event: &MonitorEvent) {
        match event.what {
            EventDetail::Warn(finding) => self.warn(state, event, &finding),
            EventDetail::Sent(sent) => self.sent(state, event, &sent),
            EventDetail::Exited { suspect, family, after_ns } => {
                self.write_line(state, event, EventKind::Exited, Some((&suspect, family)), |line| {
                    line.after_ms = Some(after_ns as f64 / 1e6);
                });
            }
            EventDetail::Stuck(suspect, family) => {
                let reading = suspect.process.reading;
                reap(reading.pid, reading.start);
                let why = stuck_reason(reading.pid);
                self.write_line(state, event, EventKind::Stuck, Some((&suspect, family)), |line| {
                    line.note = why;
                });
            }
            EventDetail::LeftRunning(suspect, family) => {
                self.write_line(state, event, EventKind::LeftRunning, Some((&suspect, family)), |_| {});
            }
            EventDetail::Refused(suspect, number) => {
                let error = io::Error::from_raw_os_error(number);
                self.write_line(state, event, EventKind::Refused, Some((&suspect, None)), |line| {
                    line.note = error.to_string();
                });
            }
            EventDetail::NoCause => self.write_line(state, event, EventKind::NoCause, None, |_| {}),
            EventDetail::Files(bytes) => {
                let files = state.mount_tracker.files(bytes);
                self.write_line(state, event, EventKind::Files, None, |line| line.files = Some(files));
            }
            EventDetail::Over => {
                self.release(state, event.watch);
                self.write_line(state, event, EventKind::Over, None, |_| {});
            }
            EventDetail::CannotOpen(number) => {
                let error = io::Error::from_raw_os_error(number);
                self.note(state, event, &format!("no process can be ended: pidfd_open(2) fails: {error}"));
            }
            EventDetail::Reading { .. }
            | EventDetail::Identify { .. }
            | EventDetail::SharedSize { .. }
            | EventDetail::SeekHolders
            | EventDetail::Dropped(_)
            | EventDetail::Answer(_)
            | EventDetail::Unreadable
            | EventDetail::Readable => {}
        }
    }

    pub(super) fn note(&mut self, state: &mut SlowPathState, event: &MonitorEvent, text: &str) {
        self.write_line(state, event, EventKind::Note, None, |line| text.clone_into(&mut line.note));
    }

    /// Reports a warning, slows the cause down and queries nodes.
    fn warn(&mut self, state: &mut SlowPathState, event: &MonitorEvent, finding: &CauseFinding) {
        let suspect = finding.suspect();
        let files = match *finding {
            CauseFinding::Files(bytes) => Some(state.mount_tracker.files(bytes)),
            _ => None,
        };
        let who = suspect.as_ref().map(|(suspect, family)| (suspect, *family));
        self.write_line(state, event, EventKind::Warn, who, |line| line.files = files);
        let Some((suspect, _)) = suspect.filter(|_| event.rules == state.rules) else { return };
        let slow = self.rules.watches.get(event.watch).map(|watch| watch.slow).unwrap_or_default();
        let pid = suspect.process.reading.pid;
        let slow = if self.is_dry { SlowdownMethod::No } else { slow };
        let slowdown = state.slowdowns.entry(event.watch).or_default();
        let assessment = slowdown.slow(slow, pid, &state.groups, &self.rules);
        match assessment {
            Some(Ok(note)) => {
                self.write_line(state, event, EventKind::Slow, Some((&suspect, None)), |line| {
                    line.note = note;
                });
            }
            Some(Err(note)) => self.note(state, event, &note),
            None => {}
        }
        self.query_node(state, event.watch, &suspect);
    }

    fn sent(&mut self, state: &mut SlowPathState, event: &MonitorEvent, sent: &SignalSent) {
        // A frozen process could not exit.
        self.release(state, event.watch);
        let kind = if sent.is_kill { EventKind::Kill } else { EventKind::Term };
        let held = &sent.suspect.process.held;
        let is_writer = held.kind == memory_objects::ObjectKind::File
            && held.growth_kib > 0
            && sent.last_resort_score.is_none();
        let files = is_writer.then(|| state.mount_tracker.files(sent.suspect.growth));
        self.write_line(state, event, kind, Some((&sent.suspect, sent.family)), |line| {
            line.after_ms = Some(sent.after_ns as f64 / 1e6);
            line.files = files;
            if let Some(score) = sent.last_resort_score {
                line.note = format!(
                    "last resort: no process is shown to have taken the memory, and this one has the \
                    highest oom_score ({score}) of all eligible processes"
                );
            } else if sent.had_term {
                line.note.push_str("it was sent SIGTERM and has not exited in time");
            }
        });
        if !sent.is_kill {
            self.query_node(state, event.watch, &sent.suspect);
        }
    }

    /// Queries an Erlang node for its largest process in a thread of its own, at most once a minute.
    fn query_node(&self, state: &mut SlowPathState, watch: usize, suspect: &Suspect) {
        let reading = suspect.process.reading;
        if !self.queries_erlang || !reading.name.as_bytes().starts_with(b"beam") {
            return;
        }
        state.nodes.retain(|(_, pending)| pending.elapsed() < Duration::from_mins(1));
        if state.nodes.iter().any(|(pid, _)| *pid == reading.pid) {
            return;
        }
        // A node whose file system or memory blocks the query holds up one thread, and at most this many.
        let queries_under_way = Arc::clone(&state.queries_under_way);
        if queries_under_way.fetch_add(1, Ordering::Relaxed) >= MAX_NODE_QUERIES {
            queries_under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        state.nodes.push((reading.pid, Instant::now()));
        let notes = state.note_sender.clone();
        let ask = move || {
            notes.try_send((watch, node(reading.pid)));
            queries_under_way.fetch_sub(1, Ordering::Relaxed);
        };
        let _ = thread::Builder::new().name("erlang-node".to_owned()).spawn(ask);
    }

    /// Sends the monitor a larger table, unless it cannot grow further.
    pub(super) fn grow_table(&mut self, state: &mut SlowPathState, event: &MonitorEvent, left_out: usize) {
        let space = TableSpace::allocate();
        let capacity = space.capacity();
        if capacity > state.table_capacity {
            state.table_capacity = capacity;
            self.messages.try_send(SlowPathMessage::Space(Box::new(space)));
            self.note(
                state,
                event,
                &format!(
                    "the process table grows to {capacity} entries because {left_out} processes did not fit"
                ),
            );
        } else if state.table_capacity != usize::MAX {
            state.table_capacity = usize::MAX;
            let text = format!(
                "{left_out} processes do not fit into the process table: the smallest are not tracked"
            );
            self.note(state, event, &text);
        }
    }

    pub(super) fn report_note(
        &mut self,
        state: &mut SlowPathState,
        watch: usize,
        kind: EventKind,
        fill: impl FnOnce(&mut EventLine),
    ) {
        let event = MonitorEvent {
            rules: state.rules,
            watch,
            reading: MemoryReading::default(),
            assessment: Assessment::default(),
            what: EventDetail::Over,
        };
        self.write_line(state, &event, kind, None, fill);
    }

    fn write_line(
        &mut self,
        state: &mut SlowPathState,
        event: &MonitorEvent,
        kind: EventKind,
        who: Option<(&Suspect, Option<FamilyKey>)>,
        fill: impl FnOnce(&mut EventLine),
    ) {
        let is_read = event.reading.total_bytes > 0;
        let is_former = event.rules != state.rules;
        let name = match state.former.get(event.watch).filter(|_| is_former) {
            Some(name) => name,
            None => self.rules.watches.get(event.watch).map_or("guard", |watch| watch.name.as_str()),
        };
        let mut line = EventLine {
            schema: EVENT_SCHEMA.to_owned(),
            at: utc(),
            watch: name.to_owned(),
            event: kind,
            dry_run: self.is_dry,
            reading: is_read.then_some(event.reading),
            assessment: is_read.then_some(event.assessment),
            cause: who.map(|(suspect, family)| {
                cause_details(&mut state.groups, &self.rules, suspect, family, event.reading.at_ns)
            }),
            files: None,
            after_ms: None,
            note: String::new(),
        };
        fill(&mut line);
        let bytes = line.cause.as_ref().map_or(0, |cause| cause.bytes);
        if !line.dry_run && !is_former {
            state.metrics.count(event.watch, kind, bytes, line.after_ms.map(|ms| ms / 1e3));
        }
        self.sink.publish(&state.metrics);
        self.event_log.write(line);
    }
}
