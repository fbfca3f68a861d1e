//! The elapsed time of an observation, on a terminal.

use crate::progress::StatusLine;
use std::time::{Duration, Instant};

/// Shorter observations show nothing.
const MIN_ELAPSED: Duration = Duration::from_secs(2);

/// A line on standard error that is redrawn each second.
pub(super) struct Elapsed {
    began: Instant,
    timeout: Option<Duration>,
    line: Option<StatusLine>,
    /// The second that is shown.
    shown: u64,
}

impl Elapsed {
    /// Begins now. Nothing is shown if `quiet`, or if standard error is not a terminal.
    pub fn new(timeout: Option<Duration>, quiet: bool) -> Self {
        Self { began: Instant::now(), timeout, line: StatusLine::of_stderr(quiet), shown: 0 }
    }

    /// Updates the line. Called several times a second.
    pub fn update(&mut self) {
        let elapsed = self.began.elapsed();
        if elapsed < MIN_ELAPSED || elapsed.as_secs() == self.shown {
            return;
        }
        self.shown = elapsed.as_secs();
        if let Some(line) = &mut self.line {
            line.draw(&forms(elapsed, self.timeout));
        }
    }
}

/// Returns the line, and shorter forms of it: how long the program may still run is known with a time limit only.
fn forms(elapsed: Duration, timeout: Option<Duration>) -> [String; 3] {
    let left =
        timeout.map(|timeout| format!(", {} s left at most", timeout.saturating_sub(elapsed).as_secs()));
    let begin = format!("observing for {} s{}", elapsed.as_secs(), left.unwrap_or_default());
    [
        format!("{begin}; Ctrl-C stops it and prints the findings so far"),
        format!("{begin}; Ctrl-C stops it"),
        begin,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_shown_with_a_limit() {
        let [short, limit] = [4, 20].map(Duration::from_secs);
        assert!(forms(short, None)[0].starts_with("observing for 4 s; Ctrl-C"));
        assert!(forms(short, Some(limit))[0].starts_with("observing for 4 s, 16 s left at most; Ctrl-C"));
        assert_eq!(forms(short, Some(limit))[2], "observing for 4 s, 16 s left at most");
    }
}
