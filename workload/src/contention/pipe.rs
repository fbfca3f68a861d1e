//! Two processes and two pipes: a counter goes to the other one and comes back, as in UnixBench's context1.

use super::{Member, Part, Shared, Team};
use crate::Load;
use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::AsRawFd,
    sync::{Mutex, PoisonError},
};

/// Names of the parts.
pub(super) const ASKS: &str = "pipe";
pub(super) const ANSWERS: &str = "pipe-answer";

/// Both pipes of a pair: there and back.
type Pair = [(PipeReader, PipeWriter); 2];

/// A pair of pipes for each worker, and a process that answers it.
pub struct Pipes {
    pairs: Mutex<Vec<Pair>>,
    workers: usize,
}

impl Pipes {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["processes"];

    /// Pipes for `workers` workers.
    ///
    /// # Errors
    /// Those of `pipe2(2)`.
    pub fn new(workers: usize) -> io::Result<Self> {
        let pairs =
            (0..workers).map(|_| Ok([io::pipe()?, io::pipe()?])).collect::<io::Result<Vec<Pair>>>()?;
        Ok(Self { pairs: Mutex::new(pairs), workers })
    }
}

impl Shared for Pipes {
    fn members(&self) -> Vec<Member> {
        let process = std::process::id();
        let ends = |reader: &PipeReader, writer: &PipeWriter| {
            format!("/proc/{process}/fd/{},/proc/{process}/fd/{}", reader.as_raw_fd(), writer.as_raw_fd())
        };
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let asks =
            pairs.iter().map(|[there, back]| Member::Process { name: ASKS, object: ends(&back.0, &there.1) });
        let answers = pairs
            .iter()
            .map(|[there, back]| Member::Process { name: ANSWERS, object: ends(&there.0, &back.1) });
        asks.chain(answers).collect()
    }

    fn team(&self, _: usize, workers: usize) -> Team {
        let servers = (self.workers..self.workers + workers).collect();
        Team { workers: (0..workers).collect(), servers, parameter: 0 }
    }

    fn per_tick(&self) -> u64 {
        1
    }

    /// Nobody but the processes themselves holds the ends then, so that one whose partner is gone comes back.
    fn close(&self) {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The end to read from and the end to write to.
fn open(object: &str) -> io::Result<(File, File)> {
    let (reader, writer) = object.split_once(',').ok_or(io::ErrorKind::InvalidInput)?;
    Ok((File::open(reader)?, File::options().write(true).open(writer)?))
}

/// The part of the process that counts.
pub(super) fn asks(object: &str) -> io::Result<Part> {
    let (reader, writer) = open(object)?;
    Ok(Part::Works(Box::new(Asks { reader, writer, count: 0, broken: None })))
}

/// The part of the process that sends back what comes, in its order, until the pipe is closed.
pub(super) fn answers(object: &str) -> io::Result<Part> {
    let (mut reader, mut writer) = open(object)?;
    Ok(Part::Serves(Box::new(move || {
        let (mut bytes, mut count) = ([0; 8], 0u64);
        while reader.read_exact(&mut bytes).is_ok()
            && u64::from_ne_bytes(bytes) == count
            && writer.write_all(&bytes).is_ok()
        {
            count += 1;
        }
    })))
}

struct Asks {
    reader: File,
    writer: File,
    count: u64,
    broken: Option<i32>,
}

impl Asks {
    fn round(&mut self) -> io::Result<()> {
        let mut bytes = self.count.to_ne_bytes();
        self.writer.write_all(&bytes)?;
        self.reader.read_exact(&mut bytes)?;
        if u64::from_ne_bytes(bytes) != self.count {
            return Err(io::Error::from_raw_os_error(libc::EBADMSG));
        }
        self.count += 1;
        Ok(())
    }
}

impl Load for Asks {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        if let Err(error) = self.round() {
            // The end of a pipe has no number of its own.
            self.broken = Some(error.raw_os_error().unwrap_or(libc::EPIPE));
        }
    }

    fn broken(&self) -> Option<i32> {
        self.broken
    }
}
