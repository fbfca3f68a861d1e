//! `manycore trace`: records who runs where.

use crate::{
    cli::Trace,
    failure::{self, Failure, Outcome},
    output,
    signals::{self, Signals},
};
use manycore_linux::{absent_process::AbsentProcess, tasks, whole_file};
use manycore_top::trace::{Recorder, RecorderOptions, Recording, Summary, Timeline, text, write};
use manycore_topology::{SysTree, read};
use rustix::process::{Pid, kill_process};
use std::{
    io::{BufWriter, Write},
    path::Path,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

/// The time between two readings of the kernel's buffer, which is filled by 20 million events a second in that time.
const PAUSE: Duration = Duration::from_millis(10);

/// Records until the command has ended or the time is over, writes the file, and waits for the command.
///
/// # Errors
/// Recording is not possible; the file cannot be written. [`Failure::Status`] with the exit status of the command if that
/// is not 0.
pub fn run(args: &Trace) -> Outcome {
    output::check_file(&args.out)?;
    let signals = Signals::catch(&signals::ALL)?;
    let options = RecorderOptions { all: args.all, most_events: args.most_events };
    let mut recorder = Recorder::start(options).map_err(|error| impossible(&error))?;
    for &pid in &args.pid {
        // A thread has a directory in /proc, too.
        if tasks::process_of(pid) != Some(pid) {
            return Err(Failure::input(AbsentProcess::of(pid)));
        }
        recorder.watch(pid, true).map_err(Failure::missing)?;
    }
    let mut child = (!args.command.is_empty()).then(|| start(&recorder, &args.command)).transpose()?;
    let mut status = None;
    let end = Instant::now() + args.budget;
    while recorder.read() && status.is_none() && Instant::now() < end {
        signals.wait(PAUSE.min(end.saturating_duration_since(Instant::now())))?;
        let came = signals.take_for_command();
        if pass_on(&came, child.as_ref()) {
            break;
        }
        status = child.as_mut().and_then(|child| child.try_wait().ok().flatten());
    }
    let written = recorder.finish().map_err(Failure::missing).and_then(|recording| finish(args, recording));
    match child {
        Some(child) => failure::of_command(wait(child, status, &signals)?, written),
        None => written,
    }
}

/// Says what is missing, and what can be used in its place.
fn impossible(error: &manycore_top::bpf::Error) -> Failure {
    Failure::missing(format!(
        "scheduling events cannot be recorded without BPF: {error}. Without BPF, manycore top shows how long each task \
         waits for a CPU and where it runs, and perf sched record writes events, if perf is installed"
    ))
}

/// Starts the command, which is recorded from its first instruction on, as a child of a process that is.
fn start(recorder: &Recorder, words: &[String]) -> Outcome<Child> {
    let own = std::process::id();
    recorder.watch(own, true).map_err(Failure::missing)?;
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::input("no command"))?;
    let child = Command::new(program).args(arguments).spawn();
    recorder.watch(own, false).map_err(Failure::missing)?;
    child.map_err(|error| Failure::input(format!("{program} cannot be started: {error}")))
}

/// Passes signals on to the command. Returns whether recording ends: by any signal if there is no command.
fn pass_on(came: &[rustix::process::Signal], child: Option<&Child>) -> bool {
    let Some(pid) = child.and_then(|child| Pid::from_raw(child.id() as i32)) else { return !came.is_empty() };
    for &signal in came {
        // It may have ended.
        let _ = kill_process(pid, signal);
    }
    false
}

fn finish(args: &Trace, recording: Recording) -> Outcome {
    let machine = SysTree::open(Path::new("/")).and_then(|tree| read(&tree)).map_err(Failure::missing)?;
    let timeline = Timeline::new(&recording);
    let figures = text(&Summary::new(&timeline, &machine), &recording, &args.out);
    // The file needs the timeline only.
    drop(recording);
    let written = whole_file::write_with(&args.out, |file| {
        let mut to = BufWriter::new(file);
        write(&timeline, &machine, &mut to)?;
        to.flush()
    });
    written.map_err(|error| Failure::missing(format!("cannot write {}: {error}", args.out.display())))?;
    if !args.quiet {
        output::layout_note(figures.trim_end());
    }
    Ok(())
}

fn wait(mut child: Child, status: Option<ExitStatus>, signals: &Signals) -> Outcome<ExitStatus> {
    let mut status = status;
    loop {
        if let Some(status) = status {
            return Ok(status);
        }
        signals.wait(Duration::from_millis(100))?;
        pass_on(&signals.take_for_command(), Some(&child));
        status = child.try_wait().map_err(Failure::missing)?;
    }
}
