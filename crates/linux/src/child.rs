//! Starts programs that are isolated from our terminal's signals and that are killed when this process ends.
#![allow(unsafe_code, reason = "a child can be prepared only between fork and exec; wait4 fills a structure")]

use crate::{
    affinity::Mask,
    memory_policy::{Encoded, MemoryPolicy},
    pidfd,
};
use manycore_topology::CpuSet;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::Errno,
    process::{
        Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process_group,
        set_parent_process_death_signal, setpriority_process, setrlimit, setsid,
    },
};
use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::OnceLock,
    time::Instant,
};

/// The limit of open files that this process was started with, and that programs we start get again.
static GIVEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit of open files to the maximum; each running program takes three descriptors.
/// Programs that we start get the original limit, because some rely on it (`select(2)`). Returns the limit that holds
/// then, as [`most_open_files`].
pub fn allow_many_files() -> u64 {
    let given = *GIVEN_FILES.get_or_init(|| getrlimit(Resource::Nofile));
    // If that is refused, starting many programs at once fails with a message.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, maximum: given.maximum });
    most_open_files()
}

/// Returns how many files this process may have open (`RLIMIT_NOFILE`); `u64::MAX` without a limit.
pub fn most_open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The CPUs, memory policy and niceness of a program at its start. All that it starts inherits them, unless it changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartPlacement {
    /// Its CPUs; those of this process if absent.
    pub cpus: Option<CpuSet>,
    /// Its memory policy.
    pub memory: MemoryPolicy,
    /// Its niceness, from -20 to 19; that of this process if absent.
    pub nice: Option<i32>,
}

/// Starts `command` in a process group of its own, so that Ctrl-C in the terminal only reaches us and we can
/// end the whole group. The kernel kills it when the calling thread ends.
///
/// # Errors
/// Those of starting a program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    spawn_placed(command, &StartPlacement::default())
}

/// Like [`spawn`], with the given CPUs and memory policy.
///
/// # Errors
/// Those of starting a program; `EINVAL` if none of the CPUs or nodes is allowed.
pub fn spawn_placed(command: &mut Command, start: &StartPlacement) -> io::Result<Child> {
    command.process_group(0);
    spawn_tied(command, start, Signal::KILL)
}

/// Like [`spawn`], for a program that has to tidy up: the kernel sends it SIGTERM when the calling thread ends.
///
/// # Errors
/// Those of starting a program.
pub fn spawn_terminated(command: &mut Command) -> io::Result<Child> {
    command.process_group(0);
    spawn_tied(command, &StartPlacement::default(), Signal::TERM)
}

/// Like [`spawn_terminated`], in a session of its own. Where the kernel divides the CPUs between sessions (autogroup,
/// sched(7)), many busy threads of the program leave us a share of our own.
///
/// # Errors
/// Those of starting a program.
pub fn spawn_in_session(command: &mut Command) -> io::Result<Child> {
    // SAFETY: the closure makes a system call and allocates nothing.
    unsafe {
        command.pre_exec(|| setsid().map(drop).map_err(io::Error::from));
    }
    spawn_tied(command, &StartPlacement::default(), Signal::TERM)
}

/// Like [`spawn`], for a program that may use our terminal. If there is a terminal, the program stays in our
/// process group, so that it can read from the terminal and so that Ctrl-C and job control apply to both.
///
/// # Errors
/// Those of starting a program.
pub fn spawn_at_terminal(command: &mut Command) -> io::Result<Child> {
    if File::open("/dev/tty").is_err() {
        command.process_group(0);
    }
    spawn_tied(command, &StartPlacement::default(), Signal::KILL)
}

/// Starts `command`, to which the kernel sends `signal` when the calling thread ends.
fn spawn_tied(command: &mut Command, start: &StartPlacement, signal: Signal) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes system calls and allocates nothing, as is required between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // The parent may have ended before `prctl(2)` was called.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
    spawn_detached(command, start)
}

/// Starts `command` with the given CPUs and memory policy, in our terminal and process group. It may outlive us.
///
/// # Errors
/// As [`spawn_placed`].
pub fn spawn_detached(command: &mut Command, start: &StartPlacement) -> io::Result<Child> {
    prepare(command, start);
    command.spawn()
}

/// Makes `command` apply its CPUs, niceness and memory policy before it executes the program.
pub fn prepare(command: &mut Command, start: &StartPlacement) {
    let mask = start.cpus.as_ref().map(Mask::from_cpus);
    let (memory, nice) = (start.memory.encoded(), start.nice);
    let files = GIVEN_FILES.get().copied();
    // SAFETY: as above.
    unsafe {
        command.pre_exec(move || {
            if let Some(files) = files {
                setrlimit(Resource::Nofile, files)?;
            }
            if let Some(mask) = &mask {
                mask.apply(0)?;
            }
            if let Some(nice) = nice {
                setpriority_process(None, nice)?;
            }
            memory.as_ref().map_or(Ok(()), Encoded::set)
        });
    }
}

