//! Two processes and two pipes: a counter is sent to the other process and back, as in UnixBench's context1.

use super::{Member, Role, SharedObject, Team};
use crate::Load;
use rustix::io::retry_on_intr;
use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter},
    os::fd::AsRawFd,
    sync::{Mutex, PoisonError},
};

/// Names of the roles.
pub(super) const PIPE_CLIENT: &str = "pipe";
pub(super) const PIPE_SERVER: &str = "pipe-answer";

/// Both pipes of a pair: there and back.
type Pair = [(PipeReader, PipeWriter); 2];

/// A pair of pipes for each worker, and a process that answers on it.
pub struct Pipes {
    pairs: Mutex<Vec<Pair>>,
    workers: usize,
}

impl Pipes {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["processes"];

    /// Creates pipes for `workers` workers.
    ///
    /// # Errors
    /// Those of `pipe2(2)`.
    pub fn new(workers: usize) -> io::Result<Self> {
        let pairs =
            (0..workers).map(|_| Ok([io::pipe()?, io::pipe()?])).collect::<io::Result<Vec<Pair>>>()?;
        Ok(Self { pairs: Mutex::new(pairs), workers })
    }
}

impl SharedObject for Pipes {
    fn members(&self) -> Vec<Member> {
        let process = std::process::id();
        let ends = |reader: &PipeReader, writer: &PipeWriter| {
            format!("/proc/{process}/fd/{},/proc/{process}/fd/{}", reader.as_raw_fd(), writer.as_raw_fd())
        };
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let clients = pairs
            .iter()
            .map(|[there, back]| Member::Process { name: PIPE_CLIENT, object: ends(&back.0, &there.1) });
        let servers = pairs
            .iter()
            .map(|[there, back]| Member::Process { name: PIPE_SERVER, object: ends(&there.0, &back.1) });
        clients.chain(servers).collect()
    }

    fn team(&self, _: usize, workers: usize) -> Team {
        let servers = (self.workers..self.workers + workers).collect();
        Team { workers: (0..workers).collect(), servers, parameter: 0 }
    }

    fn per_tick(&self) -> u64 {
        1
    }

    /// Drops this process's ends. Then only the processes of a pair hold them, so that a process whose
    /// partner has ended sees the end of the pipe.
    fn close(&self) {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Opens the end to read from and the end to write to.
fn open(object: &str) -> io::Result<(File, File)> {
    let (reader, writer) = object.split_once(',').ok_or(io::ErrorKind::InvalidInput)?;
    Ok((File::open(reader)?, File::options().write(true).open(writer)?))
}

/// Returns the role of the process that counts.
pub(super) fn open_client(object: &str) -> io::Result<Role> {
    let (reader, writer) = open(object)?;
    Ok(Role::Worker(Box::new(PipeClient { reader, writer, count: 0, broken: None })))
}

/// Returns the role of the process that sends back what it receives, in order, until the pipe is closed.
pub(super) fn open_server(object: &str) -> io::Result<Role> {
    let (reader, writer) = open(object)?;
    Ok(Role::Server(Box::new(move || {
        let mut count = 0u64;
        while receive(&reader).is_ok_and(|seen| seen == count) && send(&writer, count).is_ok() {
            count += 1;
        }
    })))
}

/// Writes eight bytes to a pipe with `write(2)` itself, as context1 does. After a context switch each return
/// from a function is mispredicted, so the layers of the standard library's `Write` would make a round 4 %
/// slower.
#[inline]
fn send(pipe: &File, number: u64) -> io::Result<()> {
    whole(retry_on_intr(|| rustix::io::write(pipe, &number.to_ne_bytes()))?)
}

/// Reads eight bytes from a pipe with `read(2)`. Fewer bytes mean the end of the pipe.
#[inline]
fn receive(pipe: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    whole(retry_on_intr(|| rustix::io::read(pipe, &mut bytes))?)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Checks for eight bytes. A pipe transfers eight bytes at once (pipe(7): up to `PIPE_BUF` is atomic), or is
/// broken.
#[inline]
fn whole(bytes: usize) -> io::Result<()> {
    if bytes == 8 { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

struct PipeClient {
    reader: File,
    writer: File,
    count: u64,
    broken: Option<i32>,
}

impl PipeClient {
    fn round(&mut self) -> io::Result<()> {
        send(&self.writer, self.count)?;
        if receive(&self.reader)? != self.count {
            return Err(io::Error::from_raw_os_error(libc::EBADMSG));
        }
        self.count += 1;
        Ok(())
    }
}

impl Load for PipeClient {
    fn prepare(&mut self, _: u64) {}

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        if let Err(error) = self.round() {
            // The end of a pipe has no error number of its own.
            self.broken = Some(error.raw_os_error().unwrap_or(libc::EPIPE));
        }
    }

    fn error(&self) -> Option<i32> {
        self.broken
    }
}
