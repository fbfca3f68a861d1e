//! Events by BPF.

use super::{Departure, EventKind, Recording, TraceEvent, TracedTask};
use crate::{
    bpf::{Result, TRACE, loader, possible_cpus},
    sample::TaskName,
};
use manycore_bpf::{map::MappedArray, program::Loaded, ring::Ring};
use manycore_linux::clock::now_ns;
use std::{collections::BTreeSet, fmt, os::fd::OwnedFd};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Whether the tasks of all processes are watched.
    pub all: bool,
    /// Events after which recording ends.
    pub most_events: usize,
}

/// Size of the buffer in bytes: 200,000 events, which [`Recorder::read`] has to take in time.
const BUFFER: u32 = 16 << 20;

/// The programs, in the order in which they are attached: no process is missed once switches are seen.
const PROGRAMS: [&str; 5] = ["on_fork", "on_migrate", "on_wakeup", "on_new", "on_switch"];

/// Programs in the kernel that send events. They are removed when this value is dropped, or this process ends in any way.
pub struct Recorder {
    ring: Ring,
    losses: MappedArray,
    recording: Recording,
    options: RecorderOptions,
    // The programs run no more once these are closed.
    _links: Vec<OwnedFd>,
    loaded: Loaded,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Recorder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins to record.
    ///
    /// # Errors
    /// [`Error`](crate::bpf::Error) with what is missing.
    pub fn start(options: RecorderOptions) -> Result<Self> {
        let mut object = loader(TRACE)?;
        object.set_entries("used", possible_cpus()?)?;
        object.set_entries("events", BUFFER)?;
        object.set("is_unfiltered", u64::from(options.all));
        let loaded = object.load()?;
        let ring = loaded.map("events")?.ring()?;
        let losses = loaded.map("losses")?.mapped()?;
        // Before the first event.
        let begin_ns = now_ns();
        let links =
            PROGRAMS.into_iter().map(|name| loaded.attach(name)).collect::<std::result::Result<_, _>>()?;
        let recording = Recording { span: (begin_ns, 0), ..Recording::default() };
        Ok(Self { ring, losses, recording, options, _links: links, loaded })
    }

    /// Watches a process and all that it starts from now on, or no longer the process itself. To watch a command from its
    /// first instruction on, watch this process while it starts the command.
    ///
    /// # Errors
    /// [`Error::Bpf`](crate::bpf::Error::Bpf) if there are too many processes.
    pub fn watch(&self, pid: u32, is_watched: bool) -> Result<()> {
        let processes = self.loaded.map("processes")?;
        if is_watched {
            processes.update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
        } else {
            processes.remove(&pid.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Takes the events that have come, and returns whether there is room for more. To be called every few milliseconds.
    pub fn read(&mut self) -> bool {
        let most = self.options.most_events;
        let recording = &mut self.recording;
        self.ring.read(|bytes| {
            if recording.events.len() < most {
                recording.events.extend(parse(bytes));
            } else {
                recording.is_full = true;
            }
        });
        !recording.is_full
    }

    /// Ends recording.
    ///
    /// # Errors
    /// [`Error::Bpf`](crate::bpf::Error::Bpf) if the kernel does not return the watched processes.
    pub fn finish(mut self) -> Result<Recording> {
        self.recording.span.1 = now_ns();
        self.read();
        self.recording.lost = self.losses.word(0, 0);
        self.recording.unwatched = self.losses.word(1, 0);
        if !self.options.all {
            let mut watched = BTreeSet::new();
            self.loaded.map("processes")?.for_each(|key, _| {
                watched.extend(key.try_into().map(u32::from_ne_bytes));
            })?;
            self.recording.watched = Some(watched);
        }
        Ok(self.recording)
    }
}

/// Reads `struct event` of `bpf/trace.bpf.c`; `None` for one of another kind.
fn parse(bytes: &[u8]) -> Option<TraceEvent> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let name = |at: usize| {
        let name = bytes.get(at..at + 16)?;
        Some(TaskName::new(&name[..name.iter().position(|&byte| byte == 0).unwrap_or(15)]))
    };
    let task = TracedTask { tid: word(16)?, pid: word(20)?, name: name(40)? };
    let other = TracedTask { tid: word(24)?, pid: word(28)?, name: name(56)? };
    let value = word(32)?;
    let kind = match word(8)? {
        1 if value >> 31 == 1 => EventKind::Switch { from: task, why: Departure::Displaced, to: other },
        1 => EventKind::Switch { from: task, why: Departure::of_state(value), to: other },
        2 => EventKind::Wakeup { task, waker: other },
        3 => EventKind::Migration { task, to: value },
        _ => return None,
    };
    let at_ns = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
    Some(TraceEvent { at_ns, cpu: word(12)?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_field_by_field() {
        let mut bytes = 77_u64.to_ne_bytes().to_vec();
        bytes.extend([1_u32, 3, 11, 10, 21, 20, 2, 0].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(b"worker\0garbage!!another name...\0".iter().take(32));
        let task = |pid, tid, name: &[u8]| TracedTask { pid, tid, name: TaskName::new(name) };
        let [from, to] = [task(10, 11, b"worker"), task(20, 21, b"another name...")];
        let kind = EventKind::Switch { from, why: Departure::Disk, to };
        assert_eq!(bytes.len(), 72);
        assert_eq!(parse(&bytes), Some(TraceEvent { at_ns: 77, cpu: 3, kind }));
        assert!((0..72).all(|length| parse(&bytes[..length]).is_none()));
        bytes[8] = 9;
        assert_eq!(parse(&bytes), None);
    }
}
