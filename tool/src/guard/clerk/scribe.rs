//! Writes event lines in a thread of its own: a reader that does not read, or a slow disk, blocks nothing
//! else.

use crate::{cli::Format, live::History, output, report::guard_text};
use manycore_model::guard::line::Line;
use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Number of lines that may wait. Further ones are lost.
const QUEUE: usize = 64;

/// Longest wait for the remaining lines at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A request to the thread.
enum Wanted {
    /// Write a line.
    Line(Box<Line>),
    /// Open the file again: the old one was renamed.
    Reopen,
}

/// Handle of the thread.
pub struct Scribe {
    lines: SyncSender<Wanted>,
    done: Receiver<()>,
}

impl Scribe {
    /// Starts the thread. It prints lines in this format, and appends them to `history` as JSON.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn begin(format: Format, mut history: History) -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<Wanted>(QUEUE);
        let (ended, done) = sync_channel(1);
        let write = move || {
            for wanted in waiting {
                let line = match wanted {
                    Wanted::Line(line) => line,
                    Wanted::Reopen => {
                        if let Err(failure) = history.reopen() {
                            let why = failure.message();
                            output::note(&format!(
                                "manycore: events are still written to the old file: {why}"
                            ));
                        }
                        continue;
                    }
                };
                // A reader that has exited, or a full disk, must not end the guard.
                if format == Format::Text {
                    let _ = output::print(&format!("{}\n", guard_text::line(&line)));
                }
                let _ = history.keep(&*line, format);
            }
            let _ = ended.send(());
        };
        thread::Builder::new().name("scribe".to_owned()).spawn(write)?;
        Ok(Self { lines, done })
    }

    /// Has a line written. It is lost if too many wait.
    pub fn write(&self, line: Line) {
        let _ = self.lines.try_send(Wanted::Line(Box::new(line)));
    }

    /// Has the file opened again, as after `logrotate` has renamed it.
    pub fn reopen(&self) {
        let _ = self.lines.try_send(Wanted::Reopen);
    }

    /// Waits until all lines are written, for a limited time.
    pub fn end(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(LAST_WORDS);
    }
}
