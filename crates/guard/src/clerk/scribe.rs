//! Where lines go, on a thread of its own: a reader who does not read, or a disk that is slow, stops nobody else.

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
                            console.note(&format!("manycore: events go on into the old file: {why}"));
                        }
                        continue;
                    }
                };
                // A reader that went away, or a full disk, must not end the guard.
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
