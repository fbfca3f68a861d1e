//! Where lines go, on a thread of its own: a reader who does not read, or a disk that is slow, stops nobody else.

use crate::{cli::Format, live::History, output, report::guard_text};
use manycore_guard::decision::line::Line;
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

/// What it is to do.
enum Wanted {
    /// Write a line.
    Line(Box<Line>),
    /// Open the file again: what it was was renamed.
    Reopen,
}

/// The way to it.
pub struct Scribe {
    lines: SyncSender<Wanted>,
    done: Receiver<()>,
}

impl Scribe {
    /// Prints lines in this format, and keeps them as JSON.
    ///
    /// # Errors
    /// No thread can be made.
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
                            output::note(&format!("manycore: events go on into the old file: {why}"));
                        }
                        continue;
                    }
                };
                // A reader that went away, or a full disk, must not end the guard.
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

    /// Has a line written, if there is room.
    pub fn write(&self, line: Line) {
        let _ = self.lines.try_send(Wanted::Line(Box::new(line)));
    }

    /// Has the file opened again, as when `logrotate` has renamed it.
    pub fn reopen(&self) {
        let _ = self.lines.try_send(Wanted::Reopen);
    }

    /// Waits until all is written, but not for ever.
    pub fn end(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(LAST_WORDS);
    }
}
