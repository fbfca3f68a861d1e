//! Signals that are passed on to a command which runs in our place.

use crate::failure::{Failure, Outcome};
use rustix::{
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Signals that came and were not taken yet.
pub struct Signals {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    /// Catches the signals that end programs, and those that users send to them.
    ///
    /// # Errors
    /// [`Failure::Missing`]: those of `sigaction(2)`.
    pub fn catch() -> Outcome<Self> {
        let numbers = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM];
        let caught = numbers.into_iter().map(|number| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag))?;
            let signal = Signal::from_named_raw(number);
            signal.map(|signal| (signal, flag)).ok_or_else(|| std::io::Error::other("an unknown signal"))
        });
        let flags = caught.collect::<std::io::Result<_>>();
        flags
            .map(|flags| Self { flags })
            .map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))
    }

    /// Those that came since the last call, but for keys that the terminal has sent to the command as well.
    pub fn take(&self) -> Vec<Signal> {
        let came = self.flags.iter().filter(|(_, flag)| flag.swap(false, Relaxed)).map(|(signal, _)| *signal);
        let came: Vec<Signal> = came.collect();
        let is_key = |signal: &Signal| matches!(*signal, Signal::INT | Signal::QUIT);
        if came.iter().any(is_key) && is_foreground() {
            return came.into_iter().filter(|signal| !is_key(signal)).collect();
        }
        came
    }

    /// Whether any came.
    pub fn any(&self) -> bool {
        self.flags.iter().any(|(_, flag)| flag.load(Relaxed))
    }
}

/// Whether keys of our terminal reach our process group, and with it the command.
fn is_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}
