//! Light processes of our own: tasks of tokio, threads and processes, which speak the same protocol as the programs
//! of other runtimes (see `protocol`).
//!
//! tokio is measured here, and used nowhere else.

mod processes;
mod tasks;
mod threads;
mod work;

use crate::error::{Error, Result};
use crate::shelter::{self, GUARD};
use manycore_experiment::spawning::Runtime;
use std::{
    io::{BufRead, Write, stdin, stdout},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use work::Files;

/// Many light processes of one kind.
trait Crowd {
    /// What a light process is called, and what runs them.
    fn hello(&self) -> String;

    /// Bytes that it uses by its own account.
    fn own(&self) -> Option<u64> {
        None
    }

    /// Starts `count` and waits until all live; `tell` is called before each with the number of those before it.
    ///
    /// # Errors
    /// How many live, and why there are no more.
    fn start(&mut self, count: u64, tell: &mut dyn FnMut(u64)) -> Result<(), (u64, String)>;

    /// Has all compute for `time`; `begun` is called when all have been told to.
    fn spin(&mut self, time: Duration, begun: &mut dyn FnMut());

    /// Has all work on files for `time`, and ends the rounds that have begun.
    fn files(&mut self, time: Duration, files: Files, begun: &mut dyn FnMut()) -> work::Done;

    /// Ends all.
    fn end(&mut self);
}

/// Stands as guard, or serves light processes of the `kind` until the end of standard input.
///
/// # Errors
/// [`Error::Invalid`] where somebody else than we has started this, [`Error::Unavailable`] where nothing can be started.
pub fn run(kind: &str) -> Result {
    if kind == GUARD {
        shelter::stand();
        return Ok(());
    }
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
        "light is started by manycore itself (manycore spawn), and obeys lines of its standard input",
    )
}

/// Writes a line at once.
fn say(text: &str) {
    let mut out = stdout().lock();
    // Where nobody listens any more, the end of standard input follows.
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
    // Nobody to obey: what was started ends with this process.
    std::process::exit(1)
}

/// Does what a line says; returns whether there is more to come, and nothing where the line says nothing.
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

/// Waits for what light processes count, and leaves them the CPUs meanwhile.
fn wait(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(200));
    }
}
