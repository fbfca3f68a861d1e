//! Runs a program of this host to its end.

use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use std::{
    io,
    process::Command,
    slice,
    time::{Duration, Instant},
};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct LocalOutput {
    pub stdout: String,
    pub succeeded: bool,
    pub last_line: String,
}

/// Runs a program with an empty standard input for at most `limit`; it is killed if it takes longer, and `None` is returned.
pub(crate) fn output(program: &str, words: &[String], limit: Duration) -> io::Result<Option<LocalOutput>> {
    let mut command = Command::new(program);
    command.args(words);
    let mut job = Job::start(&mut command, &StartPlacement::default(), true)?;
    let end = Instant::now() + limit;
    while !job::wait(slice::from_mut(&mut job), end.saturating_duration_since(Instant::now()), &mut |_| {})? {
        if Instant::now() >= end {
            return Ok(None);
        }
    }
    Ok(Some(LocalOutput {
        stdout: String::from_utf8_lossy(job.output()).into_owned(),
        succeeded: job.ended().is_some_and(|usage| usage.status.success()),
        last_line: job.last_stderr_line().chars().take(300).collect(),
    }))
}
