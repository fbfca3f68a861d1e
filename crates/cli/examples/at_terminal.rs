//! Runs a program on a terminal of its own, presses keys, and checks what is on the screen. For the guests of `lab/`.
//!
//!     at_terminal COLUMNSxROWS KEYS TEXT [KEYS TEXT]... -- PROGRAM ARGUMENT...
//!
//! Presses KEYS and waits until each line of TEXT is on the screen, pair by pair; then the program must end with code 0, and
//! leave the terminal as it was. Prints the screen after each pair. Exit code 1: a text does not appear within a minute, or
//! the end is another one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is a test")]

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    env,
    fs::File,
    io::{Read, Write},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// Longest time for anything to appear: emulation is slow.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a terminal shows, as far as `manycore` uses it: characters, places, and clearing.
struct Screen {
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    /// Begin of a sequence whose end has not arrived.
    rest: Vec<u8>,
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Self {
        Self { rows: vec![vec![' '; columns]; rows], at: (0, 0), rest: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&all) {
            Ok(_) => all.len(),
            // At most the begin of one character.
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&all[..whole]).into_owned();
        let mut left = text.as_str();
        while let Some(first) = left.chars().next() {
            let Some(sequence) = left.strip_prefix("\x1b[") else {
                self.put(first);
                left = &left[first.len_utf8()..];
                continue;
            };
            let Some(end) = sequence.find(|letter: char| ('@'..='~').contains(&letter)) else { break };
            self.obey(&sequence[..end], sequence.as_bytes()[end]);
            left = &sequence[end + 1..];
        }
        self.rest = [left.as_bytes(), &all[whole..]].concat();
    }

    fn put(&mut self, letter: char) {
        let (row, column) = self.at;
        match letter {
            '\r' => self.at.1 = 0,
            '\n' => self.at.0 = (row + 1).min(self.rows.len() - 1),
            _ if letter.is_control() => {}
            _ => {
                if let Some(cell) = self.rows[row].get_mut(column) {
                    *cell = letter;
                }
                self.at.1 += 1;
            }
        }
    }

    fn obey(&mut self, numbers: &str, command: u8) {
        let mut each = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(0));
        let (first, second) = (each.next().unwrap_or(0), each.next().unwrap_or(0));
        let (columns, rows) = (self.rows[0].len(), self.rows.len());
        match command {
            b'H' => self.at = (first.clamp(1, rows) - 1, second.clamp(1, columns) - 1),
            b'J' => self.rows = vec![vec![' '; columns]; rows],
            b'K' => self.rows[self.at.0][self.at.1.min(columns)..].fill(' '),
            b'C' => self.at.1 += first.max(1),
            _ => {}
        }
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
    }
}

/// A program on a terminal.
struct Session {
    master: File,
    slave: File,
    before: Termios,
    child: Child,
    screen: Screen,
}

impl Session {
    fn start((columns, rows): (u16, u16), words: &[String]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(path).unwrap();
        tcsetwinsize(&slave, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(end()).stdout(end()).stderr(end());
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        let child = command.spawn().unwrap();
        let screen = Screen::new(columns.into(), rows.into());
        Self { master: master.into(), slave, before, child, screen }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads what is written, for a moment.
    fn read(&mut self) {
        let time = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut files = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut files, Some(&time)).unwrap_or(0) > 0 {
            let mut bytes = vec![0; 1 << 16];
            let count = self.master.read(&mut bytes).unwrap();
            self.screen.write(&bytes[..count]);
        }
    }

    /// Waits until each line of a text is on the screen.
    fn await_text(&mut self, text: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.screen.text();
            let Some(missing) = text.lines().find(|line| !shown.contains(line)) else { return Ok(()) };
            if Instant::now() > end {
                return Err(format!("{missing:?} is not on the screen:\n{shown}"));
            }
            self.read();
        }
    }

    /// Waits for the end.
    fn end(mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                self.child.kill().unwrap();
                return Err("the program does not end".to_owned());
            }
            self.read();
        };
        let modes = |all: &Termios| (all.local_modes, all.input_modes, all.output_modes);
        match status.code() {
            Some(0) if modes(&tcgetattr(&self.slave).unwrap()) == modes(&self.before) => Ok(()),
            Some(0) => Err("the terminal is not as it was".to_owned()),
            _ => Err(format!("the program ends with {status}")),
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let at = arguments.iter().position(|word| word == "--").unwrap();
    let (steps, words) = (&arguments[1..at], &arguments[at + 1..]);
    let (columns, rows) = arguments[0].split_once('x').unwrap();
    let mut session = Session::start((columns.parse().unwrap(), rows.parse().unwrap()), words);
    for step in steps.chunks(2) {
        let [keys, text] = step else { panic!("KEYS without a TEXT") };
        session.press(keys);
        if let Err(why) = session.await_text(text) {
            session.child.kill().unwrap();
            return Err(format!("after {keys:?}: {why}"));
        }
        println!("=== {keys:?}\n{}", session.screen.text());
    }
    session.end()
}

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
