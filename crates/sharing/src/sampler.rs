//! Takes snapshots in a thread of its own.

use crate::{
    accumulator::{Accumulator, LevelSharing},
    level::Units,
    pace::Pace,
    snapshot::{Snapshot, Source},
};
use manycore_linux::clock::thread_cpu;
use manycore_topology::Level;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Mean time between snapshots where nothing else is requested.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(10);

/// A snapshot stands for at most this many mean intervals. One that came later than that, because the machine was
/// suspended or had no CPU for the sampling thread, does not show what happened meanwhile.
const MOST_INTERVALS: u32 = 20;

/// What was observed of the watched processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sharing {
    /// Where the snapshots came from: `procfs`.
    pub source: String,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of snapshots with at least two running watched tasks.
    pub snapshots_with_two: u64,
    /// Observed time in seconds.
    pub seconds: f64,
    /// The part of it with at least two running watched tasks, in seconds: the denominator of all shares.
    pub seconds_with_two: f64,
    /// Mean time between two snapshots, in milliseconds.
    pub interval_ms: f64,
    /// CPU time of the sampling thread as a share of the observed time: 0.01 is 1 % of one CPU.
    pub cpu_share: f64,
    /// The level at which the spread of tasks is in question; absent where tasks have no choice.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub level: Option<Level>,
    /// The shares of all levels with a choice, the innermost first. Empty if two tasks were never running.
    pub levels: Vec<LevelSharing>,
    /// Why there are no more snapshots, if the source failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

impl Sharing {
    /// Returns the shares of a level.
    pub fn of(&self, level: Level) -> Option<&LevelSharing> {
        self.levels.iter().find(|one| one.level == level)
    }
}

/// A thread that takes snapshots until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Sharing>,
}

impl Sampler {
    /// Starts to take snapshots from `source`, with this mean time between them. It gets longer where they would use
    /// more than 2 % of one CPU; the first one does not count.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(
        source: impl Source + 'static,
        levels: Arc<[Units]>,
        interval: Duration,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let sample = move || {
            let mut sampling = Sampling::new(source, levels.to_vec(), interval);
            loop {
                match stopped.recv_timeout(sampling.pause()) {
                    Err(RecvTimeoutError::Timeout) if sampling.failure.is_none() => sampling.take(),
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return sampling.end(),
                }
            }
        };
        let thread = thread::Builder::new().name("sharing".to_owned()).spawn(sample)?;
        Ok(Self { stop, thread })
    }

    /// Stops. Returns what was observed; `None` if the thread has panicked.
    pub fn stop(self) -> Option<Sharing> {
        drop(self.stop);
        self.thread.join().ok()
    }
}

/// The state of the sampling thread.
struct Sampling<S> {
    source: S,
    snapshot: Snapshot,
    accumulator: Accumulator,
    pace: Pace,
    longest: Duration,
    began: Instant,
    last: Instant,
    /// CPU time of the first snapshot, for which all files are opened.
    first_ns: Option<u64>,
    failure: Option<io::Error>,
}

impl<S: Source> Sampling<S> {
    fn new(source: S, levels: Vec<Units>, interval: Duration) -> Self {
        let (began, now) = (Instant::now(), clock_gettime(ClockId::Monotonic));
        Self {
            source,
            snapshot: Snapshot::default(),
            accumulator: Accumulator::new(levels),
            pace: Pace::new(interval, now.tv_nsec as u64),
            longest: interval * MOST_INTERVALS,
            began,
            last: began,
            first_ns: None,
            failure: None,
        }
    }

    fn pause(&mut self) -> Duration {
        let used = cpu_ns() - self.first_ns.unwrap_or(0);
        self.pace.next(used, self.began.elapsed().as_nanos() as u64)
    }

    fn take(&mut self) {
        match self.source.snapshot(&mut self.snapshot) {
            Ok(counts) => {
                let since = std::mem::replace(&mut self.last, Instant::now()).elapsed().min(self.longest);
                if counts {
                    self.accumulator.add(&self.snapshot, since.as_nanos() as u64);
                }
            }
            Err(error) => self.failure = Some(error),
        }
        self.first_ns.get_or_insert_with(cpu_ns);
    }

    fn end(self) -> Sharing {
        let ((snapshots, snapshots_with_two), (ns, ns_with_two)) =
            (self.accumulator.snapshots(), self.accumulator.ns());
        let seconds = ns as f64 / 1e9;
        let elapsed = self.began.elapsed().as_nanos().max(1) as f64;
        Sharing {
            source: self.source.name().to_owned(),
            snapshots,
            snapshots_with_two,
            seconds,
            seconds_with_two: ns_with_two as f64 / 1e9,
            interval_ms: seconds * 1e3 / snapshots.max(1) as f64,
            cpu_share: cpu_ns() as f64 / elapsed,
            level: self.accumulator.main_level(),
            levels: self.accumulator.shares(),
            failure: self.failure.map(|error| error.to_string()),
        }
    }
}

/// Returns the CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    thread_cpu().as_nanos() as u64
}
