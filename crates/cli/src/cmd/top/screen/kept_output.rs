//! The output of a command while the view is shown: its last bytes, in a file of bounded size.

use crate::failure::{Failure, Outcome};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_setfl},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter, Read},
    os::{fd::OwnedFd, unix::fs::FileExt},
    thread::{self, JoinHandle},
};

/// What is read after the end, if others still write: more than fits into a pipe.
const MOST_AFTER_END: u64 = 2 << 20;

/// A thread that reads what a command writes into a pipe.
pub(super) struct KeptOutput {
    thread: JoinHandle<Ring>,
    /// The thread ends when the other end is closed.
    stop: PipeWriter,
}

/// The last bytes of an output: byte `n` is at `n % most` in the file.
struct Ring {
    file: File,
    most: u64,
    length: u64,
    /// Why not all of the last bytes are in the file.
    failure: Option<io::Error>,
}

/// The end of an output.
#[derive(Debug)]
pub(super) struct OutputTail {
    pub bytes: Vec<u8>,
    /// Number of bytes before these.
    pub left_out: u64,
}

impl KeptOutput {
    /// Begins to read. Returns the file that the command writes to. What still writes after [`Self::end`] has a broken pipe.
    ///
    /// # Errors
    /// There can be no further file or thread.
    pub fn begin(most: u64) -> Outcome<(Self, File)> {
        let file = tempfile::tempfile().map_err(Failure::missing)?;
        let (from, to) = io::pipe().map_err(Failure::missing)?;
        let (stopped, stop) = io::pipe().map_err(Failure::missing)?;
        fcntl_setfl(&from, OFlags::NONBLOCK).map_err(Failure::missing)?;
        let ring = Ring { file, most, length: 0, failure: None };
        let thread = thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || ring.fill(from, &stopped))
            .map_err(Failure::missing)?;
        Ok((Self { thread, stop }, File::from(OwnedFd::from(to))))
    }

    /// Returns the end of what was written.
    ///
    /// # Errors
    /// It could not be kept.
    pub fn end(self) -> Outcome<OutputTail> {
        drop(self.stop);
        let failed = |_| Failure::missing("the thread that keeps the output of the command has failed");
        self.thread.join().map_err(failed)?.tail()
    }
}

impl Ring {
    /// Reads until all writers have closed the pipe, or `stopped` is closed.
    fn fill(mut self, mut from: PipeReader, stopped: &PipeReader) -> Self {
        let mut buffer = vec![0; 1 << 16];
        let mut left = u64::MAX;
        while left > 0 {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.push(&buffer[..count]);
                    left = left.saturating_sub(count as u64);
                    if left > MOST_AFTER_END && is_closed(stopped) {
                        left = MOST_AFTER_END;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The pipe is empty.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if left <= MOST_AFTER_END {
                        break;
                    }
                    if wait(&from, stopped) {
                        left = MOST_AFTER_END;
                    }
                }
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        self
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = self.length % self.most;
            let count = bytes.len().min((self.most - at) as usize);
            // A full disk must not stop the command: reading goes on.
            if let Err(error) = self.file.write_all_at(&bytes[..count], at) {
                self.failure.get_or_insert(error);
            }
            self.length += count as u64;
            bytes = &bytes[count..];
        }
    }

    fn tail(self) -> Outcome<OutputTail> {
        if let Some(error) = self.failure {
            return Err(Failure::missing(format!("the output of the command could not be kept: {error}")));
        }
        let kept = self.length.min(self.most);
        let mut bytes = vec![0; kept as usize];
        // The oldest byte is where the next one would be written, once the file is full.
        let first = if kept < self.most { 0 } else { self.length % self.most };
        let (older, newer) = bytes.split_at_mut((kept - first) as usize);
        let read = self.file.read_exact_at(older, first).and_then(|()| self.file.read_exact_at(newer, 0));
        read.map_err(Failure::missing)?;
        Ok(OutputTail { bytes, left_out: self.length - kept })
    }
}

/// Waits for output. Returns whether reading ends.
fn wait(from: &PipeReader, stopped: &PipeReader) -> bool {
    let mut files = [PollFd::new(from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    match poll(&mut files, None) {
        Err(Errno::INTR) => false,
        Err(_) => true,
        Ok(_) => !files[1].revents().is_empty(),
    }
}

fn is_closed(stopped: &PipeReader) -> bool {
    let mut file = [PollFd::new(stopped, PollFlags::IN)];
    poll(&mut file, Some(&rustix::event::Timespec::default())).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    #[test]
    fn the_last_bytes_are_kept_and_the_others_counted() {
        for (text, kept, left_out) in [
            ("", "", 0),
            ("0123", "0123", 0),
            ("0123456789", "0123456789", 0),
            ("0123456789abc", "3456789abc", 3),
            ("0123456789abcdefghijKLMNO", "fghijKLMNO", 15),
        ] {
            for step in [1, 7, 30] {
                let (output, mut to) = KeptOutput::begin(10).unwrap();
                text.as_bytes().chunks(step).for_each(|part| to.write_all(part).unwrap());
                // It is still open, as if another program had it.
                let tail = output.end().unwrap();
                assert_eq!((tail.bytes.as_slice(), tail.left_out), (kept.as_bytes(), left_out), "{step}");
                assert!(to.write_all(b"x").is_err());
            }
        }
    }

    #[test]
    fn a_command_that_writes_much_takes_little_room() {
        let (output, to) = KeptOutput::begin(1 << 16).unwrap();
        let mut command = Command::new("seq");
        command.arg("1000000").stdout(Stdio::from(to));
        assert!(command.status().unwrap().success());
        drop(command);
        drop(output.stop);
        let ring = output.thread.join().unwrap();
        assert_eq!(ring.file.metadata().unwrap().len(), 1 << 16);
        let tail = ring.tail().unwrap();
        assert_eq!(tail.left_out + (1 << 16), 6_888_896);
        assert!(String::from_utf8(tail.bytes).unwrap().ends_with("\n999999\n1000000\n"));
    }
}
