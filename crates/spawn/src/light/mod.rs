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
trait Crowd {
    /// Returns the name of one light process and the version of the runtime, as words of the protocol.
    fn hello(&self) -> String;

    /// Returns the bytes in use by the runtime's own account.
    fn own(&self) -> Option<u64> {
        None
    }

    /// Starts `count` light processes and waits until all are alive. Before each one, `tell` is called with
    /// the number of those started before it.
    ///
    /// # Errors
    /// How many are alive, and why there are no more.
    fn start(&mut self, count: u64, tell: &mut dyn FnMut(u64)) -> Result<(), (u64, String)>;

    /// Makes all compute for `time`. `begun` is called when all have been started.
    fn spin(&mut self, time: Duration, begun: &mut dyn FnMut());

    /// Makes all work on files for `time` and completes the rounds that have begun.
    fn files(&mut self, time: Duration, files: Files, begun: &mut dyn FnMut()) -> work::Done;

    /// Ends all light processes.
    fn end(&mut self);
}

/// Serves light processes of the `kind` until the end of standard input.
///
/// # Errors
/// [`Error::Invalid`] where somebody else than we has started this, [`Error::Unavailable`] where nothing can be started.
pub fn run(kind: &str) -> Result {
    let crowd: Option<Box<dyn Crowd>> = match Runtime::ALL.into_iter().find(|runtime| runtime.name() == kind)
    {
        Some(Runtime::Tokio) => Some(Box::new(tasks::Tasks::new().map_err(Error::unavailable)?)),
        Some(Runtime::Threads) => Some(Box::new(threads::Threads::default())),
        Some(Runtime::Processes) => Some(Box::new(processes::Processes::new().map_err(Error::unavailable)?)),
        _ => None,
    };
    serve(&mut *crowd.ok_or_else(by_hand)?)
}

fn by_hand() -> Error {
    Error::invalid(
        "light is started by manycore itself and reads commands from its standard input: use manycore spawn",
    )
}

/// Writes a line and flushes it.
fn say(text: &str) {
    let mut out = stdout().lock();
    // If the reader has gone, standard input ends as well.
    let _ = out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush());
}

fn serve(crowd: &mut dyn Crowd) -> Result {
    say(&format!("ready\t{}", crowd.hello()));
    for line in stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split('\t').collect();
        match obey(crowd, &words) {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => return Err(by_hand()),
        }
    }
    // The peer is gone. Everything started here ends with this process.
    std::process::exit(1)
}

/// Executes a line. Returns whether more lines follow, and `None` if the line is not a command.
fn obey(crowd: &mut dyn Crowd, words: &[&str]) -> Option<bool> {
    let time = |word: &str| word.parse().ok().map(Duration::from_millis);
    match *words {
        ["start", count, step] => start(crowd, count.parse().ok()?, step.parse().ok()?),
        ["look"] => say(&crowd.own().map_or_else(|| "look".to_owned(), |own| format!("look\town={own}"))),
        ["spin", length, _] => {
            crowd.spin(time(length)?, &mut || say("spinning"));
            say("spun");
        }
        ["io", length, bytes, folder] => {
            let files = Files { folder: PathBuf::from(folder), bytes: bytes.parse().ok()? };
            let began = Instant::now();
            let done = crowd.files(time(length)?, files, &mut || say("working"));
            say(&done.line(began.elapsed()));
        }
        ["end"] => {
            crowd.end();
            say("gone");
            return Some(false);
        }
        _ => return None,
    }
    Some(true)
}

fn start(crowd: &mut dyn Crowd, count: u64, step: u64) {
    let began = Instant::now();
    let started = crowd.start(count, &mut |alive| {
        if step > 0 && alive.is_multiple_of(step) {
            say(&format!("alive\t{alive}"));
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    say(&match started {
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
