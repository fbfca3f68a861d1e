//! Reads a recording.

use super::{
    super::{
        Error,
        codec::{Chunk, Decoder, MOST_SAMPLES},
    },
    format::{CHUNK_HEAD, ChunkHead, LONGEST_CHUNK, LONGEST_HEAD, MAGIC},
    head::RecordingHead,
};
use crate::sample::Sample;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// How a recording ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// It was finished.
    Finished,
    /// It has no end: it is still written, or was interrupted. At most the last minute is missing.
    Interrupted,
    /// It is damaged, and read up to there.
    Damaged {
        /// Position of the damage in bytes.
        offset: u64,
        /// What was found.
        why: &'static str,
    },
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug)]
struct Place {
    head: ChunkHead,
    /// Position of its samples in the file.
    offset: u64,
    /// Number of its first sample.
    first: usize,
}

/// A recording that is read. Opening it checks all chunks, but decodes none.
#[derive(Debug)]
pub struct Replay {
    path: PathBuf,
    file: File,
    head: RecordingHead,
    places: Vec<Place>,
    end: RecordingEnd,
    samples: usize,
    decoder: Decoder,
    /// Index of the chunk that is decoded, and number of the next sample; none before the first one and after an error.
    cursor: Option<(usize, usize)>,
    sample: Sample,
}

impl Replay {
    /// Returns whether a file begins as a recording does.
    pub fn is_recording(path: &Path) -> bool {
        let mut begin = [0; MAGIC.len()];
        let is_file = path.metadata().is_ok_and(|about| about.is_file());
        is_file
            && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
            && begin == *MAGIC
    }

    /// Opens a recording.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::NotARecording`]. A recording that is damaged behind its head is no error: see
    /// [`end`](Self::end).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let not = |why: &str| Error::NotARecording { path: path.to_owned(), why: why.to_owned() };
        let is_file = path.metadata().map_err(failed)?.is_file();
        if !is_file {
            return Err(not("it is not a regular file"));
        }
        let file = File::open(path).map_err(failed)?;
        let mut from = BufReader::with_capacity(1 << 16, &file);
        let mut start = [0; 16];
        read_whole(&mut from, &mut start).map_err(failed)?.ok_or_else(|| not("it is too short"))?;
        if !start.starts_with(MAGIC) {
            return Err(not("it does not begin as one"));
        }
        let [length, crc] = [8, 12].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| start[at + byte])));
        if length as usize > LONGEST_HEAD {
            return Err(not("its head is too long"));
        }
        let mut json = vec![0; length as usize];
        read_whole(&mut from, &mut json).map_err(failed)?.ok_or_else(|| not("its head is cut off"))?;
        if crc32fast::hash(&json) != crc {
            return Err(not("its head is damaged"));
        }
        let head = RecordingHead::parse(&json).map_err(|why| not(&why))?;
        let (places, end) = scan(&mut from, 16 + u64::from(length)).map_err(failed)?;
        let samples = places.last().map_or(0, |last| last.first + last.head.samples as usize);
        Ok(Self {
            path: path.to_owned(),
            file,
            head,
            places,
            end,
            samples,
            decoder: Decoder::default(),
            cursor: None,
            sample: Sample::default(),
        })
    }

    /// Returns the head.
    pub fn head(&self) -> &RecordingHead {
        &self.head
    }

    /// Returns how the recording ends.
    pub fn end(&self) -> &RecordingEnd {
        &self.end
    }

    /// Returns the number of samples. They are numbered from 0.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns when the first and the last sample were taken, in milliseconds since 1970; `None` without samples.
    pub fn unix_ms(&self) -> Option<(u64, u64)> {
        Some((self.places.first()?.head.unix_ms[0], self.places.last()?.head.unix_ms[1]))
    }

    /// Returns a sample; `None` behind the last one. The next one is found quickly; another one by decoding from the
    /// last chunk before it that stands alone.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Chunk`].
    pub fn at(&mut self, number: usize) -> Result<Option<&Sample>, Error> {
        if number >= self.samples {
            return Ok(None);
        }
        let chunk = self.places.partition_point(|place| place.first <= number) - 1;
        let alone = (0..=chunk).rev().find(|&at| self.places[at].head.stands_alone).unwrap_or(0);
        let is_usable = self.cursor.is_some_and(|(at, next)| at >= alone && next <= number + 1);
        if !is_usable {
            self.begin(alone)?;
        }
        while let Some((at, next)) = self.cursor.filter(|cursor| cursor.1 <= number) {
            let place = self.places[at];
            if next == place.first + place.head.samples as usize {
                self.begin(at + 1)?;
                continue;
            }
            let decoded = self.decoder.skip();
            self.keep(next, decoded)?;
            self.cursor = Some((at, next + 1));
        }
        let written = self.decoder.write(&mut self.sample);
        self.keep(number, written)?;
        Ok(Some(&self.sample))
    }

    /// Returns the number of the last sample that is not later than a time in milliseconds since 1970, or of the first
    /// one; `None` without samples. If the clock was set back meanwhile, there can be several.
    ///
    /// # Errors
    /// As for [`at`](Self::at).
    pub fn number_at(&mut self, unix_ms: u64) -> Result<Option<usize>, Error> {
        let chunk = self.places.partition_point(|place| place.head.unix_ms[0] <= unix_ms).saturating_sub(1);
        let Some(place) = self.places.get(chunk).copied() else { return Ok(None) };
        let mut number = place.first;
        for next in number + 1..place.first + place.head.samples as usize {
            if self.at(next)?.is_none_or(|sample| sample.unix_ms > unix_ms) {
                break;
            }
            number = next;
        }
        Ok(Some(number))
    }

    fn begin(&mut self, at: usize) -> Result<(), Error> {
        let place = self.places[at];
        let mut bytes = vec![0; place.head.length as usize];
        self.cursor = None;
        self.file
            .read_exact_at(&mut bytes, place.offset)
            .map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let samples = place.head.samples as usize;
        let begun = self.decoder.begin(&Chunk { stands_alone: place.head.stands_alone, samples, bytes });
        self.keep(place.first, begun)?;
        self.cursor = Some((at, place.first));
        Ok(())
    }

    /// Forgets the state of the decoder after an error.
    fn keep<T>(
        &mut self,
        sample: usize,
        result: Result<T, super::super::codec::Malformed>,
    ) -> Result<T, Error> {
        result.map_err(|source| {
            self.cursor = None;
            Error::Chunk { path: self.path.clone(), sample, source }
        })
    }
}

