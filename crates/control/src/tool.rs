//! Runs a program to its end, with a time limit: those that manage containers and virtual machines, and commands of the user.
//!
//! A program that starts, pauses or ends a container must not be killed: it may have started or frozen a process and not
//! recorded that yet, and the process would never end then. So it is not killed with this process, and undo waits for its end.

use crate::cleanup::kill_marked;
use manycore_linux::{
    child::{self, StartPlacement},
    job::{self, Job},
    pidfd::open_pidfd,
    tasks,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{MemfdFlags, memfd_create},
    process::geteuid,
};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::unix::{fs::FileExt, process::CommandExt},
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
    run_unless(command, input, limit, &|| false)
}

/// As [`run`], but the program is also killed soon after `is_cancelled`.
///
/// # Errors
/// As [`run`]; [`io::ErrorKind::Interrupted`] if it was cancelled.
pub fn run_unless(
    command: &mut Command,
    input: Stdio,
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<ToolOutput> {
    let end = Instant::now() + limit;
    let started = Job::start_with_input(command, &StartPlacement::default(), true, input);
    let mut job = started.map_err(|error| cannot_start(command, &error))?;
    let status = loop {
        let left = end.saturating_duration_since(Instant::now()).min(CANCEL_INTERVAL);
        job::wait(slice::from_mut(&mut job), left, &mut |_| {})?;
        match job.ended() {
            Some(usage) => break usage.status,
            None if is_cancelled() => return Err(io::ErrorKind::Interrupted.into()),
            None if Instant::now() >= end => return Err(too_long(command, limit)),
            None => {}
        }
    };
    let output = String::from_utf8_lossy(job.output()).into_owned();
    Ok(ToolOutput { status, output, last: last_line(&job.stderr_tail()) })
}

/// Runs a program that starts, pauses or ends the instance `name`, in a process group of its own. It goes on if this process is killed. It is
/// killed only if it takes longer than `limit`. Its standard output is discarded.
///
/// # Errors
/// As [`run`].
pub fn change_instance(
    command: &mut Command,
    name: &str,
    input: Stdio,
    limit: Duration,
) -> io::Result<ToolOutput> {
    let end = Instant::now() + limit;
    // Unlike a pipe, a file is there for a program that survives its reader.
    let errors = File::from(memfd_create("errors", MemfdFlags::CLOEXEC)?);
    command.env(INSTANCE_VARIABLE, name).process_group(0);
    command.stdin(input).stdout(Stdio::null()).stderr(errors.try_clone()?);
    let started = child::spawn_detached(command, &StartPlacement::default());
    let mut program = started.map_err(|error| cannot_start(command, &error))?;
    let Some(status) = child::wait_until(&mut program, end)? else {
        child::kill(&mut program);
        return Err(too_long(command, limit));
    };
    let mut text = vec![0; LONGEST_ERRORS];
    let begin = errors.metadata()?.len().saturating_sub(LONGEST_ERRORS as u64);
    let length = errors.read_at(&mut text, begin)?;
    let last = last_line(&String::from_utf8_lossy(&text[..length]));
    Ok(ToolOutput { status, output: String::new(), last })
}

/// Environment variable of a program that changes an instance, with the name of the instance. The engines do not pass it on to
/// what they start. Also that of an instance without a control group, and all that it starts.
pub const INSTANCE_VARIABLE: &str = "MANYCORE_INSTANCE";

/// Number of bytes of standard error in which the last line is searched.
const LONGEST_ERRORS: usize = 16 << 10;

/// Waits until the programs that change these instances have ended. After a minute they are killed. Only processes of our own
/// user count: others could make us wait.
pub(crate) fn wait_for_changes(names: &BTreeSet<&str>) {
    let deadline = Instant::now() + LIMIT;
    let marks: Vec<String> = names.iter().map(|name| format!("{INSTANCE_VARIABLE}={name}")).collect();
    let is_one = |pid: u32| {
        let is_ours = tasks::users(pid).is_some_and(|users| users == [geteuid().as_raw(); 2]);
        is_ours && marks.iter().any(|mark| tasks::has_environment(pid, mark))
    };
    while let Some(pid) = tasks::all().into_iter().find(|&pid| is_one(pid)) {
        if let Ok(process) = open_pidfd(pid) {
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&child::left(deadline)));
        }
        if Instant::now() >= deadline {
            for mark in &marks {
                kill_marked(mark);
            }
            return;
        }
    }
}

/// Returns the last line that is not empty.
fn last_line(text: &str) -> String {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    last.trim().chars().take(LONGEST_LINE).collect()
}

fn too_long(command: &Command, limit: Duration) -> io::Error {
    let program = command.get_program().display();
    let why = format!("{program} did not end within {} s", limit.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, why)
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

/// Maximum time between two checks whether a program is to be cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest line that is kept, in characters.
const LONGEST_LINE: usize = 300;

/// Ends the instance `name` by a program that must succeed.
///
/// # Errors
/// As [`succeed`].
pub(crate) fn end_instance(command: &mut Command, name: &str) -> io::Result<()> {
    let done = change_instance(command, name, Stdio::null(), LIMIT)?;
    checked(command, done).map(drop)
}

/// Runs a program that must succeed, and returns its output.
///
/// # Errors
/// As [`run`]; the last line of its standard error if it fails.
pub(crate) fn succeed(command: &mut Command) -> io::Result<String> {
    let done = run(command, Stdio::null(), LIMIT)?;
    checked(command, done)
}

fn checked(command: &Command, done: ToolOutput) -> io::Result<String> {
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

    /// Regression test: a container whose start was killed kept a process that nothing knew.
    #[test]
    fn the_start_of_an_instance_is_waited_for() {
        let name = format!("manycore-test-{}", std::process::id());
        let done = change_instance(&mut shell("echo why >&2; exit 3"), &name, Stdio::null(), LIMIT).unwrap();
        assert_eq!((done.status.code(), done.last.as_str()), (Some(3), "why"));
        let error =
            change_instance(&mut shell("sleep 1000"), &name, Stdio::null(), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // It ends when its input does.
        let mut slow = shell("read line");
        let mut slow = slow.env(INSTANCE_VARIABLE, &name).stdin(Stdio::piped()).spawn().unwrap();
        let input = slow.stdin.take();
        while !tasks::has_environment(slow.id(), &format!("{INSTANCE_VARIABLE}={name}")) {
            std::thread::yield_now();
        }
        let waiting = std::thread::spawn(move || wait_for_changes(&[name.as_str()].into()));
        assert!(!waiting.is_finished());
        drop(input);
        // A process that nothing has waited for has no environment.
        waiting.join().unwrap();
        assert_eq!(slow.wait().unwrap().code(), Some(1));
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
        let error = run_unless(&mut shell("sleep 1000"), Stdio::null(), LIMIT, &|| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
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
