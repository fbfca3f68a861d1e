//! Standard output, standard error, and files that are written whole or not at all.

use crate::failure::{Failure, Outcome};
use manycore_linux::whole_file;
use manycore_text::names::{printable_json, printable_text};
use serde::Serialize;
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    path::Path,
};

/// Writes `text` to standard output; a reader that went away ends the run quietly. A terminal gets it without what
/// would command it ([`printable_text`]), wherever in the text that comes from; a file or a program gets all of it.
///
/// # Errors
/// [`Failure::ReaderGone`] on a closed pipe, [`Failure::Missing`] on any other error.
pub fn print(text: &str) -> Outcome {
    if io::stdout().is_terminal() { print_raw(&printable_text(text)) } else { print_raw(text) }
}

/// Writes `text`, which commands the terminal itself, to standard output.
///
/// # Errors
/// Those of [`print()`].
pub fn print_raw(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| failure("to standard output", &error))
}

/// `value` as JSON that people can read too, with a last newline.
///
/// # Errors
/// [`Failure::Missing`] where it cannot be put into JSON.
pub fn json(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(value).map(|json| printable_json(&json) + "\n").map_err(Failure::missing)
}

/// Prints a line for people on standard error, in which names that others have chosen cannot command the terminal.
/// Where nobody can read it, nothing is lost: the run goes on.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_text(line));
}

/// Writes a file: see [`whole_file::write`].
///
/// # Errors
/// [`Failure::Missing`] with the path where the directory cannot be written or the disk is full,
/// [`Failure::ReaderGone`] where the path is a pipe that was closed.
pub fn write_file(path: &Path, contents: &[u8]) -> Outcome {
    whole_file::write(path, contents).map_err(|error| failure(&path.display().to_string(), &error))
}

/// Whether [`write_file`] could begin now: what is seen in a long run should not be lost for want of a place.
///
/// # Errors
/// [`Failure::Missing`] with the path where no file can be made beside it, or it cannot be looked at.
pub fn check_file(path: &Path) -> Outcome {
    whole_file::check(path).map_err(|error| failure(&path.display().to_string(), &error))
}

fn failure(place: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::missing(format!("cannot write {place}: {error}")),
    }
}
