//! Writes event lines in a thread of its own: a reader that does not read, or a slow disk, blocks nothing
//! else.

use crate::console::Console;
use crate::decision::line::Line;
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
    /// Prints lines, as JSON or as text, and adds them to the file as JSON.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn begin(json: bool, mut file: Option<LineFile>, mut console: impl Console) -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<Wanted>(QUEUE);
        let (ended, done) = sync_channel(1);
        let write = move || {
            for wanted in waiting {
                let line = match wanted {
                    Wanted::Line(line) => line,
                    Wanted::Reopen => {
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
