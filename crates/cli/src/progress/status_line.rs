//! A line on standard error that is redrawn in place.

use manycore_render::wrap::cut;
use manycore_text::names::printable;
use rustix::termios::tcgetwinsize;
use std::{
    env,
    io::{IsTerminal, Write, stderr},
};

/// Columns of a terminal that does not report its size.
const UNKNOWN_COLUMNS: usize = 80;

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
        let can_clear = env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
        (!quiet && can_clear && stderr().is_terminal()).then_some(Self { is_drawn: false })
    }

    /// Draws the start of `text` that fits the terminal. Errors are ignored: a run goes on without standard error.
    pub fn draw(&mut self, text: &str) {
        let columns = tcgetwinsize(stderr()).map_or(0, |size| size.ws_col.into());
        let columns = if columns == 0 { UNKNOWN_COLUMNS } else { columns };
        let text = printable(text);
        let _ = write!(stderr(), "\r{}\x1b[K", cut(&text, columns.saturating_sub(ECHO_COLUMNS)));
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