/// Fills `into`. Returns `None` if the file ends before.
fn read_whole(from: &mut impl Read, into: &mut [u8]) -> io::Result<Option<()>> {
    match from.read_exact(into) {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads and checks the chunks from `offset` on.
fn scan(from: &mut impl Read, mut offset: u64) -> io::Result<(Vec<Place>, RecordingEnd)> {
    let (mut places, mut first) = (Vec::new(), 0);
    loop {
        match next_chunk(from, places.is_empty())? {
            Ok(head) => {
                places.push(Place { head, offset: offset + CHUNK_HEAD as u64, first });
                first += head.samples as usize;
                offset += CHUNK_HEAD as u64 + u64::from(head.length);
            }
            Err(RecordingEnd::Damaged { why, .. }) => {
                return Ok((places, RecordingEnd::Damaged { offset, why }));
            }
            Err(end) => return Ok((places, end)),
        }
    }
}

/// Reads and checks a chunk. The error is the end of the recording.
fn next_chunk(from: &mut impl Read, is_first: bool) -> io::Result<Result<ChunkHead, RecordingEnd>> {
    let damaged = |why| Ok(Err(RecordingEnd::Damaged { offset: 0, why }));
    let mut start = Vec::with_capacity(CHUNK_HEAD);
    from.by_ref().take(CHUNK_HEAD as u64).read_to_end(&mut start)?;
    if start.is_empty() {
        return Ok(Err(RecordingEnd::Interrupted));
    }
    let Some(start) = start.first_chunk() else { return damaged("the last chunk is cut off") };
    let Some(head) = ChunkHead::from_bytes(start) else { return damaged("the head of a chunk is damaged") };
    if head.is_end {
        return Ok(Err(RecordingEnd::Finished));
    }
    if !is_possible(&head, is_first) {
        return damaged("a chunk has an impossible size");
    }
    let mut bytes = Vec::new();
    from.by_ref().take(head.length.into()).read_to_end(&mut bytes)?;
    if bytes.len() < head.length as usize {
        return damaged("the last chunk is cut off");
    }
    if crc32fast::hash(&bytes) != head.crc {
        return damaged("a chunk is damaged");
    }
    Ok(Ok(head))
}

fn is_possible(head: &ChunkHead, is_first: bool) -> bool {
    let has_samples = (1..=MOST_SAMPLES).contains(&(head.samples as usize));
    has_samples && head.length as usize <= LONGEST_CHUNK && (head.stands_alone || !is_first)
}
