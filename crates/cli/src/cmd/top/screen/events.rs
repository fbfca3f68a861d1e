//! What the terminal sends, as events of the view.

use super::translate::translate;
use manycore_top::view::ViewEvent;
use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io::{self, IsTerminal, stdin},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

/// The terminal that is read: standard input, otherwise the terminal of the session.
pub(super) struct TerminalInput(Option<File>);

impl TerminalInput {
    pub fn open() -> io::Result<Self> {
        let other = (!stdin().is_terminal()).then(|| File::open("/dev/tty")).transpose()?;
        Ok(Self(other))
    }

    /// Returns the next event that means something to the view, if one has arrived.
    ///
    /// # Errors
    /// The terminal cannot be read, or was closed.
    pub fn next(&self) -> io::Result<Option<ViewEvent>> {
        loop {
            let mut file = [PollFd::new(self, PollFlags::IN)];
            poll(&mut file, Some(&Timespec::default()))?;
            // Reading a terminal that was closed would never end.
            if file[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Err(io::Error::other("the terminal was closed"));
            }
            if !event::poll(Duration::ZERO)? {
                return Ok(None);
            }
            if let Some(event) = translate(&event::read()?) {
                return Ok(Some(event));
            }
        }
    }
}

impl AsFd for TerminalInput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }
}
