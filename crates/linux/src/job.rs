//! A command that runs to its end, with everything that it starts: its output, what it used, and no process
//! of it left behind.

use crate::{
    child::{self, Start},
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

/// Most of standard output that is kept, in bytes: what comes after is read and thrown away.
pub const MOST_OUTPUT: usize = 64 << 20;

/// Most of standard error that is kept, in bytes: its end.
const MOST_COMPLAINTS: usize = 64 << 10;

/// Most that is read from a pipe at once, in chunks: more than a pipe holds (1 MiB, `/proc/sys/fs/pipe-max-size`),
/// and an end where somebody writes faster than we read.
const MOST_CHUNKS: usize = 128;

/// A command under way.
pub struct Job {
    pid: Pid,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    output: Vec<u8>,
    complaints: Vec<u8>,
    cut: bool,
    ended: Option<Ended>,
}

/// What a command used until its end, as `wait4(2)` tells: its own and that of children it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// User and system time.
    pub cpu: Duration,
    /// Largest resident set of any one of its processes, in bytes.
    pub max_rss_bytes: u64,
}

impl Job {
    /// Starts `command` as [`child::spawn`] does, where `start` says. Its standard output is kept where
    /// `keep`, and thrown away otherwise; its standard error is kept for messages.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn start(command: &mut Command, start: &Start, keep: bool) -> io::Result<Self> {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if keep { Stdio::piped() } else { Stdio::null() });
        let mut child = child::spawn_at(command, start)?;
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
            complaints: Vec::new(),
            cut: false,
            ended: None,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// How it ended, once [`wait`] has seen that.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Standard output so far.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Whether it wrote more than [`MOST_OUTPUT`].
    pub fn cut(&self) -> bool {
        self.cut
    }

    /// The end of standard error, 64 KiB at most.
    pub fn complaints(&self) -> String {
        String::from_utf8_lossy(&self.complaints).into_owned()
    }

    /// The last line of standard error that says something.
    pub fn last_words(&self) -> String {
        let text = self.complaints();
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(|| "it said nothing".to_owned(), |line| line.trim().chars().take(300).collect())
    }

    /// Sends `signal` to its whole process group.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Reads what has come until now.
    fn drain(&mut self) {
        let mut chunk = [0; 16 << 10];
        if let Some(pipe) = &mut self.stdout {
            for _ in 0..MOST_CHUNKS {
                let Some(count) = more(pipe, &mut chunk) else { break };
                let room = MOST_OUTPUT - self.output.len();
                self.output.extend_from_slice(&chunk[..count.min(room)]);
                self.cut |= count > room;
            }
        }
        if let Some(pipe) = &mut self.stderr {
            for _ in 0..MOST_CHUNKS {
                let Some(count) = more(pipe, &mut chunk) else { break };
                self.complaints.extend_from_slice(&chunk[..count]);
                let excess = self.complaints.len().saturating_sub(MOST_COMPLAINTS);
                self.complaints.drain(..excess);
            }
        }
    }

    /// Takes note of its end, where it has ended.
    fn reap(&mut self) -> io::Result<()> {
        self.drain();
        if self.ended.is_none() {
            self.ended = child::reap(self.pid)?.map(|(status, usage)| ended(status, &usage));
        }
        Ok(())
    }
}

/// Waits until one of `jobs` that still run ends or writes, at most for `timeout`; a signal to us ends the wait
/// too. Returns whether all have ended. Just before an ended process is forgotten, `farewell` is called with it.
///
/// # Errors
/// Those of `poll(2)` and `wait4(2)`.
pub fn wait(jobs: &mut [Job], timeout: Duration, farewell: &mut dyn FnMut(&Job)) -> io::Result<bool> {
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
            farewell(job);
            job.reap()?;
        } else {
            job.drain();
            job.close_finished();
        }
    }
    Ok(jobs.iter().all(|job| job.ended.is_some()))
}

