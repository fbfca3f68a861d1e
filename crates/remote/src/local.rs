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

/// How often it is asked whether a program is to be stopped.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a program with an empty standard input for at most `limit`; it is killed if it takes longer, and `None` is returned.
/// It is also killed when `stops` is true of the last line of its standard error: then it has not succeeded.
pub(crate) fn output(
    program: &str,
    words: &[String],
    limit: Duration,
    stops: &dyn Fn(&str) -> bool,
) -> io::Result<Option<LocalOutput>> {
    let mut command = Command::new(program);
    command.args(words);
    let mut job = Job::start(&mut command, &StartPlacement::default(), true)?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if job::wait(slice::from_mut(&mut job), left.min(LOOK), &mut |_| {})?
            || stops(&job.last_stderr_line())
        {
            break;
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
    Ok(Some(LocalOutput {
        stdout: String::from_utf8_lossy(job.output()).into_owned(),
        succeeded: job.ended().is_some_and(|usage| usage.status.success()),
        last_line: job.last_stderr_line().chars().take(300).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_by_itself_or_is_stopped_or_late() {
        let run = |script: &str, ms: u64| {
            let words = ["-c".to_owned(), script.to_owned()];
            let limit = Duration::from_millis(ms);
            output("sh", &words, limit, &|line| line.contains("retrying")).unwrap()
        };
        let ended = run("echo a; echo b >&2", 60_000).unwrap();
        assert!(ended.succeeded && ended.stdout == "a\n" && ended.last_line == "b", "{ended:?}");
        let stopped = run("echo sleeping and retrying >&2; sleep 600", 60_000).unwrap();
        assert!(!stopped.succeeded && stopped.last_line == "sleeping and retrying", "{stopped:?}");
        assert!(run("sleep 600", 10).is_none());
    }
}
