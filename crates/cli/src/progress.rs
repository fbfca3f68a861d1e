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

/// Widths of the bar in columns, on wide and on narrow terminals.
const BARS: [usize; 2] = [20, 10];

/// Time after which the line is drawn again while nothing is reported.
const REFRESH: Duration = Duration::from_millis(500);

/// The progress of one run.
pub struct Progress {
    began: Instant,
    /// When the line was last drawn.
    drawn: Instant,
    estimator: Estimator,
    /// Whether the time that is left can be estimated.
    is_planned: bool,
    /// On a terminal.
    line: Option<StatusLine>,
    quiet: bool,
    title: String,
}

impl Progress {
    /// Returns the progress of a run that is planned to take `seconds`, if that is known yet.
    pub fn new(seconds: Option<f64>, quiet: bool) -> Self {
        Self {
            began: Instant::now(),
            drawn: Instant::now(),
            estimator: Estimator::new(seconds.unwrap_or_default()),
            is_planned: seconds.is_some(),
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
            let left = self.left(self.elapsed()).map(|left| format!(", {} left", clock(left)));
            output::note(&format!("measuring: {title}{}", left.unwrap_or_default()));
        }
    }

    /// Sets the remaining time of the plan.
    pub fn set_remaining(&mut self, left: Duration) {
        self.estimator.update(self.elapsed(), left.as_secs_f64());
        self.is_planned = true;
        self.draw();
    }

    /// Sets a new plan of the time that is left.
    pub fn set_plan(&mut self, left: Duration) {
        self.estimator.plan(self.elapsed(), left.as_secs_f64());
        self.is_planned = true;
        self.draw();
    }

    /// Draws the line again where it is old.
    pub fn refresh(&mut self) {
        if self.drawn.elapsed() >= REFRESH {
            self.draw();
        }
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

    /// Returns the seconds that are left, if they can be estimated.
    fn left(&self, elapsed: f64) -> Option<f64> {
        self.is_planned.then(|| self.estimator.left(elapsed))
    }

    fn draw(&mut self) {
        self.drawn = Instant::now();
        let elapsed = self.elapsed();
        let left = self.left(elapsed);
        let share = left.map_or(0.0, |_| self.estimator.share(elapsed));
        if let Some(line) = &mut self.line {
            line.draw(&forms(share, elapsed, left, &self.title));
        }
    }
}

/// Returns the line, `[=========>          ]  48 %  41 s elapsed, 44 s left: scaling`, and shorter forms of it.
fn forms(share: f64, elapsed: f64, left: Option<f64>, title: &str) -> Vec<String> {
    let elapsed = format!("{} elapsed", clock(elapsed));
    let percent = (share * 100.0) as usize;
    let left = left.map(|left| format!("{} left", clock(left)));
    let long = left.as_ref().map_or_else(|| elapsed.clone(), |left| format!("{elapsed}, {left}"));
    let short = left.unwrap_or(elapsed);
    let [wide, narrow] = BARS.map(|columns| format!("{} {percent:>3} %", bar(share, columns)));
    vec![
        format!("{wide}  {long}: {title}"),
        format!("{narrow}  {long}: {title}"),
        format!("{narrow}  {short}: {title}"),
        format!("{percent:>3} %  {short}: {title}"),
        format!("{percent:>3} %  {short}"),
    ]
}

/// Returns a bar of which this share is filled.
fn bar(share: f64, columns: usize) -> String {
    let filled = (share * columns as f64) as usize;
    let bar = match filled {
        0 => String::new(),
        filled if filled >= columns => "=".repeat(columns),
        some => format!("{}>", "=".repeat(some - 1)),
    };
    debug_assert!(columns_of(&bar) <= columns);
    format!("[{}]", padded(&bar, columns))
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
        let text = |share, elapsed, left, title| forms(share, elapsed, Some(left), title).swap_remove(0);
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

    #[test]
    fn narrow_terminals_have_shorter_lines() {
        assert_eq!(
            forms(0.5, 45.0, Some(44.0), "pairs of A and B")[1..],
            [
                "[====>     ]  50 %  45 s elapsed, 44 s left: pairs of A and B",
                "[====>     ]  50 %  44 s left: pairs of A and B",
                " 50 %  44 s left: pairs of A and B",
                " 50 %  44 s left",
            ]
        );
        assert_eq!(forms(0.0, 3.0, None, "warm-up")[2], "[          ]   0 %  3 s elapsed: warm-up");
    }
}
