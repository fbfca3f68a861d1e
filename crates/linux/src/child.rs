//! Programs that we start: they stay out of our terminal's signals and do not outlive us.
#![allow(unsafe_code, reason = "a child can be prepared only between fork and exec; wait4 fills a structure")]

use crate::{
    affinity::Mask,
    memory_policy::{Encoded, MemoryPolicy},
};
use manycore_topology::CpuSet;
use rustix::{
    fs::{Mode, OFlags},
    process::{
        Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process_group,
        set_parent_process_death_signal, setrlimit,
    },
};
use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::OnceLock,
};

/// The limit of open files that we were given, and that programs we start are given again.
static GIVEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Allows this process as many open files as it may have: each program under way takes three. Those that are
/// started keep the limit that we were given, for some of them count on it (`select(2)`).
pub fn allow_many_files() {
    let given = *GIVEN_FILES.get_or_init(|| getrlimit(Resource::Nofile));
    // Where that is refused, many programs at once end with a message.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, maximum: given.maximum });
}

/// Where a program starts: it and all that it starts later stay there unless they move themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// CPUs; those of this process where it is absent.
    pub cpus: Option<CpuSet>,
    /// Where its memory comes from.
    pub memory: MemoryPolicy,
}

/// Starts `command` in a process group of its own, so that Ctrl-C on the terminal reaches us alone and we
/// can end all of it; the kernel kills it when the calling thread dies.
///
/// # Errors
/// Those of starting a program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    spawn_at(command, &Start::default())
}

/// [`spawn`] in a place.
///
/// # Errors
/// Those of starting a program; `EINVAL` where none of the CPUs or nodes may be used.
pub fn spawn_at(command: &mut Command, start: &Start) -> io::Result<Child> {
    command.process_group(0);
    spawn_tied(command, start)
}

/// [`spawn`] for a program that may use our terminal: where there is one it stays in our process group, so that it
/// may read, keys reach both of us, and job control stops and continues both.
///
/// # Errors
/// Those of starting a program.
pub fn spawn_at_terminal(command: &mut Command) -> io::Result<Child> {
    if File::open("/dev/tty").is_err() {
        command.process_group(0);
    }
    spawn_tied(command, &Start::default())
}

/// Starts `command`, which the kernel kills when the calling thread dies.
fn spawn_tied(command: &mut Command, start: &Start) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes system calls and allocates nothing, as is needed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the request.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
    launch(command, start)
}

/// Starts `command` in a place, with our terminal and process group; it may outlive us.
///
/// # Errors
/// As [`spawn_at`].
pub fn launch(command: &mut Command, start: &Start) -> io::Result<Child> {
    prepare(command, start);
    command.spawn()
}

/// Has `command` take its place before it becomes the program.
pub fn prepare(command: &mut Command, start: &Start) {
    let mask = start.cpus.as_ref().map(Mask::of);
    let memory = start.memory.encoded();
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
            memory.as_ref().map_or(Ok(()), Encoded::set)
        });
    }
}

/// Has `command` enter a control group by writing to one of its files before it becomes the program, where the kernel
/// lets it.
pub fn enter(command: &mut Command, file: File) {
    // SAFETY: the closure makes a system call and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let _ = rustix::io::write(&file, b"0");
            Ok(())
        });
    }
}

/// Has `command` be the first that the kernel kills for want of memory (`oom_score_adj`, proc(5)), and enter a control
/// group by writing to `entrance` (its `cgroup.procs`) before it becomes the program.
pub fn sacrifice(command: &mut Command, entrance: Option<File>) {
    // SAFETY: the closure makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if let Some(entrance) = &entrance {
                rustix::io::write(entrance, b"0")?;
            }
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            // Where that is refused, the kernel goes by size.
            if let Ok(score) = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
                let _ = rustix::io::write(score, b"1000");
            }
            Ok(())
        });
    }
}

/// Forks this process, which must have a single thread. The child runs `body`, whose result is its exit status; it is
/// killed when we die.
///
/// # Errors
/// Those of `fork(2)`; `InvalidInput` where there are other threads, whose locks the child could wait for in vain.
pub fn fork(body: impl FnOnce() -> i32) -> io::Result<Pid> {
    if crate::tasks::threads(std::process::id()).len() > 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parent = rustix::process::getpid();
    // SAFETY: there is no other thread, so the child is a whole copy; it ends below and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let tied = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
            let status = if tied && getppid() == Some(parent) { body() } else { 1 };
            // SAFETY: it ends this process, and runs nothing of our parent's.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

/// Kills a child from [`spawn`] with all that it started, and reaps it.
pub fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It may be in our group.
    let _ = child.kill();
    let _ = child.wait();
}

/// Wait status and resources of child `pid`, where it has ended.
///
/// # Errors
/// Those of `wait4(2)`: it is no child of ours.
pub(crate) fn reap(pid: Pid) -> io::Result<Option<(i32, libc::rusage)>> {
    wait4(pid, libc::WNOHANG)
}

/// [`reap`] that waits for the end.
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
            // SAFETY: all bits zero is a valid rusage, and the kernel has filled it.
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
    use std::process::Stdio;

    #[test]
    fn one_that_has_threads_is_not_forked() {
        // Tests run in threads.
        assert_eq!(fork(|| 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_killed_child_takes_its_own_children_along() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = spawn(&mut shell).unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        kill(&mut child);
        // Killed at once; it is gone as soon as init has reaped it.
        let gone = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", grandchild.as_raw_nonzero()));
            state.map_or(true, |state| state.contains(") Z "))
        };
        while !gone() {
            std::thread::yield_now();
        }
    }
}
