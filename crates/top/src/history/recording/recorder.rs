//! Writes a recording.

use super::{
    super::{Error, codec::Encoder},
    format::{ChunkHead, MAGIC},
    head::RecordingHead,
};
use crate::sample::Sample;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Samples of a chunk, and the time in nanoseconds after which it is written with fewer: what is lost if the
/// process is killed.
const CHUNK_SAMPLES: usize = 60;
const CHUNK_NS: u64 = 60_000_000_000;
/// One of this many chunks stands alone.
const CHUNKS: usize = 10;

/// A recording that is being written.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    encoder: Encoder,
    /// Chunks since the last one that stands alone.
    chunks: usize,
    /// When the first and the last sample of the open chunk were taken: monotonic in nanoseconds, and since 1970 in
    /// milliseconds.
    first: (u64, u64),
    last_unix_ms: u64,
    written: u64,
    samples: usize,
    is_complete: bool,
}

impl Recorder {
    /// Creates the file and writes its head. A file that exists is never replaced.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Create`], and [`Error::Write`].
    pub fn create(path: &Path, head: &RecordingHead) -> Result<Self, Error> {
        let file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| {
                match source.kind() {
                    io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
                    _ => Error::Create { path: path.to_owned(), source },
                }
            })?;
        let mut recorder = Self {
            file,
            path: path.to_owned(),
            encoder: Encoder::default(),
            chunks: 0,
            first: (0, 0),
            last_unix_ms: 0,
            written: 0,
            samples: 0,
            is_complete: false,
        };
        let json = serde_json::to_vec(head).map_err(|error| recorder.failed(error.into()))?;
        let lengths = [json.len() as u32, crc32fast::hash(&json)].map(u32::to_le_bytes).concat();
        recorder.write(&[&MAGIC[..], &lengths, &json].concat())?;
        Ok(recorder)
    }

    /// Appends a sample. It is in the file within a minute.
    ///
    /// # Errors
    /// [`Error::Write`]. What was written before stays readable; the samples of the open chunk are lost.
    pub fn append(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.encoder.is_empty() {
            self.first = (sample.at_ns, sample.unix_ms);
        }
        self.encoder.push(sample);
        self.last_unix_ms = sample.unix_ms;
        let is_due = sample.at_ns.saturating_sub(self.first.0) >= CHUNK_NS;
        if is_due || self.encoder.len() >= CHUNK_SAMPLES || self.encoder.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the samples of the chunk that is open, and begins another.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.encoder.is_empty() {
            return Ok(());
        }
        let chunk = self.encoder.end_chunk();
        self.chunks += 1;
        if self.chunks >= CHUNKS || self.encoder.is_stale() {
            self.encoder.restart();
            self.chunks = 0;
        }
        let head = ChunkHead {
            is_end: false,
            stands_alone: chunk.stands_alone,
            samples: chunk.samples as u32,
            length: chunk.bytes.len() as u32,
            unix_ms: [self.first.1, self.last_unix_ms],
            crc: crc32fast::hash(&chunk.bytes),
        };
        let written = self.write(&[&head.to_bytes()[..], &chunk.bytes].concat());
        if written.is_err() {
            // The next chunk cannot continue one that is not in the file.
            self.encoder.restart();
            self.chunks = 0;
        } else {
            self.samples += chunk.samples;
        }
        written
    }

    /// Writes what is left, and that the recording is complete. Returns the number of samples and of bytes in the file.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn finish(mut self) -> Result<(usize, u64), Error> {
        self.flush()?;
        let end = ChunkHead { is_end: true, samples: self.samples as u32, ..ChunkHead::default() };
        self.write(&end.to_bytes())?;
        self.file.sync_all().map_err(|source| self.failed(source))?;
        self.is_complete = true;
        Ok((self.samples, self.written))
    }

    /// Returns the number of bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Err(source) = self.file.write_all(bytes) {
            // A part of a chunk would look like damage. If the file cannot be shortened, it is read up to there.
            let _ = self.file.set_len(self.written);
            return Err(self.failed(source));
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), samples: self.samples, source }
    }

    /// Returns whether the path still leads to the file.
    fn has_path(&self) -> bool {
        let at_path = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        at_path.is_ok_and(|found| own.is_ok_and(|own| own == found))
    }
}

impl Drop for Recorder {
    /// Removes the file if there is no sample in it, as when a command cannot be started: the next recording would be refused.
    fn drop(&mut self) {
        if self.samples == 0 && !self.is_complete && self.has_path() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
