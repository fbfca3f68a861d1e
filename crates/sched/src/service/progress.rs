//! The progress of work, as a command of the user's prints it.

use crate::error::{Error, Result};
use std::{
    io::Read,
    process::{Command, Stdio},
};

/// Longest output that is read, in bytes.
const LONGEST: u64 = 4096;

/// A command that prints a number that grows with the work done.
#[derive(Clone, Debug)]
pub struct ProgressCommand(Vec<String>);

impl ProgressCommand {
    /// Takes the program and its arguments.
    pub fn new(words: Vec<String>) -> Self {
        Self(words)
    }

    /// Runs the command, and returns the number.
    ///
    /// # Errors
    /// [`Error::Progress`] if it cannot be started, fails, or prints no number.
    pub fn read(&self) -> Result<f64> {
        let failed = |why: String| Error::Progress { command: self.0.join(" "), why };
        let (program, arguments) = self.0.split_first().ok_or_else(|| failed("it is empty".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut text = String::new();
        let read = child.stdout.take().map(|output| output.take(LONGEST).read_to_string(&mut text));
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        if let Some(Err(error)) = read {
            return Err(failed(error.to_string()));
        }
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        number(&text).ok_or_else(|| failed("it printed no number".to_owned()))
    }
}

/// Returns the last number of a text.
fn number(text: &str) -> Option<f64> {
    let words =
        text.split(|letter: char| !letter.is_ascii_digit() && !matches!(letter, '.' | '-' | '+' | 'e' | 'E'));
    words.rev().find_map(|word| word.parse::<f64>().ok()).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_read() {
        assert_eq!(number("requests: 12 of 40\n"), Some(40.0));
        assert_eq!(number("total_commands_processed:1234\r\n"), Some(1234.0));
        assert_eq!(number("1.5e3"), Some(1500.0));
        assert_eq!(number("none"), None);
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_words() {
        let words = |text: &str| ProgressCommand::new(text.split(' ').map(str::to_owned).collect());
        assert_eq!(words("echo 7").read().unwrap(), 7.0);
        for command in ["false", "/no/such/program", "true"] {
            assert!(words(command).read().unwrap_err().to_string().contains(command), "{command}");
        }
    }
}
