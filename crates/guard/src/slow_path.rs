//! The slow path of the guard, everything that may take time: names, files in memory, event lines, metrics,
//! queries, new rules.

mod details;
mod event_lines;
mod event_log;
mod holder_search;
mod mounts;
mod rules_in_force;
mod slowdown;

pub use details::outlook;
pub use event_log::EventLog;
pub use holder_search::scan_memory_objects;

use crate::decision::{
    assessment::Stage,
    event_line::{EventKind, ProcessOutlook},
};
use crate::error::{Error, Result};
use crate::{
    event::{EventDetail, MonitorEvent, SlowPathMessage},
    groups::Groups,
    metrics::{Metrics, Sink},
    query::{Query, QuerySocket},
    rules::Rules,
    run::GuardSignals,
};
use details::is_same;
use holder_search::HolderSearch;
use manycore_linux::wake_channel::{Sender, WakeUp, channel};
use manycore_linux::{process_reader, tasks};
use mounts::MountTracker;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
};
use slowdown::Slowdown;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::AtomicUsize,
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Least time between two queries: each makes the monitor survey all processes, and any user may send one.
const MIN_QUERY_INTERVAL: Duration = Duration::from_millis(250);

/// What the slow path works with.
pub struct SlowPath {
    /// The rules in force.
    pub rules: Rules,
    /// Control groups from the command line, needed when rules are reloaded.
    pub extra_cgroups: Vec<String>,
    /// Channel from the monitor thread.
    pub events: Receiver<MonitorEvent>,
    /// Channel to the monitor thread.
    pub messages: Sender<SlowPathMessage>,
    /// Wakes the slow path: all channels to it share this.
    pub wake_up: WakeUp,
    /// The signals sent to the guard.
    pub signals: Box<dyn GuardSignals>,
    /// The socket for queries.
    pub query_socket: Option<QuerySocket>,
    /// Writes event lines.
    pub event_log: EventLog,
    /// Publishes metrics.
    pub sink: Sink,
    /// Whether Erlang nodes are queried before they are ended.
    pub queries_erlang: bool,
    /// Whether this is a dry run.
    pub is_dry: bool,
}

/// Number of notes that may wait.
const MAX_NOTES: usize = 16;

/// In place of the number of a watch, for messages about the guard itself.
const GUARD: usize = usize::MAX;

/// A message about a watch.
type Note = (usize, String);

/// A query that the monitor thread works on, and the answers so far.
struct PendingQuery {
    query: Query,
    answers: Vec<ProcessOutlook>,
    since: Instant,
}

/// State of the slow path.
pub struct SlowPathState {
    groups: Groups,
    metrics: Metrics,
    mount_tracker: MountTracker,
    /// Absent if the kernel does not provide what the search needs.
    holder_search: Option<HolderSearch>,
    /// Capacity of the last table sent to the monitor; `usize::MAX` if it cannot grow further.
    table_capacity: usize,
    /// What each watch has slowed down.
    slowdowns: BTreeMap<usize, Slowdown>,
    pending: Option<PendingQuery>,
    /// Time when the last query was forwarded.
    last_query: Option<Instant>,
    /// Channel to the thread that measures shared memory, which may take long.
    shared_requests: SyncSender<(u32, u64)>,
    /// Messages of the threads that query nodes.
    notes: Receiver<Note>,
    note_sender: Sender<Note>,
    /// Nodes that were queried, and when.
    nodes: Vec<(u32, Instant)>,
    /// Number of queries of nodes under way.
    queries_under_way: Arc<AtomicUsize>,
    /// Watches that cannot be read.
    unreadable: BTreeSet<usize>,
    /// Number of the rules in force.
    rules: u32,
    /// Names of the watches in the rules before.
    former: Vec<String>,
    /// Processes in the watched groups at the last reading.
    members: BTreeMap<usize, BTreeSet<u32>>,
    is_over: bool,
    started: Instant,
}

