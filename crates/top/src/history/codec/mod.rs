//! A sequence of samples as their differences.
//!
//! [`Encoder`] takes samples one by one and returns chunks: the first one stands alone, each other one continues the one
//! before. [`Decoder`] takes the chunks and yields the samples, from which [`Picture::new`](crate::Picture::new) gives what
//! it would have given at once.
//!
//! A task that has not changed takes no space. Everything is exact, but:
//!
//! - CPU times and waits of tasks, processes and clusters, and `at_ns`, are rounded down: to 100 and 1 microseconds. The values
//!   themselves are rounded and not their differences, so that the error does not grow. It is 0.01 % of a second, where
//!   views show 0.1 %.
//! - Times of control groups and of pressure are rounded down to microseconds, in which the kernel counts them.
//! - A state of a task that is not a letter becomes `?`, and unprintable characters of texts are replaced.

mod blocks;
mod columns;
mod more_rows;
mod rows;
mod state;
mod table;
mod texts;
mod zstd;

use crate::sample::Sample;
use columns::{ColumnReader, Columns};
use state::State;

/// Unit of the CPU times and waits of tasks, processes and clusters, in nanoseconds.
const RUN_UNIT_NS: u64 = 100_000;
/// Most samples of a chunk.
pub const MOST_SAMPLES: usize = 4096;
/// Size in bytes before compression from which a chunk is to be ended.
const LARGE: usize = 4 << 20;
/// Number of different texts from which no chunk should continue the one before.
const MANY_TEXTS: usize = 1 << 16;
/// Number of their bytes from which no chunk should: a decoder refuses four times as many.
const LONG_TEXTS: usize = 16 << 20;

/// CPU numbers are below this: far more than the kernel has (`CONFIG_NR_CPUS`). Sets of CPUs take memory by number.
const MOST_CPUS: usize = 1 << 16;

/// Why a chunk cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) &'static str);

/// Samples as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Whether it can be decoded without the one before.
    pub stands_alone: bool,
    /// Number of its samples.
    pub samples: usize,
    /// Frames of zstd.
    pub bytes: Vec<u8>,
}

/// Turns samples into chunks.
#[derive(Debug, Default)]
pub struct Encoder {
    state: State,
    columns: Columns,
    samples: usize,
    continues: bool,
}

impl Encoder {
    /// Appends a sample to the chunk that is open.
    pub fn push(&mut self, sample: &Sample) {
        self.state.encode(sample, &mut self.columns);
        self.samples += 1;
    }

    /// Returns the number of samples in the chunk that is open.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Returns whether the chunk that is open has no samples.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns the size of the open chunk in bytes before compression.
    pub fn bytes(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether the open chunk has to be ended, so that memory stays bounded.
    pub fn is_full(&self) -> bool {
        self.samples >= MOST_SAMPLES || self.columns.len() >= LARGE
    }

    /// Returns whether the next chunk should stand alone, so that memory stays bounded.
    pub fn is_stale(&self) -> bool {
        self.state.texts() >= MANY_TEXTS || self.state.text_bytes() >= LONG_TEXTS
    }

    /// Ends the chunk that is open and returns it. The next one continues it unless [`restart`](Self::restart) is called.
    pub fn end_chunk(&mut self) -> Chunk {
        let stands_alone = !std::mem::replace(&mut self.continues, true);
        Chunk { stands_alone, samples: std::mem::take(&mut self.samples), bytes: self.columns.pack() }
    }

    /// Makes the next chunk stand alone. To be called when the open one is empty.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Returns a decoder of the chunk that is open, which has to stand alone.
    pub(crate) fn decoder(&self) -> Result<Decoder, Malformed> {
        Ok(Decoder { reader: self.columns.reader()?, left: self.samples, ..Decoder::default() })
    }
}

/// Turns chunks into samples.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    reader: ColumnReader,
    left: usize,
}

impl Decoder {
    /// Begins with a chunk. If it continues another one, all samples of that have to be decoded.
    ///
    /// # Errors
    /// It is not a chunk that this version can decode, or it is too large.
    pub fn begin(&mut self, chunk: &Chunk) -> Result<(), Malformed> {
        if chunk.samples > MOST_SAMPLES {
            return Err(Malformed("it has too many samples"));
        }
        if chunk.stands_alone {
            self.state = State::default();
        }
        self.reader = ColumnReader::unpack(&chunk.bytes)?;
        self.left = chunk.samples;
        Ok(())
    }

    /// Returns whether the chunk has `count` more samples.
    pub(crate) fn reaches(&self, count: usize) -> bool {
        count <= self.left
    }

    /// Decodes the next sample without returning it. Returns whether there was one.
    ///
    /// # Errors
    /// The chunk is malformed.
    pub fn skip(&mut self) -> Result<bool, Malformed> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.state.decode(&mut self.reader)?;
        Ok(true)
    }

    /// Writes the sample that was decoded last into `into`, whose memory is used again.
    ///
    /// # Errors
    /// The chunk is malformed.
    pub fn write(&mut self, into: &mut Sample) -> Result<(), Malformed> {
        self.state.write(into)
    }

    /// Decodes the next sample into `into`. Returns whether there was one.
    ///
    /// # Errors
    /// The chunk is malformed.
    pub fn next_sample(&mut self, into: &mut Sample) -> Result<bool, Malformed> {
        Ok(self.skip()? && self.write(into).map(|()| true)?)
    }
}
