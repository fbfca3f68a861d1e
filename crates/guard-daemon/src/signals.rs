//! Catches the signals that end the guard or reload its rules.

use manycore_guard::{Error, Result, run::GuardSignals};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    flag,
    low_level::pipe,
};
use std::{
    fs,
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

/// Signals that were received and not yet taken.
pub(crate) struct Signals {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
    /// Becomes readable when a signal is received.
    pipe: UnixStream,
}

impl Signals {
    /// Catches SIGHUP, SIGINT, SIGQUIT and SIGTERM, except those that this process inherited as ignored
    /// (`nohup`).
    pub(crate) fn catch() -> io::Result<Self> {
        let (pipe, write_end) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let ignored = ignored_signals();
        let mut flags = Vec::new();
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored >> (number - 1) & 1 == 1 {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            flag::register(number, Arc::clone(&flag))?;
            pipe::register(number, write_end.try_clone()?)?;
            flags.extend(Signal::from_named_raw(number).map(|signal| (signal, flag)));
        }
        Ok(Self { flags, pipe })
    }

    /// Waits for this time. Fails if a signal is received meanwhile.
    pub(crate) fn wait(&self, time: Duration) -> Result {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let received = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&time));
        if received == Ok(0) && self.take().is_empty() { Ok(()) } else { Err(Error::Interrupted) }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl GuardSignals for Signals {
    fn take(&self) -> Vec<Signal> {
        // First the pipe: a signal that arrives after this leaves it readable.
        while (&self.pipe).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.flags.iter().filter(|(_, flag)| flag.swap(false, Relaxed)).map(|(signal, _)| *signal).collect()
    }
}

/// Returns the ignored signals (`SigIgn` in `/proc/self/status`): the lowest bit is signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
