//! Signals that this process receives while it waits for others.

use rustix::process::Signal;
use std::os::fd::BorrowedFd;

/// The signals that this process has received, as the program that catches them provides them.
pub trait SignalSource {
    /// Returns the descriptor that becomes readable when a signal is received.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns the signals received since the last call.
    fn take(&self) -> Vec<Signal>;

    /// Returns the signals received since the last call that have to be passed on to the command; those of
    /// terminal keys, which the terminal has sent to the command as well, are left out.
    fn take_for_command(&self) -> Vec<Signal>;
}
