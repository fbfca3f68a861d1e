//! Standard output, standard error, and files that are written whole or not at all.

use crate::{
    cli::{ExtentArgs, Format},
    failure::{Failure, Outcome},
    terminal,
};
use manycore_experiment::session::Event;
use manycore_linux::{absent_process::hidden_others, whole_file};
use manycore_render::{document::Document, terminal::Terminal, wrap::wrap_message};
use manycore_report::NamedEvaluation;
use manycore_text::names::{printable_json, printable_text};
use serde::Serialize;
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    path::Path,
};

/// Writes `text` to standard output. On a terminal, control characters are replaced ([`printable_text`]),
/// whatever part of the text they come from. Files and pipes get the text unchanged.
///
/// # Errors
/// [`Failure::ReaderGone`] on a closed pipe, which ends the run without a message. [`Failure::Missing`] on
/// any other error.
pub fn print(text: &str) -> Outcome {
    if io::stdout().is_terminal() { print_raw(&printable_text(text)) } else { print_raw(text) }
}

/// Writes a result in the requested format: `document` makes what is read, `value` what is written as JSON.
///
/// # Errors
/// Those of [`print()`] and [`json()`].
pub fn result(
    format: Format,
    terminal: Terminal,
    value: &impl Serialize,
    document: impl FnOnce() -> Document,
) -> Outcome {
    written(format, terminal, || json(value), document)
}

/// Writes a document that has no other format than text. It has no control characters but those of its colours.
///
/// # Errors
/// Those of [`print()`].
pub fn document(document: &Document, terminal: Terminal) -> Outcome {
    print_raw(&document.text(terminal))
}

/// Writes the evaluation of records.
///
/// # Errors
/// Those of [`print()`].
pub fn evaluations(
    all: &[NamedEvaluation],
    format: Format,
    extent: ExtentArgs,
    terminal: Terminal,
) -> Outcome {
    let document = || manycore_report::document(all, extent.extent());
    written(format, terminal, || Ok(manycore_report::json(all)), document)
}

fn written(
    format: Format,
    terminal: Terminal,
    json: impl FnOnce() -> Outcome<String>,
    document: impl FnOnce() -> Document,
) -> Outcome {
    match format {
        Format::Json => print(&json()?),
        Format::Text => self::document(&document(), terminal),
        Format::Markdown => print_raw(&document().markdown()),
        Format::Csv => print_raw(&document().csv()),
    }
}

/// Writes `text`, which contains control sequences for the terminal, to standard output unchanged.
///
/// # Errors
/// Those of [`print()`].
pub fn print_raw(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| failure("to standard output", &error))
}

/// Returns `value` as indented JSON with a final newline.
///
/// # Errors
/// [`Failure::Missing`] if it cannot be converted to JSON.
pub fn json(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(value).map(|json| printable_json(&json) + "\n").map_err(Failure::missing)
}

/// Runs `run` with standard output redirected to standard error, so that the output of a command does not mix
/// with our own. Restores it afterwards.
///
/// # Errors
/// Those of `run`; [`Failure::Missing`] if a descriptor cannot be duplicated.
pub fn with_stdout_on_stderr<T>(run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let ours = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3).map_err(Failure::missing)?;
    rustix::stdio::dup2_stdout(io::stderr()).map_err(Failure::missing)?;
    let result = run();
    rustix::stdio::dup2_stdout(ours).map_err(Failure::missing)?;
    result
}

/// Prints a message on standard error, wrapped on a terminal. Control characters are replaced, as names in it may come
/// from other users. Errors are ignored, so that a run continues if standard error is closed.
pub fn note(message: &str) {
    let message = printable_text(message);
    match terminal::stderr_columns() {
        Some(columns) => layout_note(&wrap_message(&message, columns.min(Terminal::MAX_SENTENCE))),
        None => layout_note(&message),
    }
}

/// Prints a note if `/proc` hides processes of other users.
pub fn note_hidden() {
    if let Some(message) = hidden_others() {
        note(&format!("manycore: {message}"));
    }
}

/// Prints the note of an event.
pub fn note_event(event: Event) {
    if let Event::Note(text) = event {
        note(&format!("manycore: {text}"));
    }
}

/// Prints a message on standard error whose lines are laid out already.
pub fn layout_note(lines: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_text(lines));
}

/// Writes a file: see [`whole_file::write`].
///
/// # Errors
/// [`Failure::Missing`] with the path where the directory cannot be written or the disk is full,
/// [`Failure::ReaderGone`] where the path is a pipe that was closed.
pub fn write_file(path: &Path, contents: &[u8]) -> Outcome {
    whole_file::write(path, contents).map_err(|error| failure(&path.display().to_string(), &error))
}

/// Checks that [`write_file`] could start now, so that the results of a long run are not lost at its end.
///
/// # Errors
/// [`Failure::Missing`] with the path if no file can be created in its folder or its metadata cannot be read.
pub fn check_file(path: &Path) -> Outcome {
    whole_file::check(path).map_err(|error| failure(&path.display().to_string(), &error))
}

fn failure(place: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::missing(format!("cannot write {place}: {error}")),
    }
}
