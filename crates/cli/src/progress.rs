//! Progress of a long run, on standard error: a line with bar, elapsed time and time left on a terminal, plain lines
//! elsewhere.
//!
//! The line is drawn by the thread that measures, when a sample ends: a thread of its own would disturb the
//! measurement.

mod estimator;
mod status_line;

pub use status_line::StatusLine;

use crate::output;
use estimator::Estimator;
use manycore_render::{terminal::padded, wrap::columns_of};
use std::time::{Duration, Instant};

/// Width of the bar, in columns.
const BAR: usize = 20;

/// The progress of one run.
pub struct Progress {
    began: Instant,
    estimator: Estimator,
    /// On a terminal.
    line: Option<StatusLine>,
    quiet: bool,
    title: String,
}

impl Progress {
    /// Returns the progress of a run that is planned to take `seconds`.
    pub fn new(seconds: f64, quiet: bool) -> Self {
        Self {
            began: Instant::now(),
            estimator: Estimator::new(seconds),
            line: StatusLine::of_stderr(quiet),
            quiet,
            title: "starting".to_owned(),
        }
    }

    /// Starts a section.
    pub fn section(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        if self.line.is_some() {
            self.draw();
        } else if !self.quiet {
            let left = clock(self.estimator.left(self.elapsed()));
            output::note(&format!("measuring {title}, {left} left"));
        }
    }

    /// Sets the remaining time of the plan.
    pub fn set_remaining(&mut self, left: Duration) {
        self.estimator.update(self.elapsed(), left.as_secs_f64());
        self.draw();
    }

    /// Prints a line above the bar.
    pub fn note(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        if let Some(line) = &mut self.line {
            line.clear();
        }
        output::note(text);
        self.draw();
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some(line) = &mut self.line {
            line.clear();
        }
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn draw(&mut self) {
        let elapsed = self.elapsed();
        let share = self.estimator.share(elapsed);
        let left = self.estimator.left(elapsed);
        if let Some(line) = &mut self.line {
            line.draw(&text(share, elapsed, left, &self.title));
        }
    }
}

/// Returns the line: `[=========>          ]  48 %  41 s elapsed, 44 s left: scaling`.
fn text(share: f64, elapsed: f64, left: f64, title: &str) -> String {
    let filled = (share * BAR as f64) as usize;
    let bar = match filled {
        0 => String::new(),
        BAR.. => "=".repeat(BAR),
        some => format!("{}>", "=".repeat(some - 1)),
    };
    debug_assert!(columns_of(&bar) <= BAR);
    let percent = (share * 100.0) as usize;
    format!(
        "[{}] {percent:>3} %  {} elapsed, {} left: {title}",
        padded(&bar, BAR),
        clock(elapsed),
        clock(left)
    )
}

/// Formats seconds as `1 min 23 s`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        let times = [59.4, 61.0, 3_725.0, -1.0].map(clock);
        assert_eq!(times, ["59 s", "1 min 01 s", "1 h 02 min", "0 s"]);
    }

    #[test]
    fn the_bar_grows_from_empty_to_full() {
        assert_eq!(
            text(0.0, 0.0, 90.0, "noise"),
            "[                    ]   0 %  0 s elapsed, 1 min 30 s left: noise"
        );
        assert_eq!(
            text(0.5, 45.0, 45.0, "scaling"),
            "[=========>          ]  50 %  45 s elapsed, 45 s left: scaling"
        );
        assert_eq!(
            text(1.0, 90.0, 0.0, "end"),
            "[====================] 100 %  1 min 30 s elapsed, 0 s left: end"
        );
    }
}
