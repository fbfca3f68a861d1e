//! What the terminal sends, as events of the view.

use super::translate::translate;
use manycore_top::view::ViewEvent;
use ratatui::crossterm::event::{self, Event};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{OptionalActions, tcgetattr, tcsetattr},
};
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
            match self.next_of_any() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Some(event)) => {
                    if let Some(event) = translate(&event) {
                        return Ok(Some(event));
                    }
                }
                Ok(None) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next event of any kind, if one has arrived. Signals interrupt this.
    fn next_of_any(&self) -> io::Result<Option<Event>> {
        let mut file = [PollFd::new(self, PollFlags::IN)];
        poll(&mut file, Some(&Timespec::default()))?;
        // Reading a terminal that was closed would never end.
        if file[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::Error::other("the terminal was closed"));
        }
        let mut has_event = event::poll(Duration::ZERO)?;
        if !has_event && file[0].revents().contains(PollFlags::IN) {
            self.wake()?;
            has_event = event::poll(Duration::ZERO)?;
        }
        has_event.then(event::read).transpose()
    }
}

impl TerminalInput {
    /// Makes the kernel report again that there is something to read. crossterm waits for such a report, and forgets it if
    /// the size of the terminal changes at the same moment: keys would wait for the next key. A change of the settings, even
    /// to what they are, wakes up readers (`n_tty_set_termios`).
    fn wake(&self) -> io::Result<()> {
        let settings = tcgetattr(self)?;
        Ok(tcsetattr(self, OptionalActions::Now, &settings)?)
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
