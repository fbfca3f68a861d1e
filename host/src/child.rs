//! Programs that we start: they stay out of our terminal's signals and do not outlive us.
#![allow(unsafe_code, reason = "a child can be told to die with its parent only between fork and exec")]

use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};
use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
};

/// Starts `command` in a process group of its own, so that Ctrl-C on the terminal reaches us alone and we
/// can end all of it; the kernel kills it when the calling thread dies.
///
/// # Errors
/// Those of starting a program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    command.process_group(0);
    // SAFETY: the closure makes two system calls and allocates nothing, as is needed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the request.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
    command.spawn()
}

/// Kills a child from [`spawn`] with all that it started, and reaps it.
pub fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

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
