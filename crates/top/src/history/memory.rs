//! The last minutes of samples in memory.

use super::codec::{Chunk, Decoder, Encoder};
use crate::sample::Sample;
use std::{collections::VecDeque, ops::Range};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Samples that are older than this before the last one are forgotten, in nanoseconds. Some more are kept: those of
    /// the same chunk.
    pub span_ns: u64,
    /// Largest size of the samples in bytes. Older ones are forgotten. Those of the chunk that is open stay.
    pub bytes: usize,
    /// Samples of a chunk. A step back decodes up to this many.
    pub chunk: usize,
}

impl Default for HistoryLimits {
    /// Ten minutes, at most 8 MiB.
    fn default() -> Self {
        Self { span_ns: 600_000_000_000, bytes: 8 << 20, chunk: 60 }
    }
}

/// When a sample was taken: by the monotonic clock in nanoseconds, and in milliseconds since 1970.
type Moment = (u64, u64);

/// A chunk, each of which stands alone, and the moments of its samples.
#[derive(Debug)]
struct Kept {
    chunk: Chunk,
    moments: Vec<Moment>,
}

/// Samples of the last minutes.
#[derive(Debug, Default)]
pub struct History {
    limits: HistoryLimits,
    chunks: VecDeque<Kept>,
    /// Number of the first sample that is kept.
    first: usize,
    encoder: Encoder,
    open: Vec<Moment>,
    cursor: Option<Cursor>,
}

/// The sample that was asked for last.
#[derive(Debug)]
struct Cursor {
    /// Number of the first sample of the chunk.
    chunk: usize,
    /// Number of the sample that was decoded last, plus one.
    next: usize,
    decoder: Decoder,
    sample: Sample,
}

impl History {
    /// Returns an empty history.
    pub fn new(limits: HistoryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Appends a sample.
    pub fn push(&mut self, sample: &Sample) {
        self.encoder.push(sample);
        self.open.push((sample.at_ns, sample.unix_ms));
        if self.open.len() >= self.limits.chunk.max(1) || self.encoder.is_full() {
            let chunk = self.encoder.end_chunk();
            self.encoder.restart();
            self.chunks.push_back(Kept { chunk, moments: std::mem::take(&mut self.open) });
        }
        while let Some(oldest) = self.chunks.front() {
            let last = oldest.moments.last().map_or(0, |moment| moment.0);
            let is_old = sample.at_ns.saturating_sub(last) > self.limits.span_ns;
            if !is_old && self.bytes() <= self.limits.bytes {
                break;
            }
            self.first += oldest.moments.len();
            self.chunks.pop_front();
        }
    }

    /// Returns the numbers of the samples that are kept, the oldest first. The number of a sample does not change.
    pub fn numbers(&self) -> Range<usize> {
        let kept: usize = self.chunks.iter().map(|kept| kept.moments.len()).sum();
        self.first..self.first + kept + self.open.len()
    }

    /// Returns the size of the samples in bytes.
    pub fn bytes(&self) -> usize {
        let moments = self.numbers().len() * size_of::<Moment>();
        moments + self.encoder.bytes() + self.chunks.iter().map(|kept| kept.chunk.bytes.len()).sum::<usize>()
    }

    /// Returns when a sample was taken, in milliseconds since 1970; `None` if it is not kept.
    pub fn unix_ms(&self, number: usize) -> Option<u64> {
        let (start, kept) = self.find(number)?;
        Some(kept.map_or(&self.open, |kept| &kept.moments)[number - start].1)
    }

    /// Returns the number of the first sample of a chunk, and the chunk; `None` for the one that is open.
    fn find(&self, number: usize) -> Option<(usize, Option<&Kept>)> {
        let mut start = self.first;
        if !self.numbers().contains(&number) {
            return None;
        }
        for kept in &self.chunks {
            if number < start + kept.moments.len() {
                return Some((start, Some(kept)));
            }
            start += kept.moments.len();
        }
        Some((start, None))
    }

    /// Returns a sample, up to the rounding that [`codec`](super::codec) describes; `None` if it is not kept. The next one
    /// is found quickly.
    pub fn at(&mut self, number: usize) -> Option<&Sample> {
        let cursor = self.cursor.take();
        let (start, kept) = self.find(number)?;
        let is_usable = |cursor: &Cursor| {
            cursor.chunk == start
                && cursor.next <= number + 1
                && cursor.decoder.reaches(number + 1 - cursor.next)
        };
        let mut cursor = match cursor.filter(is_usable) {
            Some(cursor) => cursor,
            None => {
                let mut decoder = Decoder::default();
                match kept {
                    Some(kept) => decoder.begin(&kept.chunk).ok()?,
                    None => decoder = self.encoder.decoder().ok()?,
                }
                Cursor { chunk: start, next: start, decoder, sample: Sample::default() }
            }
        };
        while cursor.next <= number {
            cursor.decoder.skip().ok()?;
            cursor.next += 1;
        }
        cursor.decoder.write(&mut cursor.sample).ok()?;
        Some(&self.cursor.insert(cursor).sample)
    }
}
