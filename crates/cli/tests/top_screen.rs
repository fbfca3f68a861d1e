//! Tests of the view of `manycore top` on a terminal: it appears, answers keys, and leaves the terminal as it was.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod common;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Longest time for anything to appear. Machines of tests are busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// `top` on a terminal of 100 columns and 30 rows.
struct Screen {
    master: File,
    slave: File,
    before: Termios,
    child: Child,
    written: String,
}

impl Screen {
    fn start(arguments: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = PathBuf::from(ptsname(&master, Vec::new()).unwrap().to_str().unwrap());
        let slave = File::options().read(true).write(true).open(path).unwrap();
        tcsetwinsize(&slave, Winsize { ws_col: 100, ws_row: 30, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_manycore"))
            .arg("top")
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self { master: master.into(), slave, before, child, written: String::new() }
    }

    /// Reads what is written until it has a text after what was awaited before.
    fn await_text(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.written.find(text) {
                self.written.drain(..at + text.len());
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {text:?} in {:?}", self.written);
            let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: 0 };
            poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&time)).unwrap();
            let mut bytes = [0; 4096];
            let count = self.master.read(&mut bytes).unwrap();
            self.written.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Waits for the end, and checks that the terminal is as before. Returns the exit code.
    fn end(mut self) -> Option<i32> {
        self.await_text("\x1b[?1049l");
        let code = self.child.wait().unwrap().code();
        self.assert_restored();
        code
    }

    fn assert_restored(&self) {
        let now = tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (now.local_modes, now.input_modes, now.output_modes),
            (self.before.local_modes, self.before.input_modes, self.before.output_modes)
        );
    }
}

#[test]
fn the_view_appears_and_q_leaves_the_terminal_as_it_was() {
    let mut screen = Screen::start(&[]);
    screen.await_text("\x1b[?1049h");
    screen.await_text("NAME");
    assert!(tcgetattr(&screen.slave).unwrap().local_modes != screen.before.local_modes);
    screen.press("?");
    screen.await_text("Shift-Tab");
    screen.press("xq");
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn a_signal_that_ends_it_restores_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let mut screen = Screen::start(&[]);
        screen.await_text("NAME");
        screen.signal(signal);
        assert_eq!(screen.end(), Some(0));
    }
}

#[test]
fn it_stops_with_the_terminal_restored_and_continues() {
    let mut screen = Screen::start(&[]);
    screen.await_text("NAME");
    screen.press("\x1a");
    screen.await_text("\x1b[?1049l");
    let stat = format!("/proc/{}/stat", screen.child.id());
    let end = Instant::now() + PATIENCE;
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < end, "it does not stop");
        std::thread::yield_now();
    }
    screen.assert_restored();
    screen.signal(Signal::CONT);
    screen.await_text("\x1b[?1049h");
    screen.await_text("NAME");
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn a_command_is_shown_to_its_end_and_its_output_after_the_view() {
    let mut screen = Screen::start(&["--", "sh", "-c", "echo from-the-command; sleep 1; exit 7"]);
    screen.await_text("NAME");
    screen.await_text("\x1b[?1049l");
    screen.await_text("from-the-command");
    assert_eq!(screen.child.wait().unwrap().code(), Some(7));
    screen.assert_restored();
}

#[test]
fn a_smaller_terminal_is_drawn_again() {
    let mut screen = Screen::start(&[]);
    screen.await_text("NAME");
    tcsetwinsize(&screen.slave, Winsize { ws_col: 20, ws_row: 5, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    screen.signal(Signal::WINCH);
    screen.await_text("NAME");
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}
