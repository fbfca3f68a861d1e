//! The elapsed time of an observation, on a terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// Shorter observations show nothing.
const MIN_ELAPSED: Duration = Duration::from_secs(2);

/// A line on standard error that is redrawn.
pub(super) struct Elapsed {
    began: Instant,
    shown: bool,
}

impl Elapsed {
    /// Begins now. Nothing is shown if `quiet`, or if standard error is not a terminal.
    pub fn new(quiet: bool) -> Self {
        Self { began: Instant::now(), shown: !quiet && stderr().is_terminal() }
    }

    /// Updates the line. Called several times a second.
    pub fn update(&self) {
        let elapsed = self.began.elapsed();
        if self.shown && elapsed >= MIN_ELAPSED {
            let seconds = elapsed.as_secs();
            let _ = write!(
                stderr(),
                "\robserving for {seconds} s; Ctrl-C stops it and prints the findings so far"
            );
        }
    }

    /// Clears the line.
    pub fn finish(&self) {
        if self.shown && self.began.elapsed() >= MIN_ELAPSED {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
