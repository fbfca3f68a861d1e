//! Runs a command to its end: captures its output, measures what it used, and ends all processes that it left behind.

use crate::{
    child::{self, StartPlacement},
    tasks,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use std::{
    collections::BTreeSet,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

/// Maximum number of bytes of standard output that are kept; the rest is read and discarded.
pub const MAX_OUTPUT: usize = 64 << 20;

/// Maximum number of bytes of standard error that are kept: the last ones.
pub const MAX_STDERR: usize = 64 << 10;

/// Maximum number of chunks that are read from a pipe at once. This is more than a pipe can hold (1 MiB,
/// `/proc/sys/fs/pipe-max-size`), and it bounds the loop if a process writes faster than we read.
const MAX_CHUNKS: usize = 128;

/// A running command.
#[derive(Debug)]
pub struct Job {
    pid: Pid,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    output: Vec<u8>,
    stderr_tail: Vec<u8>,
    output_truncated: bool,
    stderr_truncated: bool,
    ended: Option<JobUsage>,
}

/// Resources that a command used, as reported by `wait4(2)`: its own and those of children it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobUsage {
    /// Its exit status.
    pub status: ExitStatus,
    /// User and system time.
    pub cpu: Duration,
    /// System time: the part of it in the kernel.
    pub system: Duration,
    /// Largest resident set size (RSS) of any of its processes, in bytes.
    pub max_rss_bytes: u64,
}

impl Job {
    /// Starts `command` like [`child::spawn`], with the CPUs and memory policy of `start`. Standard input is empty.
    /// Standard output is kept if `keep` is true, and discarded otherwise. Standard error is kept for messages.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn start(command: &mut Command, start: &StartPlacement, keep: bool) -> io::Result<Self> {
        Self::start_with_input(command, start, keep, Stdio::null())
    }

    /// Does the same as [`Self::start`], with this standard input.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn start_with_input(
        command: &mut Command,
        start: &StartPlacement,
        keep: bool,
        input: Stdio,
    ) -> io::Result<Self> {
        command.stdin(input).stderr(Stdio::piped());
        command.stdout(if keep { Stdio::piped() } else { Stdio::null() });
        let mut child = child::spawn_placed(command, start)?;
        let pid = Pid::from_child(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| child::kill(&mut child))?;
        for pipe in [stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten()
        {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(Self {
            pid,
            pidfd,
            stdout,
            stderr,
            output: Vec::new(),
            stderr_tail: Vec::new(),
            output_truncated: false,
            stderr_truncated: false,
            ended: None,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Returns its exit status and resources, once [`wait`] has seen it exit.
    pub fn ended(&self) -> Option<JobUsage> {
        self.ended
    }

    /// Returns the standard output so far.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Returns whether it wrote more than [`MAX_OUTPUT`].
    pub fn output_truncated(&self) -> bool {
        self.output_truncated
    }

    /// Returns the end of standard error, at most 64 KiB.
    pub fn stderr_tail(&self) -> String {
        String::from_utf8_lossy(&self.stderr_tail).into_owned()
    }

    /// Returns whether it wrote more than [`MAX_STDERR`] to standard error.
    pub fn stderr_truncated(&self) -> bool {
        self.stderr_truncated
    }

    /// Returns the last line of standard error that is not empty, for messages.
    pub fn last_stderr_line(&self) -> String {
        let text = self.stderr_tail();
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(
            || "it wrote nothing to standard error".to_owned(),
            |line| line.trim().chars().take(300).collect(),
        )
    }

    /// Sends `signal` to its whole process group.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Reads the available output.
    fn drain(&mut self) {
        let mut chunk = [0; 16 << 10];
        if let Some(pipe) = &mut self.stdout {
            for _ in 0..MAX_CHUNKS {
                let Some(count) = read_chunk(pipe, &mut chunk) else { break };
                let room = MAX_OUTPUT - self.output.len();
                self.output.extend_from_slice(&chunk[..count.min(room)]);
                self.output_truncated |= count > room;
            }
        }
        if let Some(pipe) = &mut self.stderr {
            for _ in 0..MAX_CHUNKS {
                let Some(count) = read_chunk(pipe, &mut chunk) else { break };
                self.stderr_tail.extend_from_slice(&chunk[..count]);
                let excess = self.stderr_tail.len().saturating_sub(MAX_STDERR);
                self.stderr_tail.drain(..excess);
                self.stderr_truncated |= excess > 0;
            }
        }
    }

    /// Reads the remaining output, and reaps the command if it has exited.
    fn reap(&mut self) -> io::Result<()> {
        self.drain();
        if self.ended.is_none() {
            self.ended = child::reap(self.pid)?.map(|(status, usage)| ended(status, &usage));
        }
        Ok(())
    }
}

/// Waits until one of the `jobs` that still run exits or writes output, at most for `timeout`. A signal to us also
/// ends the wait. Returns whether all have exited. `on_exit` is called with each exited process before it is reaped.
///
/// # Errors
/// Those of `poll(2)` and `wait4(2)`.
pub fn wait(jobs: &mut [Job], timeout: Duration, on_exit: &mut dyn FnMut(&Job)) -> io::Result<bool> {
    let limit = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    let mut descriptors: Vec<PollFd> = Vec::new();
    for job in jobs.iter().filter(|job| job.ended.is_none()) {
        descriptors.push(PollFd::new(&job.pidfd, PollFlags::IN));
        descriptors.extend(job.stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        descriptors.extend(job.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    }
    if descriptors.is_empty() {
        return Ok(true);
    }
    match poll(&mut descriptors, Some(&limit)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    for job in jobs.iter_mut().filter(|job| job.ended.is_none()) {
        if ready(&job.pidfd)? {
            on_exit(job);
            job.reap()?;
        } else {
            job.drain();
            job.close_finished();
        }
    }
    Ok(jobs.iter().all(|job| job.ended.is_some()))
}

impl Job {
    /// Closes pipes whose other end is closed, because `poll(2)` would always report them as ready.
    fn close_finished(&mut self) {
        let closed = |pipe: &dyn AsFd| {
            let mut one = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
            poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
                && one[0].revents().contains(PollFlags::HUP)
                && !one[0].revents().contains(PollFlags::IN)
        };
        if self.stdout.as_ref().is_some_and(|pipe| closed(pipe)) {
            self.stdout = None;
        }
        if self.stderr.as_ref().is_some_and(|pipe| closed(pipe)) {
            self.stderr = None;
        }
    }
}

impl Drop for Job {
    /// Kills and reaps a command that is still running.
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            let _ = child::reap_blocking(self.pid);
        }
    }
}

fn ready(pidfd: &OwnedFd) -> io::Result<bool> {
    let mut one = [PollFd::new(pidfd, PollFlags::IN)];
    Ok(poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

fn read_chunk(pipe: &mut impl Read, chunk: &mut [u8]) -> Option<usize> {
    loop {
        match pipe.read(chunk) {
            Ok(0) => return None,
            Ok(count) => return Some(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn time(value: libc::timeval) -> Duration {
    Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000)
}

/// Waits for child `pid` to exit, and reaps it.
///
/// # Errors
/// Those of `wait4(2)`, such as when it is not a child of ours.
pub fn reap(pid: u32) -> io::Result<JobUsage> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let (status, usage) = child::reap_blocking(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(ended(status, &usage))
}

fn ended(status: i32, usage: &libc::rusage) -> JobUsage {
    JobUsage {
        status: ExitStatus::from_raw(status),
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        system: time(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// Returns the CPU time of all children that this process has waited for, and of their children (`getrusage(2)`).
#[allow(unsafe_code, reason = "getrusage fills a structure")]
pub fn reaped_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::zeroed();
    // SAFETY: the pointer is to memory of the right type; all bits zero is a valid value of it.
    let usage: libc::rusage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Makes this process the subreaper of its descendants (`PR_SET_CHILD_SUBREAPER`), so that orphans become its
/// children. Also resets SIGCHLD to its default, so that the kernel keeps exit statuses even if we were
/// started with SIGCHLD ignored.
///
/// # Errors
/// Those of `prctl(2)`.
#[allow(unsafe_code, reason = "signal(2)")]
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Kills and reaps children of this process that are not in `known` and for which `is_leftover` returns true,
/// with their descendants. Returns their names. Requires that [`adopt_orphans`] was called.
pub fn end_leftover_processes(known: &BTreeSet<u32>, is_leftover: &dyn Fn(u32) -> bool) -> Vec<String> {
    let (mut names, mut spared) = (Vec::new(), BTreeSet::new());
    loop {
        let children = tasks::children(std::process::id()).into_iter();
        let leftovers: Vec<u32> =
            children.filter(|pid| !known.contains(pid) && !spared.contains(pid)).collect();
        if leftovers.is_empty() {
            return names;
        }
        for leftover in leftovers {
            let Some(pid) = Pid::from_raw(leftover as i32) else { continue };
            // A zombie is an orphan that has already exited: it is only reaped.
            if !matches!(child::reap(pid), Ok(None)) {
                continue;
            }
            let name = tasks::name(leftover);
            // A process of another user (set-user-ID) cannot be killed, and may never exit.
            if is_leftover(leftover) && rustix::process::kill_process(pid, Signal::KILL).is_ok() {
                names.extend(name);
                let _ = child::reap_blocking(pid);
            } else {
                spared.insert(leftover);
            }
        }
    }
}

/// Returns the note about a program that [`end_leftover_processes`] ended.
pub fn leftover_note(name: &str) -> String {
    format!(
        "{name} was still running when the command exited, and was ended: run servers in the foreground (for example \
         redis-server --daemonize no, nginx -g 'daemon off;')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Job {
        let job =
            Job::start(Command::new("sh").args(["-c", script]), &StartPlacement::default(), true).unwrap();
        let mut jobs = [job];
        while !wait(&mut jobs, Duration::from_secs(1), &mut |_| {}).unwrap() {}
        let [job] = jobs;
        job
    }

    #[test]
    fn a_job_reports_its_output_status_and_resources() {
        let job = run("echo hello; echo oops >&2; echo >&2; exit 3");
        assert_eq!((job.output(), job.last_stderr_line().as_str()), (&b"hello\n"[..], "oops"));
        let ended = job.ended().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.max_rss_bytes > 100_000 && ended.cpu < Duration::from_secs(5));
    }

    #[test]
    fn a_gigabyte_is_read_and_discarded() {
        let job = run("head -c 1000000000 /dev/zero; exec >&-; head -c 1000000 /dev/zero >&2");
        assert!(
            job.output_truncated() && job.output().len() == MAX_OUTPUT && job.stderr_tail.len() <= MAX_STDERR
        );
        assert!(job.ended().unwrap().status.success());
    }

    #[test]
    fn a_dropped_job_is_killed() {
        let job = Job::start(Command::new("sleep").arg("1000"), &StartPlacement::default(), false).unwrap();
        let pid = job.pid();
        drop(job);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
