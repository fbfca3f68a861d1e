//! Counters of single threads (`perf_event_open(2)`): of the CPU, such as cycles, or of the kernel, such as page faults.
//!
//! The events of a thread are one group: the kernel counts all of them at the same time or none, so that ratios of their
//! counts are of the same instructions. A CPU with fewer counters than events in use takes turns. The counts of a group are
//! then those of a part of the time; [`EventCounts::since`] scales them to all of it.

use crate::perf_event;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedEvent {
    /// Cycles of the CPU, by a counter of the CPU.
    Cycles,
    /// Instructions that have completed, by a counter of the CPU.
    Instructions,
    /// Accesses that the last-level cache did not have, mostly; by a counter of the CPU, whose maker chooses what it is.
    CacheMisses,
    /// Time on a CPU in nanoseconds, by the kernel.
    TaskClock,
    /// Page faults, by the kernel.
    PageFaults,
    /// Context switches, by the kernel. They are in the kernel, so that none is counted in user mode alone.
    ContextSwitches,
}

impl CountedEvent {
    /// Type and number in `linux/perf_event.h`.
    fn numbers(self) -> (u32, u32) {
        let (hardware, software) = (bindings::PERF_TYPE_HARDWARE, bindings::PERF_TYPE_SOFTWARE);
        match self {
            Self::Cycles => (hardware, bindings::PERF_COUNT_HW_CPU_CYCLES),
            Self::Instructions => (hardware, bindings::PERF_COUNT_HW_INSTRUCTIONS),
            Self::CacheMisses => (hardware, bindings::PERF_COUNT_HW_CACHE_MISSES),
            Self::TaskClock => (software, bindings::PERF_COUNT_SW_TASK_CLOCK),
            Self::PageFaults => (software, bindings::PERF_COUNT_SW_PAGE_FAULTS),
            Self::ContextSwitches => (software, bindings::PERF_COUNT_SW_CONTEXT_SWITCHES),
        }
    }
}

/// Why events of a thread cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The CPUs or the kernel do not count one of them (ENOENT, EOPNOTSUPP, ENODEV, ENOSYS).
    #[error("this machine does not count such events ({0})")]
    NotCounted(#[source] io::Error),
    /// The thread is of another user, `kernel.perf_event_paranoid` is too high, or a container forbids it (EACCES, EPERM).
    #[error("no right to count events of this thread ({0}); root may, or see kernel.perf_event_paranoid")]
    NoRight(#[source] io::Error),
    /// The thread does not exist any more (ESRCH).
    #[error("the thread has ended")]
    Ended,
    /// This process or the system has no file descriptors left (EMFILE, ENFILE).
    #[error("no file descriptors are left ({0})")]
    NoDescriptors(#[source] io::Error),
    /// Any other one.
    #[error("events cannot be counted: {0}")]
    Other(#[source] io::Error),
}

impl From<io::Error> for CountError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS) => Self::NotCounted(error),
            Some(Errno::ACCESS | Errno::PERM) => Self::NoRight(error),
            Some(Errno::SRCH) => Self::Ended,
            Some(Errno::MFILE | Errno::NFILE) => Self::NoDescriptors(error),
            _ => Self::Other(error),
        }
    }
}

/// What a group has counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCounts<const N: usize> {
    /// Time on CPUs of the thread in nanoseconds.
    pub enabled_ns: u64,
    /// The part of it in which the events were counted, in nanoseconds.
    pub running_ns: u64,
    /// Counts within that part, in the order of the events.
    pub counts: [u64; N],
}

impl<const N: usize> EventCounts<N> {
    /// Returns the counts after `before`, scaled to all of the thread's time on CPUs. All are 0 if it did not run. `None` if
    /// less than `least_share` of its time was counted.
    pub fn since(&self, before: &Self, least_share: f64) -> Option<[f64; N]> {
        let enabled = self.enabled_ns.saturating_sub(before.enabled_ns) as f64;
        let running = self.running_ns.saturating_sub(before.running_ns) as f64;
        if enabled == 0.0 {
            return Some([0.0; N]);
        }
        let count = |at: usize| self.counts[at].saturating_sub(before.counts[at]) as f64;
        let is_enough = running > 0.0 && running >= enabled * least_share;
        is_enough.then(|| std::array::from_fn(|at| count(at) * (enabled / running)))
    }
}

