//! Tests of the view of `manycore top` on a terminal: it appears, answers keys, and leaves the terminal as it was.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest time for anything to appear. Machines of tests are busy.
const PATIENCE: Duration = Duration::from_mins(3);

/// `top` on a terminal of 100 columns and 30 rows.
struct Screen {
    master: File,
    slave: File,
    before: Termios,
    child: Child,
    written: String,
    /// Where it runs.
    _folder: TempDir,
}

impl Screen {
    fn start(arguments: &[&str]) -> Self {
        Self::start_words(&[&["top"], arguments].concat())
    }

    /// Starts any subcommand.
    fn start_words(words: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = PathBuf::from(ptsname(&master, Vec::new()).unwrap().to_str().unwrap());
        let slave = File::options().read(true).write(true).open(path).unwrap();
        tcsetwinsize(&slave, Winsize { ws_col: 100, ws_row: 30, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_manycore"))
            .args(words)
            .current_dir(folder.path())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self { master: master.into(), slave, before, child, written: String::new(), _folder: folder }
    }

    /// Reads what is written until it has a text after what was awaited before.
    fn await_text(&mut self, text: &str) {
        assert!(self.has_text_within(text, PATIENCE), "no {text:?} in {:?}", self.written);
    }

    fn has_text_within(&mut self, text: &str, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            if let Some(at) = self.written.find(text) {
                self.written.drain(..at + text.len());
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            if poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&time)).unwrap() == 0 {
                continue;
            }
            let mut bytes = [0; 4096];
            let count = self.master.read(&mut bytes).unwrap();
            self.written.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Drops what has been written so far, so that the terminal does not fill up.
    fn read_what_is_there(&mut self) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&now)).unwrap() > 0 {
            let count = self.master.read(&mut [0; 4096]).unwrap();
            assert!(count > 0, "the terminal was closed");
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).unwrap();
        self.signal(Signal::WINCH);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Waits until the process is in a state, such as `T` for stopped.
    fn await_state(&self, state: char) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(&stat).unwrap().contains(&format!(") {state} ")) {
            assert!(Instant::now() < end, "it does not become {state}");
            std::thread::yield_now();
        }
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
    screen.await_state('T');
    screen.assert_restored();
    screen.signal(Signal::CONT);
    screen.await_text("\x1b[?1049h");
    screen.await_text("NAME");
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}

/// Regression test: the modes that a shell set while the view was stopped were kept, and the view went on in the background.
#[test]
fn a_view_that_was_stopped_from_outside_takes_the_terminal_again() {
    let mut screen = Screen::start(&["--interval", "1h"]);
    screen.await_text("NAME");
    screen.await_text("Filter");
    let raw = tcgetattr(&screen.slave).unwrap().local_modes;
    screen.signal(Signal::STOP);
    screen.await_state('T');
    tcsetattr(&screen.slave, OptionalActions::Now, &screen.before).unwrap();
    screen.read_what_is_there();
    screen.signal(Signal::CONT);
    screen.await_text("\x1b[?1049h");
    screen.await_text("\x1b[2J");
    screen.await_text("NAME");
    screen.await_text("Filter");
    assert_eq!(tcgetattr(&screen.slave).unwrap().local_modes, raw);
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn a_command_is_shown_to_its_end_and_its_output_after_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    let script =
        format!("echo from-the-command; until test -e {}; do sleep 0.1; done; exit 7", shown.display());
    let mut screen = Screen::start(&["--", "sh", "-c", &script]);
    screen.await_text("NAME");
    fs::write(&shown, "").unwrap();
    screen.await_text("\x1b[?1049l");
    screen.await_text("from-the-command");
    assert_eq!(screen.child.wait().unwrap().code(), Some(7));
    screen.assert_restored();
}

#[test]
fn a_smaller_terminal_is_drawn_again() {
    let mut screen = Screen::start(&[]);
    screen.await_text("NAME");
    screen.resize(20, 5);
    screen.await_text("NAME");
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}

/// Regression test: a key that came with a change of the size waited for the next key, and `top` used all of a CPU until then.
#[test]
fn a_storm_of_sizes_and_keys_ends_with_the_last_size() {
    let mut screen = Screen::start(&["--interval", "100ms"]);
    screen.await_text("NAME");
    for round in 0..200_u16 {
        screen.resize(1 + round * 7 % 400, 1 + round * 13 % 100);
        screen.press(["1", "2", "8", "H", "o", "t", "\x1b[B"][usize::from(round) % 7]);
        screen.read_what_is_there();
    }
    screen.press("1/no-such-task");
    // A line is written as a whole only after a change of the size, and the keys may be read after that.
    let mut sizes = [100, 101].into_iter().cycle();
    let end = Instant::now() + PATIENCE;
    while !screen.has_text_within("Filter: no-such-task_", Duration::from_secs(1)) {
        assert!(Instant::now() < end, "{:?}", screen.written);
        screen.resize(sizes.next().unwrap(), 30);
    }
    screen.press("\rq");
    assert_eq!(screen.end(), Some(0));
}

/// Runs a subcommand with `--live`: the view of its processes appears, and what it prints comes after the view.
fn assert_live(words: &[&str], process: &str, printed: &str) {
    let mut screen = Screen::start_words(words);
    screen.await_text("\x1b[?1049h");
    screen.await_text(process);
    screen.await_text("\x1b[?1049l");
    screen.await_text(printed);
    assert_eq!(screen.child.wait().unwrap().code(), Some(0), "{words:?}: {}", screen.written);
    screen.assert_restored();
}

#[test]
fn run_shows_its_processes_with_live() {
    let folder = tempfile::tempdir().unwrap();
    let worker = named(&folder, "live-worker");
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo from-the-command";
    assert_live(&["run", "--live", "--", &worker, "-c", script], "live-worker", "from-the-command");
}

#[test]
fn compare_and_spawn_show_their_processes_with_live() {
    let folder = tempfile::tempdir().unwrap();
    let worker = named(&folder, "live-worker");
    let out = folder.path().join("result");
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let compare = ["compare", "--live", "--pairs", "6", "--warmup", "0", "--out", out.to_str().unwrap()];
    let variants = ["--variant", "place=free", "--variant", "place=close", "--", &worker, "-c", work];
    assert_live(&[&compare[..], &variants].concat(), "live-worker", "B AGAINST A");
    let spawn = ["spawn", "--live", "--runtime", "threads", "--counts", "1k", "--work", "spin"];
    assert_live(&spawn, "manycore", "threads");
}

/// Returns a shell under another name. A copy could be open for writing in a child of another test.
fn named(folder: &TempDir, name: &str) -> String {
    let path = folder.path().join(name);
    std::os::unix::fs::symlink("/bin/sh", &path).unwrap();
    path.to_str().unwrap().to_owned()
}
