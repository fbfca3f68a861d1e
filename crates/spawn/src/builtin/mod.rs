//! The built-in light processes: tokio tasks, threads and processes. They use the same protocol as the
//! programs of other runtimes (see `protocol`).
//!
//! tokio is used only here, where it is measured.

mod processes;
mod tasks;
mod threads;
mod work;

use crate::error::{Error, Result};
use manycore_experiment::spawning::Runtime;
use std::{
    io::{BufRead, Write, stdin, stdout},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use work::Files;

/// A number of light processes of one kind.
trait LightProcesses {
    /// Returns the name of one light process and the version of the runtime, as words of the protocol.
    fn description(&self) -> String;

    /// Returns the bytes in use by the runtime's own account.
    fn reported_bytes(&self) -> Option<u64> {
        None
    }

    /// Starts `count` light processes and waits until all are alive. Before each one, `report` is called
    /// with the number of those started before it.
    ///
    /// # Errors
    /// How many are alive, and why there are no more.
    fn start(&mut self, count: u64, report: &mut dyn FnMut(u64)) -> Result<(), (u64, String)>;

    /// Makes all compute for `time`, or work on files and complete the rounds that have begun. `begun` is called when
    /// all have been started.
    fn work(&mut self, files: Option<Files>, time: Duration, begun: &mut dyn FnMut()) -> work::WorkResult;

    /// Ends all light processes.
    fn end(&mut self);
}

/// Serves light processes of the `kind` until the end of standard input.
///
/// # Errors
/// [`Error::NotStartedByTool`] if this program did not start it; [`Error::Unavailable`] if nothing can be started.
pub fn run(kind: &str) -> Result {
    let processes: Option<Box<dyn LightProcesses>> = match Runtime::ALL
        .into_iter()
        .find(|runtime| runtime.name() == kind)
    {
        Some(Runtime::Tokio) => Some(Box::new(tasks::Tasks::new().map_err(Error::unavailable)?)),
        Some(Runtime::Threads) => Some(Box::new(threads::Threads::default())),
        Some(Runtime::Processes) => Some(Box::new(processes::Processes::new().map_err(Error::unavailable)?)),
        _ => None,
    };
    serve(&mut *processes.ok_or(Error::NotStartedByTool)?)
}

/// Writes a line and flushes it.
fn print_line(text: &str) {
    let mut out = stdout().lock();
    // If the reader has gone, standard input ends as well.
    let _ = out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush());
}

fn serve(processes: &mut dyn LightProcesses) -> Result {
    print_line(&format!("ready\t{}", processes.description()));
    for line in stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split('\t').collect();
        match execute(processes, &words) {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => return Err(Error::NotStartedByTool),
        }
    }
    // The measuring program has ended. Everything started here ends with this process.
    std::process::exit(1)
}

/// Executes a line. Returns whether more lines follow, and `None` if the line is not a command.
fn execute(processes: &mut dyn LightProcesses, words: &[&str]) -> Option<bool> {
    let time = |word: &str| word.parse().ok().map(Duration::from_millis);
    match *words {
        ["start", count, step] => start(processes, count.parse().ok()?, step.parse().ok()?),
        ["look"] => print_line(
            &processes.reported_bytes().map_or_else(|| "look".to_owned(), |own| format!("look\town={own}")),
        ),
        ["spin", length, _] => {
            processes.work(None, time(length)?, &mut || print_line("spinning"));
            print_line("spun");
        }
        ["io", length, bytes, folder] => {
            let files = Files { folder: PathBuf::from(folder), bytes: bytes.parse().ok()? };
            let began = Instant::now();
            let done = processes.work(Some(files), time(length)?, &mut || print_line("working"));
            print_line(&done.line(began.elapsed()));
        }
        ["end"] => {
            processes.end();
            print_line("gone");
            return Some(false);
        }
        _ => return None,
    }
    Some(true)
}

fn start(processes: &mut dyn LightProcesses, count: u64, step: u64) {
    let began = Instant::now();
    let started = processes.start(count, &mut |alive| {
        if step > 0 && alive.is_multiple_of(step) {
            print_line(&format!("alive\t{alive}"));
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    print_line(&match started {
        Ok(()) => format!("started\talive={count}\tseconds={seconds}"),
        Err((alive, why)) => format!("started\talive={alive}\tseconds={seconds}\trefused={why}"),
    });
}

/// Waits for a condition, sleeping in between so that the light processes get the CPUs.
fn wait(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(200));
    }
}