/// Most events of a group.
pub const MOST_EVENTS: usize = 8;

/// Length of a reading in bytes: the number of events, two times, and the counts, 8 bytes each.
const READING: usize = 8 * (3 + MOST_EVENTS);

/// Events that this machine counts, and whether in user mode only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskCounters<const N: usize> {
    events: [CountedEvent; N],
    is_user_only: bool,
}

impl<const N: usize> TaskCounters<N> {
    /// Tries the events on the calling thread. They are counted in user mode only if the kernel refuses otherwise
    /// (`kernel.perf_event_paranoid` at 2 or more, without privileges).
    ///
    /// # Errors
    /// The machine does not count one of the events; no right.
    pub fn probe(events: [CountedEvent; N]) -> Result<Self, CountError> {
        const { assert!(N > 0 && N <= MOST_EVENTS) };
        let tried = |is_user_only| {
            let counters = Self { events, is_user_only };
            counters.open_group(0).map(|_| counters)
        };
        match tried(false) {
            Err(CountError::NoRight(_)) => tried(true),
            other => other,
        }
    }

    /// Whether only what runs in user mode is counted.
    pub fn is_user_only(&self) -> bool {
        self.is_user_only
    }

    /// Counts the events of a thread from now on, until the value is dropped.
    ///
    /// # Errors
    /// The thread has ended; no right; no file descriptors are left.
    pub fn count(&self, tid: u32) -> Result<CountedThread<N>, CountError> {
        // 0 would be the calling thread.
        let tid = i32::try_from(tid).ok().filter(|&tid| tid > 0).ok_or(CountError::Ended)?;
        self.open_group(tid)
    }

    fn open_group(&self, tid: i32) -> Result<CountedThread<N>, CountError> {
        let mut files: Vec<OwnedFd> = Vec::with_capacity(N);
        for &event in &self.events {
            let leader = files.first().map_or(-1, AsRawFd::as_raw_fd);
            let mut attributes = self.attributes(event);
            // An event that joins a group that counts already would count from the thread's next switch on only.
            attributes.set_disabled(files.is_empty().into());
            files.push(perf_event::open(attributes, tid, -1, leader)?);
        }
        perf_event::enable(files[0].as_fd())?;
        Ok(CountedThread { files })
    }

    fn attributes(&self, event: CountedEvent) -> perf_event_attr {
        let (kind, number) = event.numbers();
        let format = bindings::PERF_FORMAT_GROUP
            | bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
            | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING;
        let mut attributes = perf_event_attr {
            type_: kind,
            config: number.into(),
            read_format: format.into(),
            ..perf_event_attr::default()
        };
        attributes.set_exclude_kernel(self.is_user_only.into());
        attributes.set_exclude_hv(self.is_user_only.into());
        attributes
    }
}

/// A thread whose events are counted. Its files are closed on drop.
#[derive(Debug)]
pub struct CountedThread<const N: usize> {
    /// One of each event; reading the first one reads all.
    files: Vec<OwnedFd>,
}

impl<const N: usize> CountedThread<N> {
    /// Returns the counts so far. Those of a thread that has ended, or has executed a program with other rights, stand.
    ///
    /// # Errors
    /// The kernel refuses, or has other events than were opened.
    pub fn read(&self) -> io::Result<EventCounts<N>> {
        let mut bytes = [0; READING];
        let length = rustix::io::read(&self.files[0], &mut bytes)?;
        parse(&bytes[..length]).ok_or_else(|| {
            io::Error::other(format!("a group of {N} events was read as {length} bytes of another form"))
        })
    }
}

/// Parses the reading of a group with both times (`perf_event_open(2)`, "Reading results").
fn parse<const N: usize>(bytes: &[u8]) -> Option<EventCounts<N>> {
    let mut numbers = bytes.as_chunks().0.iter().map(|number| u64::from_ne_bytes(*number));
    let is_complete = bytes.len() == 8 * (3 + N) && numbers.next() == Some(N as u64);
    let (enabled_ns, running_ns) = (numbers.next()?, numbers.next()?);
    let mut counts = [0; N];
    counts.iter_mut().zip(numbers).for_each(|(count, number)| *count = number);
    is_complete.then_some(EventCounts { enabled_ns, running_ns, counts })
}

#[cfg(test)]
mod tests;
