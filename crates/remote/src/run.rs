//! Runs a command on another host to its end.

use crate::{Error, RemoteConnection, Result, supervised};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use std::{
    io::{self, PipeWriter},
    time::{Duration, Instant},
};

/// Exit status of a shell whose program does not exist or is not executable.
const NOT_STARTED: [i32; 2] = [126, 127];
/// Exit status of ssh if it fails itself.
const OF_SSH: i32 = 255;

/// What a command on another host printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOutput {
    /// Its standard output.
    pub stdout: String,
    /// Whether it exited with status 0.
    pub succeeded: bool,
    /// The last line of its standard error.
    pub last_line: String,
}

impl RemoteConnection {
    /// Starts a command there, whose standard output is kept and whose standard input is the pipe: a command that is
    /// [`supervised`] ends when it is closed. `session` is its number, from 0, among those that run at the same time: a server
    /// takes a few over one connection only, so that further ones are opened.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn start(&self, session: usize, words: &[String]) -> Result<(Job, PipeWriter)> {
        let mut command = self.command(session, words)?;
        let (reader, input) =
            io::pipe().map_err(|source| Error::System { what: "cannot create a pipe", source })?;
        let job = Job::start_with_input(&mut command, &StartPlacement::default(), true, reader.into());
        let program = || command.get_program().to_string_lossy().into_owned();
        Ok((job.map_err(|source| of_start(program(), self.host(), source))?, input))
    }

    /// Runs a short command there, with an empty standard input, for at most `limit`. It is killed if it takes longer.
    ///
    /// # Errors
    /// [`Error::MissingThere`]; [`Error::Lost`]; [`Error::TooLate`]; [`Error::System`].
    pub fn output(&self, words: &[String], limit: Duration) -> Result<RemoteOutput> {
        let (job, _input) = self.start(0, &supervised(words))?;
        let mut jobs = [job];
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let has_ended = job::wait(&mut jobs, left, &mut |_| {})
                .map_err(|source| Error::System { what: "cannot wait for a command", source })?;
            if has_ended {
                break;
            }
            if left.is_zero() {
                return Err(Error::TooLate { host: self.host().clone(), seconds: limit.as_secs() });
            }
        }
        if let Some(error) = self.failure(&jobs[0], words.first().map_or("", String::as_str)) {
            return Err(error);
        }
        let usage = jobs[0].ended();
        Ok(RemoteOutput {
            stdout: String::from_utf8_lossy(jobs[0].output()).into_owned(),
            succeeded: usage.is_some_and(|usage| usage.status.success()),
            last_line: last_line(&jobs[0]),
        })
    }

    /// Returns why a wrapped command that has ended failed, if that is not for a reason of its own: the program is missing
    /// there, or the connection has ended.
    pub fn failure(&self, job: &Job, program: &str) -> Option<Error> {
        let host = || self.host().clone();
        let code = job.ended()?.status.code();
        match code {
            Some(code) if NOT_STARTED.contains(&code) => {
                Some(Error::MissingThere { program: program.to_owned(), host: host(), why: last_line(job) })
            }
            // A command that was killed there ends so as well.
            Some(OF_SSH) if self.is_lost() => Some(Error::Lost { host: host(), why: last_line(job) }),
            // The process here was killed.
            None => Some(Error::Lost { host: host(), why: "its process here was killed".to_owned() }),
            Some(_) => None,
        }
    }
}

/// Returns why a program that reaches a host cannot be started.
pub(crate) fn of_start(program: String, host: &crate::RemoteHost, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::NotFound {
        return Error::MissingProgram { program, host: host.clone() };
    }
    Error::System { what: "cannot start the program that reaches a host", source }
}

/// Returns the last line of standard error that a wrapped command printed, at most 300 characters: one that begins with
/// `error:` if there is one, as hints may follow it, or the message of a panic. srun adds lines of its own.
pub fn last_line(job: &Job) -> String {
    let text = job.stderr_tail();
    let last = telling_line(&text);
    last.map_or_else(|| job.last_stderr_line(), |line| line.trim().chars().take(300).collect())
}

fn telling_line(text: &str) -> Option<&str> {
    let own: Vec<&str> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("srun: ")).collect();
    let error = own.iter().rfind(|line| line.starts_with("error:"));
    // The message is on the next line.
    let is_panic = |line: &&str| line.starts_with("thread '") && line.contains(" panicked at ");
    let panic = || own.get(own.iter().rposition(is_panic)? + 1);
    error.or_else(panic).or(own.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_why_is_found() {
        let panic = "\nthread 'main' (15592) panicked at src/a.rs:1:11:\nsrun: error: x\nvalue is NaN\n\
                     note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(telling_line(panic), Some("value is NaN"));
        assert_eq!(telling_line("error: no such file\n\n  tip: a\n"), Some("error: no such file"));
        assert_eq!(telling_line("manycore: no\nsrun: error: n1: task 0: Exited\n"), Some("manycore: no"));
        assert_eq!(telling_line("srun: x\n\n"), None);
    }
}
