//! A line on standard error that is redrawn in place.

use crate::terminal;
use manycore_render::wrap::{columns_of, cut};
use manycore_text::names::printable;
use std::io::{IsTerminal, Write, stderr};

/// Columns that stay empty at the end, for the `^C` that a terminal shows: it must not begin a new line.
const ECHO_COLUMNS: usize = 3;

/// A line that is drawn and cleared. It is also cleared when it is dropped, so that no error leaves a part of it.
pub struct StatusLine {
    is_drawn: bool,
}

impl StatusLine {
    /// Returns `None` if nothing is to be drawn: with `quiet`, without a terminal on standard error, and on a terminal
    /// that cannot clear a line.
    pub fn of_stderr(quiet: bool) -> Option<Self> {
        (!quiet && terminal::can_move_cursor() && stderr().is_terminal()).then_some(Self { is_drawn: false })
    }

    /// Draws the first of several forms of a text that fits the terminal, the longest of which comes first. Errors are
    /// ignored: a run goes on without standard error.
    pub fn draw(&mut self, forms: &[String]) {
        let columns = terminal::stderr_columns().unwrap_or_default().saturating_sub(ECHO_COLUMNS);
        let _ = write!(stderr(), "\r{}\x1b[K", fitting(forms, columns));
        self.is_drawn = true;
    }

    /// Clears the line.
    pub fn clear(&mut self) {
        if self.is_drawn {
            let _ = write!(stderr(), "\r\x1b[K");
            self.is_drawn = false;
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the first form of at most so many columns; the start of the last one if none is so short.
fn fitting(forms: &[String], columns: usize) -> String {
    let mut shown = forms.iter().map(|form| printable(form));
    let Some(last) = forms.last().map(|form| printable(form)) else { return String::new() };
    let fits = shown.find(|form| columns_of(form) <= columns);
    fits.unwrap_or_else(|| cut(&last, columns).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_form_that_fits_is_drawn() {
        let forms = ["10 s elapsed, 5 s left", "5 s left"].map(str::to_owned);
        assert_eq!(fitting(&forms, 22), forms[0]);
        assert_eq!([fitting(&forms, 21), fitting(&forms, 8)], [forms[1].clone(), forms[1].clone()]);
        assert_eq!([fitting(&forms, 4), fitting(&forms, 0), fitting(&[], 9)], ["5 s", "", ""]);
    }
}
