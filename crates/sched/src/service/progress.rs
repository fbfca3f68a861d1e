//! The progress of work, as a command of the user's prints it.

use crate::error::{Error, Result};
use manycore_linux::child;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Longest output that is read, in bytes.
const LONGEST: usize = 1 << 20;
/// The command has to end within this time.
const LIMIT: Duration = Duration::from_secs(5);

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
    /// [`Error::Progress`] if it cannot be started, fails, does not end within 5 s, or prints no number.
    pub fn read(&self) -> Result<f64> {
        self.read_within(LIMIT)
    }

    fn read_within(&self, limit: Duration) -> Result<f64> {
        let failed = |why: String| Error::Progress { command: self.0.join(" "), why };
        let (program, arguments) = self.0.split_first().ok_or_else(|| failed("it is empty".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut started = child::spawn(&mut command).map_err(|error| failed(error.to_string()))?;
        let output = output_within(&mut started, Instant::now() + limit);
        if !matches!(output, Ok((_, Some(_)))) {
            child::kill(&mut started);
        }
        match output.map_err(|error| failed(error.to_string()))? {
            (_, None) => Err(failed(format!("it did not end within {} s", limit.as_secs_f64()))),
            (_, Some(status)) if !status.success() => Err(failed(status.to_string())),
            (text, Some(_)) => number(&text).ok_or_else(|| failed("it printed no number".to_owned())),
        }
    }
}

/// Returns what a program prints, and its exit status if it ends until `deadline`.
fn output_within(child: &mut Child, deadline: Instant) -> io::Result<(String, Option<ExitStatus>)> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    if let Some(mut output) = child.stdout.take() {
        loop {
            match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&child::left(deadline))) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let read = output.read(&mut part)?;
            if read == 0 {
                break;
            }
            bytes.extend_from_slice(&part[..read]);
            if bytes.len() > LONGEST {
                return Err(io::Error::other("it prints more than a MiB"));
            }
        }
    }
    let status = child::wait_until(child, deadline)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), status))
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

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let command = ProgressCommand::new(["sh", "-c", "echo 1; sleep 1000"].map(str::to_owned).to_vec());
        let error = command.read_within(Duration::from_millis(200)).unwrap_err().to_string();
        assert!(error.contains("it did not end within 0.2 s"), "{error}");
    }

    #[test]
    fn the_last_number_of_a_long_output_is_read() {
        let command = ["sh", "-c", "yes 0123456789 | head -n 9000; printf '\\303 42\\n'"].map(str::to_owned);
        assert_eq!(ProgressCommand::new(command.to_vec()).read().unwrap(), 42.0);
    }
}
