//! Parts shared by the subcommands that watch: a timer that fires once per interval until Ctrl-C, a table that is
//! redrawn in place on a terminal, and a file to which each reading is appended.

use crate::{
    cli::Format,
    failure::{Failure, Outcome},
    output,
    signals::{ENDS, Signals},
    terminal::stdout_is_screen,
};
use manycore_linux::line_file::LineFile;
use manycore_render::{document::Document, terminal::Terminal, wrap::cut};
use manycore_text::names::printable_json;
use rustix::{process::Signal, termios::tcgetwinsize};
use serde::Serialize;
use signal_hook::consts::SIGCHLD;
use std::{
    io::stdout,
    path::Path,
    time::{Duration, Instant},
};

/// Timer that fires at equal intervals.
pub struct IntervalTimer {
    signals: Signals,
    interval: Duration,
    next: Instant,
    left: Option<u64>,
}

impl IntervalTimer {
    /// Creates a timer whose first round is one interval from now. It fires `count` times, or without end.
    ///
    /// # Errors
    /// [`Failure::Missing`] if signals cannot be caught.
    pub fn new(interval: Duration, count: Option<u64>) -> Outcome<Self> {
        Ok(Self { signals: Signals::catch(&ENDS)?, interval, next: Instant::now() + interval, left: count })
    }

    /// As [`Self::new`], for [`wait_or`](Self::wait_or).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_command(interval: Duration, count: Option<u64>) -> Outcome<Self> {
        let signals = Signals::catch(&[&ENDS[..], &[SIGCHLD]].concat())?;
        Ok(Self { signals, interval, next: Instant::now() + interval, left: count })
    }

    /// Waits for the next round. Returns `false` after the last round or after a signal that ends the
    /// program, which is the normal way to stop watching.
    ///
    /// # Errors
    /// [`Failure::Missing`] if `poll(2)` fails.
    pub fn wait(&mut self) -> Outcome<bool> {
        self.wait_or(|| false)
    }

    /// As [`Self::wait`], with a round at once when the command has ended. The signal that it may have comes also when
    /// it stops or continues.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_or(&mut self, mut has_ended: impl FnMut() -> bool) -> Outcome<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        loop {
            let came = self.signals.take();
            if came.iter().any(|signal| *signal != Signal::CHILD) {
                return Ok(false);
            }
            if !came.is_empty() && has_ended() {
                return Ok(true);
            }
            let left = self.next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.signals.wait(left)?;
        }
        self.left = self.left.map(|left| left - 1);
        self.next = next_round(self.next, Instant::now(), self.interval);
        Ok(true)
    }
}

/// Returns when the round after that of `last` is, at least half an interval after `now`. After a stop (SIGSTOP, system
/// suspend) missed rounds are skipped: a round at once would be of an interval of almost no time.
fn next_round(last: Instant, now: Instant, interval: Duration) -> Instant {
    let passed = now.saturating_duration_since(last) + interval / 2;
    let missed = passed.as_nanos() / interval.as_nanos().max(1);
    let rounds = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
    last.checked_add(interval.saturating_mul(rounds)).unwrap_or(now + interval)
}

/// A terminal on standard output, on which each table replaces the previous one.
pub struct Screen {
    is_clear: bool,
    is_colored: bool,
}

impl Screen {
    /// Returns `None` if standard output is not a terminal that can move its cursor; tables are then printed one after another.
    pub fn of_terminal(terminal: Terminal) -> Option<Self> {
        stdout_is_screen().then_some(Self { is_clear: false, is_colored: terminal.is_colored() })
    }

    /// Draws a document from the upper left corner, cut to the present size of the terminal.
    ///
    /// # Errors
    /// Those of [`output::print`].
    pub fn show(&mut self, document: &Document) -> Outcome {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 2 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        let clear = if self.is_clear { "" } else { "\x1b[2J" };
        self.is_clear = true;
        // Lines with colours are not cut: a narrower terminal gets none.
        let is_colored = self.is_colored && columns >= Terminal::MIN_COLUMNS;
        let text = document.text(Terminal::new(columns, is_colored));
        let columns = if is_colored { usize::MAX } else { columns };
        output::print_raw(&format!("{clear}{}", frame(&text, rows, columns)))
    }
}

/// Returns the text with terminal escapes, cut to the given size: cursor to the upper left (`ESC [ H`), each
/// line cleared to its end (`ESC [ K`), and everything below it cleared (`ESC [ J`).
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let height = rows - 1;
    let shown = if lines.len() > height { height - 1 } else { lines.len() };
    let mut frame = "\x1b[H".to_owned();
    for line in &lines[..shown] {
        frame.push_str(cut(line, columns));
        frame.push_str("\x1b[K\n");
    }
    if shown < lines.len() {
        frame.push_str(&format!("... {} more lines\x1b[K\n", lines.len() - shown));
    }
    frame + "\x1b[J"
}

/// The file of `--events`, `--history` and the like, and standard output, which get a line of JSON for each reading.
pub struct History(Option<LineFile>);

impl History {
    /// Opens or creates the file. Without a path, nothing is stored.
    ///
    /// # Errors
    /// [`Failure::Missing`] with the path if the file cannot be opened for writing.
    pub fn open(path: Option<&Path>) -> Outcome<Self> {
        path.map(LineFile::open).transpose().map(Self).map_err(Failure::missing)
    }

    /// Appends a reading, and prints the same line if the format is JSON.
    ///
    /// # Errors
    /// [`Failure::Missing`] with the path if writing fails, for example on a full disk; those of
    /// [`output::print`].
    pub fn append(&mut self, reading: &impl Serialize, format: Format) -> Outcome {
        if self.0.is_none() && format != Format::Json {
            return Ok(());
        }
        let line = printable_json(&serde_json::to_string(reading).map_err(Failure::missing)?);
        if let Some(file) = &mut self.0 {
            file.add(&line).map_err(Failure::missing)?;
        }
        if format == Format::Json { output::print(&format!("{line}\n")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_rounds_are_skipped() {
        let last = Instant::now();
        let ms = Duration::from_millis;
        let next = |late: u64| next_round(last, last + ms(late), ms(500)) - last;
        assert_eq!([0, 249, 250, 500, 3502].map(next), [500, 500, 1000, 1000, 4000].map(ms));
        // It is never far in the future.
        assert_eq!(next_round(last + ms(9), last, ms(500)), last + ms(509));
    }

    #[test]
    fn a_frame_never_scrolls() {
        assert_eq!(frame("a\nüber\n", 4, 2), "\x1b[Ha\x1b[K\nüb\x1b[K\n\x1b[J");
        assert_eq!(frame("a\nb\nc\nd\n", 4, 9), "\x1b[Ha\x1b[K\nb\x1b[K\n... 2 more lines\x1b[K\n\x1b[J");
    }

    #[test]
    fn lines_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        for reading in [1, 2] {
            History::open(Some(&path)).unwrap().append(&reading, Format::Text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n");
        assert!(matches!(History::open(Some(folder.path())), Err(Failure::Missing(_))));
        History::open(None).unwrap().append(&3, Format::Text).unwrap();
    }

    #[test]
    fn timer_fires_the_requested_number_of_times() {
        let mut timer = IntervalTimer::new(Duration::from_millis(1), Some(3)).unwrap();
        let mut count = 0;
        while timer.wait().unwrap() {
            count += 1;
        }
        assert_eq!(count, 3);
    }
}
