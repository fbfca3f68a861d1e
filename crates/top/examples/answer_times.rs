//! Measures how soon `manycore top` and `htop` show the first tasks after their start, and the screen after a key, in terminals
//! of 150 columns, in turns.
//!
//! `cargo run --release -p manycore-top --example answer_times [THREADS]`. `MANYCORE` is the path of `manycore` if it is not in
//! `PATH`: that of a release build. The threads sleep, but ten of them wake up a hundred times a second.
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

use manycore_linux::{child, tasks};
use std::{
    env,
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

const ROUNDS: usize = 15;
/// Longest time to the first tasks, and to an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A screen is complete when nothing more was written for this time, which is short beside the time to the next screen.
const QUIET: Duration = Duration::from_millis(60);
/// No other screen comes when nothing was written for this time.
const SETTLED: Duration = Duration::from_millis(1500);
/// A key that changes all rows: threads in place of processes, or the other way round.
const KEY: &[u8] = b"H";

/// A program in a terminal of its own, which `script` makes.
struct Screen {
    script: Child,
    keys: ChildStdin,
    written: Receiver<(Instant, Vec<u8>)>,
}

impl Screen {
    fn start(command: &str) -> Self {
        let line = format!("stty rows 50 cols 150; exec {command}");
        let mut script = Command::new("script")
            .args(["-qfc", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("HTOPRC", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let (send, written) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if send.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    break;
                }
            }
        });
        Self { script, keys, written }
    }

    /// Waits for a text on the screen; returns when it was complete.
    fn await_text(&self, text: &str) -> Instant {
        let (mut seen, end) = (Vec::new(), Instant::now() + PATIENCE);
        loop {
            let (at, bytes) =
                self.written.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
            seen.extend(bytes);
            if seen.windows(text.len()).any(|part| part == text.as_bytes()) {
                return self.last_output(QUIET).unwrap_or(at);
            }
        }
    }

    /// Waits until nothing is written for a time; returns when the last bytes came.
    fn last_output(&self, quiet: Duration) -> Option<Instant> {
        let mut last = None;
        loop {
            match self.written.recv_timeout(quiet) {
                Ok((at, _)) => last = Some(at),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return last,
            }
        }
    }

    /// Presses the key; returns the milliseconds to the last byte of the next screen.
    fn answer_ms(&mut self) -> f64 {
        // Until the first interval has been shown.
        self.last_output(SETTLED);
        let pressed = Instant::now();
        self.keys.write_all(KEY).unwrap();
        let (at, _) = self.written.recv_timeout(PATIENCE).unwrap();
        self.last_output(QUIET).unwrap_or(at).duration_since(pressed).as_secs_f64() * 1e3
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ends the program by the end of its terminal.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Starts a program; returns the milliseconds to its first tasks, and to the screen after a key.
fn round(command: &str) -> [f64; 2] {
    let began = Instant::now();
    let mut screen = Screen::start(command);
    let first = screen.await_text("answer_times").duration_since(began).as_secs_f64() * 1e3;
    [first, screen.answer_ms()]
}

/// Starts threads that sleep, and ten that wake up a hundred times a second; ends when its input is closed.
fn sleep(threads: usize) {
    for index in 0..threads.saturating_sub(1) {
        let body = move || loop {
            thread::sleep(Duration::from_millis(if index < 10 { 10 } else { 1_000_000 }));
        };
        thread::Builder::new().stack_size(16 << 10).spawn(body).unwrap();
    }
    let _ = std::io::stdin().read(&mut [0]);
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, threads] = &arguments[..]
        && first == "--sleep"
    {
        return sleep(threads.parse().unwrap());
    }
    child::allow_many_files();
    let threads: usize = arguments.first().map_or(10_000, |threads| threads.parse().unwrap());
    let mut sleeper = Command::new(env::current_exe().unwrap());
    let mut sleeper = sleeper.args(["--sleep", &threads.to_string()]).stdin(Stdio::piped()).spawn().unwrap();
    while tasks::threads(sleeper.id()).len() < threads {
        thread::sleep(Duration::from_millis(10));
    }
    let manycore = env::var("MANYCORE").unwrap_or_else(|_| "manycore".to_owned());
    // No other updates while a key is answered.
    let programs =
        [("manycore top", format!("{manycore} top --interval 60s")), ("htop", "htop -d 100".to_owned())];
    let mut ms: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, command), all) in programs.iter().zip(&mut ms) {
            let [first, answer] = round(command);
            all[0].push(first);
            all[1].push(answer);
        }
    }
    println!("{threads} threads, {ROUNDS} rounds: median (smallest to largest) in ms");
    for ((name, _), all) in programs.iter().zip(&mut ms) {
        let [first, answer] = all.each_mut().map(|one| {
            one.sort_by(f64::total_cmp);
            format!("{:.0} ({:.0} to {:.0})", one[ROUNDS / 2], one[0], one[ROUNDS - 1])
        });
        println!("  {name:14} first tasks {first}, a key {answer}");
    }
    drop(sleeper.stdin.take());
    let _ = sleeper.wait();
}
