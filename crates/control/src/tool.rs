//! Runs a program to its end, with a time limit: those that manage containers and virtual machines, and commands of the user.

use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use std::{
    io,
    process::{Command, ExitStatus, Stdio},
    slice,
    time::{Duration, Instant},
};

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// The last line of standard error that is not empty; empty if there is none.
    pub last: String,
}

/// Runs `command` in a process group of its own, with this standard input. It is killed with its group if it takes longer
/// than `limit`, and when the calling thread ends. What it leaves running is not waited for.
///
/// # Errors
/// Those of starting a program; [`io::ErrorKind::TimedOut`].
pub fn run(command: &mut Command, input: Stdio, limit: Duration) -> io::Result<ToolOutput> {
    let end = Instant::now() + limit;
    let started = Job::start_with_input(command, &StartPlacement::default(), true, input);
    let mut job = started.map_err(|error| cannot_start(command, &error))?;
    let status = loop {
        job::wait(slice::from_mut(&mut job), end.saturating_duration_since(Instant::now()), &mut |_| {})?;
        match job.ended() {
            Some(usage) => break usage.status,
            None if Instant::now() >= end => {
                let program = command.get_program().display();
                let why = format!("{program} did not end within {} s", limit.as_secs_f64());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            None => {}
        }
    };
    let errors = job.stderr_tail();
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Ok(ToolOutput {
        status,
        output: String::from_utf8_lossy(job.output()).into_owned(),
        last: last.trim().chars().take(LONGEST_LINE).collect(),
    })
}

/// Names the program in an error of starting it.
fn cannot_start(command: &Command, error: &io::Error) -> io::Error {
    let program = command.get_program().display();
    let why = match error.kind() {
        io::ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("cannot start {program}: {error}"),
    };
    io::Error::new(error.kind(), why)
}

/// Longest line that is kept, in characters.
const LONGEST_LINE: usize = 300;

/// Runs a program that must succeed, and returns its output.
///
/// # Errors
/// As [`run`]; the last line of its standard error if it fails.
pub(crate) fn succeed(command: &mut Command) -> io::Result<String> {
    let done = run(command, Stdio::null(), LIMIT)?;
    if done.status.success() {
        return Ok(done.output);
    }
    let program = command.get_program().display();
    Err(io::Error::other(format!("{program} failed ({}): {}", done.status, done.last)))
}

/// Maximum time that a program which manages instances may take.
const LIMIT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_runs_to_its_end_but_not_longer_than_its_limit() {
        let done = run(&mut shell("echo one; echo two >&2; echo >&2; exit 3"), Stdio::null(), LIMIT).unwrap();
        assert_eq!((done.status.code(), done.output.as_str(), done.last.as_str()), (Some(3), "one\n", "two"));
        let error = run(&mut shell("sleep 1000"), Stdio::null(), Duration::from_millis(20)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::TimedOut, "sh did not end within 0.02 s".into())
        );
        assert_eq!(succeed(&mut shell("echo yes")).unwrap(), "yes\n");
        let error = succeed(&mut shell("echo why >&2; exit 1")).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status: 1): why");
        let error = succeed(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::NotFound, "no-such-program is not installed".into())
        );
    }
}
