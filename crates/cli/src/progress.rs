//! Progress of a long run, on standard error: a bar with the remaining time on a terminal, plain lines
//! elsewhere.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

/// The progress of one run.
pub struct Progress {
    total: Duration,
    /// The bar, on a terminal.
    bar: Option<ProgressBar>,
    quiet: bool,
    left: Duration,
}

impl Progress {
    /// Returns the progress of a run that is planned to take `seconds`.
    pub fn new(seconds: f64, quiet: bool) -> Self {
        let total = Duration::from_secs_f64(seconds);
        let bar = (!quiet && stderr().is_terminal()).then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total.as_millis() as u64), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {prefix}, {msg} left");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { total, bar, quiet, left: total }
    }

    /// Starts a section.
    pub fn section(&mut self, title: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(title.to_owned());
                bar.set_message(clock(self.left));
            }
            None if self.quiet => {}
            None => output::note(&format!("measuring {title}, {} left", clock(self.left))),
        }
    }

    /// Sets the remaining time.
    pub fn set_remaining(&mut self, left: Duration) {
        self.left = left;
        if let Some(bar) = &self.bar {
            bar.set_message(clock(left));
            bar.set_position(self.total.saturating_sub(left).as_millis() as u64);
        }
    }

    /// Prints that something was skipped.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("skipped {text}")),
            None if self.quiet => {}
            None => output::note(&format!("skipped {text}")),
        }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Formats a time as `1 min 23 s`.
fn clock(time: Duration) -> String {
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(clock(Duration::from_millis(59_900)), "59 s");
        assert_eq!(clock(Duration::from_secs(61)), "1 min 01 s");
    }
}
