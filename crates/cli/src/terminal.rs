//! The terminals on standard output and standard error: how wide they are, and whether they get colours.

use crate::cli::ColorChoice;
use manycore_render::terminal::Terminal;
use rustix::{
    fs::{FileType, fstat},
    termios::tcgetwinsize,
};
use std::{
    env,
    ffi::OsString,
    io::{IsTerminal, stderr, stdout},
    os::fd::AsFd,
};

/// Columns of a terminal that does not report its size.
const UNKNOWN_COLUMNS: usize = 80;

/// Reads the size of the terminal on standard output and the environment.
pub fn of_stdout(choice: ColorChoice) -> Terminal {
    let is_terminal = stdout().is_terminal();
    Terminal::new(stdout_columns(Terminal::FILE_COLUMNS), is_colored(choice, is_terminal, &variable))
}

/// Returns the columns for standard output: those of its terminal, or of the terminal on standard error if the output
/// goes into a pipe, which a pager shows there; otherwise `COLUMNS`, otherwise `default`.
pub fn stdout_columns(default: usize) -> usize {
    let reported = if stdout().is_terminal() {
        reported(stdout())
    } else if is_pipe(stdout()) && stderr().is_terminal() {
        reported(stderr())
    } else {
        None
    };
    columns(stdout().is_terminal(), reported, default, &variable)
}

/// Reads the size of the terminal on standard error, which gets no colours: programs that are run print there, too.
pub fn of_stderr() -> Terminal {
    Terminal::new(
        stderr_columns().unwrap_or_else(|| columns(false, None, Terminal::FILE_COLUMNS, &variable)),
        false,
    )
}

/// Returns the columns of the terminal on standard error; `None` if it is not a terminal.
pub fn stderr_columns() -> Option<usize> {
    let is_terminal = stderr().is_terminal();
    is_terminal.then(|| columns(true, reported(stderr()), UNKNOWN_COLUMNS, &variable))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Returns the columns that a terminal reports, which may be 0.
fn reported(terminal: impl AsFd) -> Option<usize> {
    tcgetwinsize(terminal).ok().map(|size| size.ws_col.into())
}

fn is_pipe(file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo)
}

/// Whether standard output is a terminal that can move its cursor.
pub fn stdout_is_screen() -> bool {
    stdout().is_terminal() && can_move_cursor()
}

/// Whether a terminal can move its cursor: with TERM empty or `dumb` it prints escape sequences.
pub fn can_move_cursor() -> bool {
    env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

/// Returns the width: that of a terminal, otherwise `COLUMNS`, otherwise that of a terminal or file of unknown width.
fn columns(
    is_terminal: bool,
    reported: Option<usize>,
    default: usize,
    variable: &dyn Fn(&str) -> Option<String>,
) -> usize {
    let requested = || variable("COLUMNS").and_then(|columns| columns.parse().ok());
    let default = if is_terminal { UNKNOWN_COLUMNS } else { default };
    [reported, requested()].into_iter().flatten().find(|&columns| columns > 0).unwrap_or(default)
}

/// Returns whether text is coloured. `auto` follows the conventions of <https://no-color.org> and
/// <https://bixense.com/clicolors>.
fn is_colored(choice: ColorChoice, is_terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let is_on = |name: &str| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => false,
        ColorChoice::Auto if is_on("CLICOLOR_FORCE") => true,
        ColorChoice::Auto => {
            is_terminal
                && variable("CLICOLOR").is_none_or(|value| value != "0")
                && variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
        }
    }
}

/// Finds `--color` on a command line that is not parsed yet, for the colours of help texts and errors. Words after
/// `--` belong to another command.
pub fn color_of_arguments(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut words =
        arguments.into_iter().take_while(|word| word != "--").map(|word| word.to_string_lossy().into_owned());
    let mut choice = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        choice = match value.as_deref() {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            Some("auto") => ColorChoice::Auto,
            _ => choice,
        };
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a variable in a list of `NAME=VALUE`.
    fn of<'a>(list: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| list.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn width_is_that_of_the_terminal_then_of_columns() {
        let none = of(&[]);
        assert_eq!(columns(true, Some(132), 100, &of(&[("COLUMNS", "70")])), 132);
        assert_eq!(columns(true, Some(0), 100, &of(&[("COLUMNS", "70")])), 70);
        assert_eq!([columns(true, Some(0), 100, &none), columns(true, None, 100, &none)], [80, 80]);
        assert_eq!(columns(false, None, 100, &of(&[("COLUMNS", "70")])), 70);
        // A pipe, with a terminal on standard error.
        assert_eq!(columns(false, Some(132), 100, &of(&[("COLUMNS", "70")])), 132);
        for wrong in ["", "0", "-1", "wide", "99999999999999999999999"] {
            assert_eq!(columns(false, None, 100, &of(&[("COLUMNS", wrong)])), 100, "{wrong}");
        }
    }

    #[test]
    fn colors_follow_the_conventions() {
        use ColorChoice::{Always, Auto, Never};
        let xterm = ("TERM", "xterm-256color");
        for (choice, is_terminal, variables, colored) in [
            (Auto, true, &[xterm][..], true),
            (Auto, false, &[xterm], false),
            (Auto, true, &[], false),
            (Auto, true, &[("TERM", "")], false),
            (Auto, true, &[("TERM", "dumb")], false),
            (Auto, true, &[xterm, ("NO_COLOR", "1")], false),
            (Auto, true, &[xterm, ("NO_COLOR", "")], true),
            (Auto, true, &[xterm, ("CLICOLOR", "0")], false),
            (Auto, false, &[("CLICOLOR_FORCE", "1")], true),
            (Auto, false, &[("CLICOLOR_FORCE", "0")], false),
            (Auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")], true),
            (Never, true, &[xterm, ("CLICOLOR_FORCE", "1")], false),
        ] {
            assert_eq!(is_colored(choice, is_terminal, &of(variables)), colored, "{choice:?} {variables:?}");
        }
    }

    #[test]
    fn color_is_found_before_the_command_only() {
        use ColorChoice::{Always, Auto, Never};
        let found = |line: &str| color_of_arguments(line.split(' ').map(OsString::from));
        assert_eq!(found("manycore --color never eval"), Never);
        assert_eq!(found("manycore eval --color=always --help"), Always);
        assert_eq!(found("manycore run -- ls --color=always"), Auto);
        assert_eq!([found("manycore --color"), found("manycore --color=blue")], [Auto, Auto]);
    }
}
