//! Waits between two looks at the work: for its end, for signals, or until the next look is due.

use crate::error::Result;
use manycore_control::placement::{FollowedCommand, SignalSource};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{process::ExitStatus, time::Duration};

/// How a wait ended.
pub enum Turn {
    /// The next look may be due.
    Continue,
    /// The command has ended with this status, or a signal was received and there is no command.
    End(Option<ExitStatus>),
}

/// Waits for `longest` at most. A command gets the signals.
///
/// # Errors
/// Waiting failed.
pub fn wait(
    command: Option<&FollowedCommand>,
    signals: &dyn SignalSource,
    longest: Duration,
) -> Result<Turn> {
    if let Some(command) = command {
        let ended = command.wait(signals.descriptor(), longest)?;
        if ended.is_some() {
            return Ok(Turn::End(ended));
        }
        signals.take_for_command().into_iter().for_each(|signal| command.signal(signal));
        return Ok(Turn::Continue);
    }
    let mut descriptors = [PollFd::from_borrowed_fd(signals.descriptor(), PollFlags::IN)];
    match poll(&mut descriptors, Some(&Timespec::try_from(longest).unwrap_or_default())) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(manycore_control::Error::Wait(error.into()).into()),
    }
    Ok(if signals.take().is_empty() { Turn::Continue } else { Turn::End(None) })
}
