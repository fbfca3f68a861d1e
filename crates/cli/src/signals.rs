//! Catches signals, which are passed on to a command run on behalf of the user, or end our own work.

use crate::failure::{Failure, Outcome};
use manycore_experiment::interrupt;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    flag,
    low_level::pipe,
};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Signals that request termination.
pub const ENDS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Those signals, and the ones that users send to programs.
pub const ALL: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM];

/// Sets [`interrupt::flag`] on SIGINT, SIGTERM and SIGHUP. A second signal ends the program at once with exit code 130.
///
/// # Errors
/// [`Failure::Missing`]: those of `sigaction(2)`.
pub fn catch_interrupts() -> Outcome {
    static ARE_CAUGHT: AtomicBool = AtomicBool::new(false);
    // A second registration would take the first signal for a second one.
    if ARE_CAUGHT.swap(true, Relaxed) {
        return Ok(());
    }
    let flag = interrupt::flag();
    let catch = |signal: i32| {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        flag::register(signal, Arc::clone(&flag)).map(drop)
    };
    [SIGHUP, SIGINT, SIGTERM]
        .into_iter()
        .try_for_each(catch)
        .map_err(|error: io::Error| Failure::missing(format!("cannot catch signals: {error}")))
}

/// Signals that were received and not taken yet.
pub struct Signals {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
    /// Becomes readable when a signal is received.
    wakeup: UnixStream,
}

impl Signals {
    /// Catches these signals, except those that this process inherited as ignored (`nohup`): the commands
    /// that it starts must inherit them as ignored as well.
    ///
    /// # Errors
    /// [`Failure::Missing`]: those of `sigaction(2)`.
    pub fn catch(numbers: &[i32]) -> Outcome<Self> {
        let catch = || -> io::Result<Self> {
            let (wakeup, rope) = UnixStream::pair()?;
            wakeup.set_nonblocking(true)?;
            let mut flags = Vec::new();
            for &number in numbers.iter().filter(|number| !is_ignored(**number)) {
                let flag = Arc::new(AtomicBool::new(false));
                flag::register(number, Arc::clone(&flag))?;
                pipe::register(number, rope.try_clone()?)?;
                flags.extend(Signal::from_named_raw(number).map(|signal| (signal, flag)));
            }
            Ok(Self { flags, wakeup })
        };
        catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))
    }

    /// Returns the descriptor that becomes readable when a signal is received.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Returns the signals received since the last call.
    pub fn take(&self) -> Vec<Signal> {
        while (&self.wakeup).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.flags.iter().filter(|(_, flag)| flag.swap(false, Relaxed)).map(|(signal, _)| *signal).collect()
    }

    /// Waits until a signal is received, or for `most` at the longest.
    ///
    /// # Errors
    /// [`Failure::Missing`]: those of `poll(2)`.
    pub fn wait(&self, most: Duration) -> Outcome {
        let time = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)], Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::missing(format!("cannot wait: {error}"))),
        }
    }

    /// Returns the signals received since the last call, for passing on to the command. Leaves out those of
    /// terminal keys, which the terminal has sent to the whole process group, the command included. A SIGINT
    /// sent with `kill` while the group is in the foreground is taken for a key.
    pub fn take_for_command(&self) -> Vec<Signal> {
        let mut came = self.take();
        let is_key = |signal: &Signal| matches!(*signal, Signal::INT | Signal::QUIT);
        if came.iter().any(is_key) && is_foreground() {
            came.retain(|signal| !is_key(signal));
        }
        came
    }
}

/// Returns whether a signal is ignored (`SigIgn` in `/proc/self/status`, a hexadecimal mask whose lowest bit
/// is signal 1).
pub fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

/// Returns whether the terminal's keys send signals to our process group, and with it to the command.
fn is_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}