impl SlowPath {
    /// Starts the threads that work for the slow path.
    ///
    /// # Errors
    /// [`Error::System`] if control groups cannot be read, or a thread cannot be started.
    pub fn start(&self) -> Result<SlowPathState> {
        let groups = Groups::new().map_err(Error::system("cannot start the slow path"))?;
        let names = self.rules.watches.iter().map(|watch| watch.name.clone());
        let (note_sender, notes) = channel(MAX_NOTES, &self.wake_up);
        let shared_requests =
            self.start_shared_size_thread().map_err(Error::system("cannot start the slow path"))?;
        let holder_search = HolderSearch::start(self.messages.clone()).ok();
        Ok(SlowPathState {
            groups,
            metrics: Metrics::new(names),
            mount_tracker: MountTracker::default(),
            holder_search,
            table_capacity: 0,
            slowdowns: BTreeMap::new(),
            pending: None,
            last_query: None,
            shared_requests,
            notes,
            note_sender,
            nodes: Vec::new(),
            queries_under_way: Arc::default(),
            unreadable: BTreeSet::new(),
            rules: 0,
            former: Vec::new(),
            members: BTreeMap::new(),
            is_over: false,
            started: Instant::now(),
        })
    }

    /// Runs until a signal ends it.
    pub fn run(mut self, mut state: SlowPathState) {
        // The first metrics are published as soon as there are any.
        let mut shown: Option<Instant> = None;
        while !state.is_over {
            match self.events.try_recv() {
                Ok(event) => self.handle_event(&mut state, &event),
                Err(TryRecvError::Empty) => self.wait(&state, shown),
                Err(TryRecvError::Disconnected) => break,
            }
            self.handle_requests(&mut state);
            if shown.is_none_or(|shown| shown.elapsed() >= self.sink.interval()) {
                shown = self.sink.publish(&state.metrics).then(Instant::now);
            }
        }
        self.release_all(&mut state);
        self.messages.send(SlowPathMessage::Stop);
        self.event_log.end();
    }

