//! Standard output and standard error. A terminal gets text without control characters, whatever names
//! processes have chosen.

use crate::Failure;
use manycore_guard::{Error, console::Console};
use manycore_text::names::{printable_json, printable_text};
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Prints on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { printable_text(text) } else { text.to_owned() };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Output(error),
    })
}

/// Prints a line on standard error. A line that cannot be printed is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_text(line));
}

/// Returns `value` as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(value);
    let json = json.map_err(|error| Error::System {
        what: "cannot write the answer as JSON".to_owned(),
        source: error.into(),
    })?;
    Ok(printable_json(&json) + "\n")
}

/// Standard output and standard error of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams;

impl Console for Streams {
    fn print(&mut self, text: &str) {
        let _ = print(text);
    }

    fn note(&mut self, line: &str) {
        note(line);
    }
}
