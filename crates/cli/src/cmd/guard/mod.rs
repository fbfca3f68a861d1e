//! The verb `manycore guard`.

mod check;
mod why;

use crate::{
    cli::{Format, Guard, GuardVerb},
    failure::{Failure, Outcome},
    output,
    signals::{ENDS, Signals},
};
use manycore_guard::{
    clerk::{Clerk, Scribe},
    console::Console,
    metrics::Sink,
    question::Desk,
    rules::Rules,
    watcher::{Means, Plan, QUEUE, Watcher},
};
use manycore_linux::{line_file::LineFile, memory_lock, realtime, sd_notify::ServiceManager};
use rustix::{
    event::{EventfdFlags, eventfd},
    process::getuid,
};
use std::{sync::mpsc::sync_channel, thread};

/// Runs the guard or one of its subcommands.
///
/// # Errors
/// [`Failure::Input`] for invalid rules, [`Failure::Missing`] for missing privileges or files.
pub fn run(args: &Guard) -> Outcome {
    match &args.verb {
        None => keep(args),
        Some(GuardVerb::Check(args)) => check::run(args),
        Some(GuardVerb::Why(args)) => why::run(args),
    }
}

/// The guard's lines on standard output and standard error. A reader that went away, or a full disk, must not end the
/// guard.
struct Streams;

impl Console for Streams {
    fn print(&mut self, text: &str) {
        let _ = output::print(text);
    }

    fn note(&mut self, line: &str) {
        output::note(line);
    }
}

/// Runs the guard until a signal ends it.
fn keep(args: &Guard) -> Outcome {
    let rules = Rules::load(args.config.as_deref(), &args.cgroup)?;
    let (plan, notes) = Plan::open(&rules).map_err(Failure::missing)?;
    let file = args.events.as_deref().map(LineFile::open_trusted).transpose().map_err(Failure::missing)?;
    let sink = Sink::open(args.metrics.as_deref())?;
    if let Some(address) = sink.address() {
        output::note(&format!("manycore: metrics are at http://{address}/metrics"));
    }
    let signals = Signals::catch(&ENDS)?;
    // Several dry runs may run beside each other and beside a guard. The first one answers queries.
    let desk = if args.dry_run { Desk::open(true).ok() } else { Some(Desk::open(false)?) };
    let told = greeting(&rules, args.dry_run);
    let (events_in, events) = sync_channel(QUEUE);
    let (facts_in, facts) = sync_channel(QUEUE);
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(Failure::missing)?;
    let clerk = Clerk {
        rules,
        groups_asked: args.cgroup.clone(),
        events,
        facts: facts_in,
        wake: wake.try_clone().map_err(Failure::missing)?,
        signals: Box::new(move || signals.take()),
        desk,
        scribe: Scribe::begin(args.format == Format::Json, file, Streams).map_err(Failure::missing)?,
        sink,
        beam: args.beam,
        is_dry: args.dry_run,
    };
    let means = Means {
        plan: Box::new(plan),
        is_dry: args.dry_run,
        events: events_in,
        facts,
        wake,
        manager: ServiceManager::of_environment(),
    };
    let mut watcher = Watcher::new(means).map_err(Failure::missing)?;
    watcher.prepare();
    // Little code is needed from here on.
    memory_lock::release_startup_code();
    let residence =
        if args.dry_run { memory_lock::Refusals::default() } else { memory_lock::lock_in_memory() };
    for note in notes.iter().chain(&residence.refused) {
        output::note(&format!("manycore: {note}"));
    }
    output::note(&told);
    let watch = move || {
        realtime::request();
        memory_lock::flush_without_waiting();
        watcher.run();
    };
    let watching =
        thread::Builder::new().name("watcher".to_owned()).spawn(watch).map_err(Failure::missing)?;
    clerk.run()?;
    watching.join().map_err(|_| Failure::missing("the monitoring thread has panicked"))
}

/// Returns the message that is printed when the guard is ready.
fn greeting(rules: &Rules, is_dry: bool) -> String {
    let hint = if getuid().is_root() { "" } else { " (not root: it can end only your own processes)" };
    let names: Vec<&str> = rules.watches.iter().map(|watch| watch.name.as_str()).collect();
    let names = names.join(", ").replacen("machine", "the machine", usize::from(names.contains(&"machine")));
    let mode = if is_dry { "is a dry run: it would protect" } else { "protects" };
    format!("manycore guard {mode} {names} from running out of memory{hint}")
}
