//! Where lines go, on a thread of its own: a reader who does not read, or a disk that is slow, stops nobody else.

use crate::{cli::Format, live::History, output, report::guard_text};
use manycore_model::guard::line::Line;
use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Lines that may wait; what is more is lost.
const QUEUE: usize = 64;

/// Longest wait for those that are left at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way to it.
pub struct Scribe {
    lines: SyncSender<Line>,
    done: Receiver<()>,
}

impl Scribe {
    /// Prints lines in this format, and keeps them as JSON.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn begin(format: Format, mut history: History) -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<Line>(QUEUE);
        let (ended, done) = sync_channel(1);
        let write = move || {
            for line in waiting {
                // A reader that went away, or a full disk, must not end the guard.
                if format == Format::Text {
                    let _ = output::print(&format!("{}\n", guard_text::line(&line)));
                }
                let _ = history.keep(&line, format);
            }
            let _ = ended.send(());
        };
        thread::Builder::new().name("scribe".to_owned()).spawn(write)?;
        Ok(Self { lines, done })
    }

    /// Has a line written, if there is room.
    pub fn write(&self, line: Line) {
        let _ = self.lines.try_send(line);
    }

    /// Waits until all is written, but not for ever.
    pub fn end(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(LAST_WORDS);
    }
}
