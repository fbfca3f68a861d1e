//! Runs the guard: opens everything, starts the monitor thread, and works as the slow path until a signal ends
//! it.

use crate::{
    console::Console,
    error::{Error, Result},
    metrics::Sink,
    monitor::{Monitor, MonitorConfig, QUEUE, WatchPlan},
    query::QuerySocket,
    rules::Rules,
    slow_path::{EventLog, SlowPath},
};
use manycore_linux::absent_process::hidden_others;
use manycore_linux::wake_channel::{WakeUp, channel};
use manycore_linux::{allocator, line_file::LineFile, memory_lock, realtime, sd_notify::ServiceManager};
use rustix::process::{Signal, getuid};
use std::{
    os::fd::AsFd,
    path::PathBuf,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

/// What the guard does.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The rules file; if absent, [`crate::rules::DEFAULT_PATH`] if it exists.
    pub rules: Option<PathBuf>,
    /// Control groups to watch in addition to what the rules name.
    pub cgroups: Vec<String>,
    /// Report what would be done, without doing it.
    pub is_dry: bool,
    /// Query Erlang nodes for their largest process before they are ended.
    pub queries_erlang: bool,
    /// File to which each decision is appended as a line of JSON.
    pub event_log: Option<PathBuf>,
    /// Where metrics are published: `ADDRESS:PORT` or a file.
    pub metrics: Option<String>,
    /// Print decisions as JSON.
    pub prints_json: bool,
}

/// Signals that were sent to this process. SIGHUP reloads the rules, any other signal ends the guard. The descriptor
/// becomes readable when a signal arrives.
pub trait GuardSignals: AsFd {
    /// Returns the signals sent since the last call.
    fn take(&self) -> Vec<Signal>;
}

/// Runs the guard until a signal ends it.
///
/// # Errors
/// The rules are invalid, another guard is running, or something cannot be opened.
pub fn run(options: &Options, signals: Box<dyn GuardSignals>, mut console: impl Console + Clone) -> Result {
    // The threads allocate little, and the monitor nothing. One heap takes less memory than one per thread.
    allocator::use_one_heap();
    let rules = Rules::load(options.rules.as_deref(), &options.cgroups)?;
    let (plan, notes) = WatchPlan::open(&rules)?;
    let ready = ready_message(&rules, options.is_dry);
    let (mut monitor, slow_path) = open(options, rules, plan, signals, &mut console)?;
    monitor.spawn_rehearsal_child();
    let state = slow_path.start()?;
    let (begin, monitoring) = start_monitor(monitor)?;
    // Little code is needed from here on: all threads run, and the rules are read.
    memory_lock::release_startup_pages();
    allocator::return_free_memory();
    let refusals =
        if options.is_dry { memory_lock::Refusals::default() } else { memory_lock::lock_in_memory() };
    for note in notes.iter().chain(&refusals.refused).chain(&hidden_others()) {
        console.note(&format!("manycore: {note}"));
    }
    console.note(&ready);
    let _ = begin.send(());
    slow_path.run(state);
    monitoring.join().map_err(|_| Error::MonitorPanicked)
}

/// Opens all files and sockets, and connects the monitor and the slow path.
fn open(
    options: &Options,
    rules: Rules,
    plan: WatchPlan,
    signals: Box<dyn GuardSignals>,
    console: &mut (impl Console + Clone),
) -> Result<(Monitor, SlowPath)> {
    let file = options.event_log.as_deref().map(LineFile::open_trusted).transpose();
    let file = file.map_err(|error| Error::UntrustedFile(error.to_string()))?;
    let sink = Sink::open(options.metrics.as_deref())?;
    if let Some(address) = sink.address() {
        console.note(&format!("manycore: metrics are at http://{address}/metrics"));
    }
    let (wake_monitor, wake_slow_path) = (
        WakeUp::new().map_err(Error::system("cannot create an eventfd"))?,
        WakeUp::new().map_err(Error::system("cannot create an eventfd"))?,
    );
    // Several dry runs may run beside each other and beside a guard. The first one answers queries.
    let query_socket = match QuerySocket::open(options.is_dry, &wake_slow_path) {
        Err(_) if options.is_dry => None,
        socket => Some(socket?),
    };
    let (events_in, events) = channel(QUEUE, &wake_slow_path);
    let (messages_in, messages) = channel(QUEUE, &wake_monitor);
    let monitor = Monitor::new(MonitorConfig {
        plan: Box::new(plan),
        is_dry: options.is_dry,
        has_metrics: sink.is_some(),
        events: events_in,
        messages,
        wake_up: wake_monitor,
        manager: ServiceManager::of_environment(),
    })?;
    let event_log = EventLog::start(options.prints_json, file, console.clone())
        .map_err(Error::system("cannot start a thread"))?;
    let slow_path = SlowPath {
        rules,
        extra_cgroups: options.cgroups.clone(),
        events,
        messages: messages_in,
        wake_up: wake_slow_path,
        signals,
        query_socket,
        event_log,
        sink,
        queries_erlang: options.queries_erlang,
        is_dry: options.is_dry,
    };
    Ok((monitor, slow_path))
}

/// Starts the thread of the monitor, with real-time priority if that is permitted. The monitor runs when it is sent the
/// word to begin.
fn start_monitor(mut monitor: Monitor) -> Result<(SyncSender<()>, JoinHandle<()>)> {
    let (begin, word) = sync_channel(1);
    let watch = move || {
        realtime::request();
        memory_lock::flush_without_waiting();
        if word.recv().is_ok() {
            monitor.run();
        }
    };
    let thread = thread::Builder::new().name("monitor".to_owned()).spawn(watch);
    Ok((begin, thread.map_err(Error::system("cannot start a thread"))?))
}

/// Returns the message that is printed when the guard is ready.
fn ready_message(rules: &Rules, is_dry: bool) -> String {
    let hint = if getuid().is_root() { "" } else { " (not root: it can end only your own processes)" };
    let names: Vec<&str> = rules.watches.iter().map(|watch| watch.name.as_str()).collect();
    let names = names.join(", ").replacen("machine", "the machine", usize::from(names.contains(&"machine")));
    let mode = if is_dry { "is a dry run: it would protect" } else { "protects" };
    format!("manycore guard {mode} {names} from running out of memory{hint}")
}