    /// Waits for an event, a signal, a query or a note, but not beyond the time at which a query or the metrics are
    /// due.
    fn wait(&self, state: &SlowPathState, shown: Option<Instant>) {
        let is_queried = state.pending.is_some()
            || state.last_query.is_some_and(|last_query| last_query.elapsed() < MIN_QUERY_INTERVAL);
        let query = is_queried.then_some(MIN_QUERY_INTERVAL);
        let metrics = shown.filter(|_| self.sink.is_some());
        let metrics = metrics.map(|shown| self.sink.interval().saturating_sub(shown.elapsed()));
        let longest = query.into_iter().chain(metrics).min();
        let longest = longest
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        let signals = self.signals.as_fd();
        let mut all =
            [PollFd::new(&self.wake_up, PollFlags::IN), PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let _ = poll(&mut all, longest.as_ref());
        self.wake_up.clear();
    }

    /// Starts a thread that reports to the monitor how much memory processes share with others. It may block
    /// on the `mmap_lock` of a process. No other thread waits for it.
    fn start_shared_size_thread(&self) -> std::io::Result<SyncSender<(u32, u64)>> {
        let (sender, pending) = sync_channel::<(u32, u64)>(8);
        let messages = self.messages.clone();
        let look = move || {
            for (pid, start) in pending {
                if let Some(kib) =
                    process_reader::read_shared_kib(Path::new("/"), pid).filter(|_| is_same(pid, start))
                {
                    messages.try_send(SlowPathMessage::Shared { pid, start, kib });
                }
            }
        };
        thread::Builder::new().name("shared-memory".to_owned()).spawn(look)?;
        Ok(sender)
    }

    /// Handles signals, queries and notes.
    fn handle_requests(&mut self, state: &mut SlowPathState) {
        for signal in self.signals.take() {
            match signal {
                Signal::HUP => {
                    self.event_log.reopen();
                    self.reload(state);
                }
                _ => state.is_over = true,
            }
        }
        while let Ok((watch, note)) = state.notes.try_recv() {
            self.report_note(state, watch, EventKind::Note, |line| line.note = note);
        }
        // A lost answer must not block all later queries.
        state.pending.take_if(|pending| pending.since.elapsed() > TIMEOUT);
        if state.pending.is_none()
            && state.last_query.is_none_or(|last_query| last_query.elapsed() >= MIN_QUERY_INTERVAL)
            && let Some(query) = self.query_socket.as_ref().and_then(QuerySocket::next)
        {
            // This makes sure that the watches of the process are known.
            if let Some(start) = tasks::start_time(query.pid) {
                self.identify(state, query.pid, start);
            }
            self.messages.try_send(SlowPathMessage::Query(query.pid));
            state.last_query = Some(Instant::now());
            state.pending = Some(PendingQuery { query, answers: Vec::new(), since: Instant::now() });
        }
    }

    fn handle_event(&mut self, state: &mut SlowPathState, event: &MonitorEvent) {
        let watch = event.watch;
        let is_former = event.rules != state.rules;
        match event.what {
            // These events belong to rules that are no longer in force. The monitor sends them again for the
            // new ones.
            EventDetail::Reading { .. }
            | EventDetail::Answer(_)
            | EventDetail::Unreadable
            | EventDetail::Readable
                if is_former => {}
            EventDetail::Reading { processes, survey_ns } => {
                (state.metrics.processes, state.metrics.survey_seconds) = (processes, survey_ns as f64 / 1e9);
                state.metrics.set_reading(watch, event.reading, event.assessment);
                self.report_membership(state, watch);
                if watch == 0 {
                    let is_calm = event.assessment.stage == Stage::Calm;
                    state.mount_tracker.record(is_calm);
                    if let (true, Some(search), Some(rule)) =
                        (is_calm, &mut state.holder_search, self.rules.watches.first())
                    {
                        search.request_baseline(&event.reading, &rule.limits);
                    }
                }
            }
            EventDetail::Identify { pid, start } => self.identify(state, pid, start),
            EventDetail::SharedSize { pid, start } => {
                let _ = state.shared_requests.try_send((pid, start));
            }
            EventDetail::SeekHolders => match &state.holder_search {
                Some(holder_search) => holder_search.request(),
                None => {
                    self.messages.try_send(SlowPathMessage::NoSearch);
                }
            },
            EventDetail::Dropped(count) => self.grow_table(state, event, count),
            EventDetail::Answer(answer) => self.answer(state, event, &answer),
            EventDetail::Unreadable => {
                state.unreadable.insert(watch);
                self.note(state, event, "cannot be read: there is no such group, or it has no limit");
            }
            EventDetail::Readable => {
                state.unreadable.remove(&watch);
                self.note(state, event, "can be read");
            }
            _ => self.report_event(state, event),
        }
    }

    fn identify(&mut self, state: &mut SlowPathState, pid: u32, start: u64) {
        let Some(found) = state.groups.identify(pid, start, &self.rules) else { return };
        self.messages.try_send(found.message(pid, start));
    }

    fn release_all(&mut self, state: &mut SlowPathState) {
        while let Some((&watch, _)) = state.slowdowns.first_key_value() {
            self.release(state, watch);
        }
    }

    fn release(&mut self, state: &mut SlowPathState, watch: usize) {
        let Some(mut slowdown) = state.slowdowns.remove(&watch) else { return };
        for note in slowdown.release() {
            self.report_note(state, watch, EventKind::Release, |line| line.note = note);
        }
    }

    fn answer(
        &mut self,
        state: &mut SlowPathState,
        event: &MonitorEvent,
        answer: &crate::event::QueryAnswer,
    ) {
        let Some(PendingQuery { query, mut answers, since }) = state.pending.take() else { return };
        answers.push(outlook(
            &mut state.groups,
            &self.rules,
            query.pid,
            event,
            answer,
            state.started.elapsed(),
        ));
        if answers.len() == self.rules.watches.len() {
            query.answer(&answers);
        } else {
            state.pending = Some(PendingQuery { query, answers, since });
        }
    }
}
