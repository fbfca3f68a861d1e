//! Writes event lines in a thread of its own: a reader that does not read, or a slow disk, blocks nothing
//! else.

use crate::console::Console;
use crate::decision::event_line::EventLine;
use crate::text;
use manycore_linux::line_file::LineFile;
use manycore_text::names::printable_json;
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
enum LogRequest {
    /// Write a line.
    Line(Box<EventLine>),
    /// Open the file again: the old one was renamed.
    Reopen,
}

/// Handle of the thread.
pub struct EventLog {
    lines: SyncSender<LogRequest>,
    done: Receiver<()>,
}

impl EventLog {
    /// Starts the thread. It prints lines, as JSON or as text, and appends them to the file as JSON.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(json: bool, mut file: Option<LineFile>, mut console: impl Console) -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<LogRequest>(QUEUE);
        let (ended, done) = sync_channel(1);
        let write = move || {
            for wanted in waiting {
                let line = match wanted {
                    LogRequest::Line(line) => line,
                    LogRequest::Reopen => {
                        if let Some(Err(why)) = file.as_mut().map(LineFile::reopen) {
                            console
                                .note(&format!("manycore: events are still written to the old file: {why}"));
                        }
                        continue;
                    }
                };
                // A reader that has exited, or a full disk, must not end the guard.
                let Ok(text) = serde_json::to_string(&*line).map(|text| printable_json(&text)) else {
                    continue;
                };
                if let Some(file) = &mut file {
                    let _ = file.add(&text);
                }
                let text = if json { text } else { text::line(&line) };
                console.print(&format!("{text}\n"));
            }
            let _ = ended.send(());
        };
        thread::Builder::new().name("event-log".to_owned()).spawn(write)?;
        Ok(Self { lines, done })
    }

    /// Queues a line. It is lost if the queue is full.
    pub fn write(&self, line: EventLine) {
        let _ = self.lines.try_send(LogRequest::Line(Box::new(line)));
    }

    /// Opens the file again, as is needed after `logrotate` has renamed it.
    pub fn reopen(&self) {
        let _ = self.lines.try_send(LogRequest::Reopen);
    }

    /// Waits until all lines are written, for a limited time.
    pub fn end(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(LAST_WORDS);
    }
}
