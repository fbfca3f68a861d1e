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
use manycore_linux::{allocator, line_file::LineFile, memory_lock, realtime, sd_notify::ServiceManager};
use rustix::{
    event::{EventfdFlags, eventfd},
    process::{Signal, getuid},
};
use std::{
    path::PathBuf,
    sync::mpsc::sync_channel,
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

/// Returns the signals that were sent to this process since the last call. SIGHUP reloads the rules, any other
/// signal ends the guard.
pub type Signals = Box<dyn FnMut() -> Vec<Signal>>;

/// Runs the guard until a signal ends it.
///
/// # Errors
/// The rules are invalid, another guard is running, or something cannot be opened.
pub fn run(options: &Options, signals: Signals, mut console: impl Console + Clone) -> Result {
    // The threads allocate little, and the monitor nothing. One heap takes less memory than one per thread.
    allocator::use_one_heap();
    let rules = Rules::load(options.rules.as_deref(), &options.cgroups)?;
    let (plan, notes) = WatchPlan::open(&rules)?;
    let file = options.event_log.as_deref().map(LineFile::open_trusted).transpose();
    let file = file.map_err(|error| Error::UntrustedFile(error.to_string()))?;
    let sink = Sink::open(options.metrics.as_deref())?;
    if let Some(address) = sink.address() {
        console.note(&format!("manycore: metrics are at http://{address}/metrics"));
    }
    // Several dry runs may run beside each other and beside a guard. The first one answers queries.
    let query_socket =
        if options.is_dry { QuerySocket::open(true).ok() } else { Some(QuerySocket::open(false)?) };
    let ready = ready_message(&rules, options.is_dry);
    let (events_in, events) = sync_channel(QUEUE);
    let (messages_in, messages) = sync_channel(QUEUE);
    let eventfd_error = "cannot create an eventfd";
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .map_err(|errno| Error::system(eventfd_error)(errno.into()))?;
    let mut monitor = Monitor::new(MonitorConfig {
        plan: Box::new(plan),
        is_dry: options.is_dry,
        has_metrics: !matches!(sink, Sink::None),
        events: events_in,
        messages,
        wake: wake.try_clone().map_err(Error::system(eventfd_error))?,
        manager: ServiceManager::of_environment(),
    })?;
    let event_log = EventLog::start(options.prints_json, file, console.clone())
        .map_err(Error::system("cannot start a thread"))?;
    let slow_path = SlowPath {
        rules,
        extra_cgroups: options.cgroups.clone(),
        events,
        messages: messages_in,
        wake,
        signals,
        query_socket,
        event_log,
        sink,
        queries_erlang: options.queries_erlang,
        is_dry: options.is_dry,
    };
    monitor.spawn_rehearsal_child();
    // Little code is needed from here on.
    memory_lock::release_startup_code();
    let refusals =
        if options.is_dry { memory_lock::Refusals::default() } else { memory_lock::lock_in_memory() };
    for note in notes.iter().chain(&refusals.refused) {
        console.note(&format!("manycore: {note}"));
    }
    console.note(&ready);
    let monitoring = start_monitor(monitor)?;
    slow_path.run()?;
    monitoring.join().map_err(|_| Error::MonitorPanicked)
}

/// Runs the monitor in a thread of its own, with real-time priority if that is permitted.
fn start_monitor(mut monitor: Monitor) -> Result<JoinHandle<()>> {
    let watch = move || {
        realtime::request();
        memory_lock::flush_without_waiting();
        monitor.run();
    };
    let name = "monitor".to_owned();
    thread::Builder::new().name(name).spawn(watch).map_err(Error::system("cannot start a thread"))
}

/// Returns the message that is printed when the guard is ready.
fn ready_message(rules: &Rules, is_dry: bool) -> String {
    let hint = if getuid().is_root() { "" } else { " (not root: it can end only your own processes)" };
    let names: Vec<&str> = rules.watches.iter().map(|watch| watch.name.as_str()).collect();
    let names = names.join(", ").replacen("machine", "the machine", usize::from(names.contains(&"machine")));
    let mode = if is_dry { "is a dry run: it would protect" } else { "protects" };
    format!("manycore guard {mode} {names} from running out of memory{hint}")
}