/// Makes `command` enter a control group, by writing to the open `file` of the group, before it executes the
/// program. Errors are ignored.
pub fn enter_cgroup(command: &mut Command, file: File) {
    // SAFETY: the closure makes a system call and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let _ = rustix::io::write(&file, b"0");
            Ok(())
        });
    }
}

/// Does the same, but the program does not start if it cannot enter.
pub fn must_enter_cgroup(command: &mut Command, file: File) {
    // SAFETY: the closure makes a system call and allocates nothing.
    unsafe {
        command.pre_exec(move || rustix::io::write(&file, b"0").map(drop).map_err(io::Error::from));
    }
}

/// Makes `command` the first process that the kernel kills when memory is exhausted (`oom_score_adj`, proc(5)). Also
/// makes it enter a control group by writing to `entrance` (its `cgroup.procs`) before it executes the program.
pub fn prefer_oom_kill(command: &mut Command, entrance: Option<File>) {
    // SAFETY: the closure makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if let Some(entrance) = &entrance {
                rustix::io::write(entrance, b"0")?;
            }
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            // If that is refused, the kernel chooses by size.
            if let Ok(score) = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
                let _ = rustix::io::write(score, b"1000");
            }
            Ok(())
        });
    }
}

/// Forks this process, which must have a single thread. The child runs `body`, whose result becomes its exit
/// status. The child is killed when this process ends.
///
/// # Errors
/// Those of `fork(2)`; `InvalidInput` if there are other threads, because the child could wait forever for their locks.
pub fn fork(body: impl FnOnce() -> i32) -> io::Result<Pid> {
    if crate::tasks::threads(std::process::id()).len() > 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parent = rustix::process::getpid();
    // SAFETY: there is no other thread, so the child is a complete copy; it exits below and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let tied = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
            let status = if tied && getppid() == Some(parent) { body() } else { 1 };
            // SAFETY: it exits this process, and runs no destructors or exit handlers of the parent.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

/// Kills a child that was started with [`spawn`] and its process group, and reaps the child.
pub fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // The child may be in our process group, which is not killed.
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits for a child until `end`. Returns its exit status if it has ended.
///
/// # Errors
/// Those of `pidfd_open(2)`, `poll(2)` and `wait4(2)`.
pub fn wait_until(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    let held = pidfd::open_pidfd(child.id())?;
    loop {
        match poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&left(end))) {
            Ok(_) => return child.try_wait(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the time until `end`, for `poll(2)`.
pub fn left(end: Instant) -> Timespec {
    Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap_or_default()
}

/// Returns the wait status and resource usage of child `pid`, if it has exited.
///
/// # Errors
/// Those of `wait4(2)`, such as when it is not a child of ours.
pub(crate) fn reap(pid: Pid) -> io::Result<Option<(i32, libc::rusage)>> {
    wait4(pid, libc::WNOHANG)
}

/// Does the same as `reap`, but waits for the child to exit.
///
/// # Errors
/// Those of `reap`.
pub fn reap_blocking(pid: Pid) -> io::Result<Option<(i32, libc::rusage)>> {
    wait4(pid, 0)
}

fn wait4(pid: Pid, options: i32) -> io::Result<Option<(i32, libc::rusage)>> {
    let (mut status, mut usage) = (0, MaybeUninit::zeroed());
    loop {
        // SAFETY: both pointers are to memory of the right type that outlives the call.
        let result =
            unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, options, usage.as_mut_ptr()) };
        match result {
            // SAFETY: an rusage of all zero bits is valid, and the kernel has filled it.
            1.. => return Ok(Some((status, unsafe { usage.assume_init() }))),
            0 => return Ok(None),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use std::{process::Stdio, time::Duration};

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // Tests run in threads.
        assert_eq!(fork(|| 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_child_is_waited_for_until_a_moment() {
        let mut child =
            spawn(Command::new("sh").args(["-c", "read line; exit 3"]).stdin(Stdio::piped())).unwrap();
        assert_eq!(wait_until(&mut child, Instant::now()).unwrap(), None);
        drop(child.stdin.take());
        let status = wait_until(&mut child, Instant::now() + Duration::from_mins(1)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn killing_a_child_kills_its_descendants() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = spawn(&mut shell).unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        kill(&mut child);
        // It was killed at once, but it disappears only when init has reaped it.
        let gone = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", grandchild.as_raw_nonzero()));
            state.map_or(true, |state| state.contains(") Z "))
        };
        while !gone() {
            std::thread::yield_now();
        }
    }
}