impl Job {
    /// Forgets pipes whose other end is closed, which would be ready for ever.
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
    /// Whatever still runs of it is killed: nobody waits for it any more.
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

fn more(pipe: &mut impl Read, chunk: &mut [u8]) -> Option<usize> {
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

/// Waits for the end of child `pid` and forgets it.
///
/// # Errors
/// Those of `wait4(2)`: it is no child of ours.
pub fn reap(pid: u32) -> io::Result<Ended> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let (status, usage) = child::reap_blocking(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(ended(status, &usage))
}

fn ended(status: i32, usage: &libc::rusage) -> Ended {
    Ended {
        status: ExitStatus::from_raw(status),
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// CPU time of all children that this process has waited for, and of theirs (`getrusage(2)`).
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

/// Makes this process the parent of whatever loses its own below it, so that nothing escapes
/// (`PR_SET_CHILD_SUBREAPER`), and has the kernel keep their statuses for us, also where we were started with
/// SIGCHLD ignored.
///
/// # Errors
/// Those of `prctl(2)`.
#[allow(unsafe_code, reason = "signal(2)")]
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the default action is no function of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Kills and reaps children of this process that are not in `known` and that `are_strays`, with all below them;
/// returns their names. Works where [`adopt_orphans`] was called.
pub fn end_strays(known: &BTreeSet<u32>, are_strays: &dyn Fn(u32) -> bool) -> Vec<String> {
    let (mut names, mut spared) = (Vec::new(), BTreeSet::new());
    loop {
        let children = tasks::children(std::process::id()).into_iter();
        let strays: Vec<u32> = children.filter(|pid| !known.contains(pid) && !spared.contains(pid)).collect();
        if strays.is_empty() {
            return names;
        }
        for stray in strays {
            let Some(pid) = Pid::from_raw(stray as i32) else { continue };
            // A zombie is an orphan that has ended already: only reaped.
            if !matches!(child::reap(pid), Ok(None)) {
                continue;
            }
            let name = tasks::name(stray);
            // One that runs as somebody else (set-user-ID) cannot be killed, and may never end.
            if are_strays(stray) && rustix::process::kill_process(pid, Signal::KILL).is_ok() {
                names.extend(name);
                let _ = child::reap_blocking(pid);
            } else {
                spared.insert(stray);
            }
        }
    }
}

/// What is told of a program that [`end_strays`] ended, by its name.
pub fn left_behind(name: &str) -> String {
    format!(
        "{name} still ran when the command had ended, and was ended: a server that goes into the background is to be \
         run in the foreground (as redis-server --daemonize no, nginx -g 'daemon off;')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Job {
        let job = Job::start(Command::new("sh").args(["-c", script]), &Start::default(), true).unwrap();
        let mut jobs = [job];
        while !wait(&mut jobs, Duration::from_secs(1), &mut |_| {}).unwrap() {}
        let [job] = jobs;
        job
    }

    #[test]
    fn a_job_tells_its_output_its_status_and_what_it_used() {
        let job = run("echo hello; echo oops >&2; echo >&2; exit 3");
        assert_eq!((job.output(), job.last_words().as_str()), (&b"hello\n"[..], "oops"));
        let ended = job.ended().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.max_rss_bytes > 100_000 && ended.cpu < Duration::from_secs(5));
    }

    #[test]
    fn a_gigabyte_is_read_and_thrown_away() {
        let job = run("head -c 1000000000 /dev/zero; exec >&-; head -c 1000000 /dev/zero >&2");
        assert!(job.cut() && job.output().len() == MOST_OUTPUT && job.complaints.len() <= MOST_COMPLAINTS);
        assert!(job.ended().unwrap().status.success());
    }

    #[test]
    fn a_dropped_job_is_killed() {
        let job = Job::start(Command::new("sleep").arg("1000"), &Start::default(), false).unwrap();
        let pid = job.pid();
        drop(job);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
