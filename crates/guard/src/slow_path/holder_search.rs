//! Finds the processes that hold memory outside of all processes' pages. It runs in a thread of its own,
//! because it takes time and may block on locks of processes.

use crate::decision::{
    assessment::{MemoryReading, Thresholds, has_moved},
    memory_objects::GrowthTracker,
};
use crate::event::SlowPathMessage;
use crate::memory_objects::Scanner;
use manycore_linux::allocator;
use manycore_linux::wake_channel::Sender;
use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Interval between scans while memory is plentiful.
const CALM: Duration = Duration::from_secs(30);

/// While memory is plentiful, scans may take one part in this many of the time, but run at least every
/// [`RAREST`].
const CALM_SHARE: u32 = 2000;

/// See [`CALM_SHARE`].
const RAREST: Duration = Duration::from_mins(2);

/// Least time between two scans while available memory decreases. It is also at least as long as the last
/// scan took.
const MOMENT: Duration = Duration::from_millis(20);

/// Number of processes reported at once: those that hold most.
const MOST: usize = 64;

/// Interval between scans while memory is plentiful and available memory is nearly what it was at the last scan:
/// nothing large can have been taken since.
const REST: Duration = Duration::from_hours(1);

/// Handle of the thread.
pub struct HolderSearch {
    requests: SyncSender<bool>,
    /// Time of the last request for a baseline, and available memory then.
    baseline: Option<(Instant, u64)>,
}

impl HolderSearch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created, or the kernel does not provide what the scan needs.
    pub fn start(messages: Sender<SlowPathMessage>) -> io::Result<Self> {
        let (sender, wanted) = sync_channel::<bool>(2);
        let mut scanner = Scanner::new()?;
        let mut tracker = GrowthTracker::default();
        let mut not_before = Instant::now();
        let (mut ended, mut rest) = (Instant::now(), Duration::ZERO);
        let work = move || {
            for is_calm in wanted {
                let began = Instant::now();
                if is_calm {
                    if began >= not_before {
                        scan_memory_objects(&mut scanner, &mut tracker, true);
                        allocator::return_free_memory();
                        not_before = Instant::now() + (began.elapsed() * CALM_SHARE).clamp(CALM, RAREST);
                    }
                    continue;
                }
                // The result follows each scan at once. The monitor requests another scan while too little is
                // explained.
                thread::sleep(rest.saturating_sub(ended.elapsed()));
                let began = Instant::now();
                scan_memory_objects(&mut scanner, &mut tracker, false);
                (ended, rest) = (Instant::now(), began.elapsed().max(MOMENT));
                let mut held = tracker.growth_by_owner();
                held.truncate(MOST);
                messages.try_send(SlowPathMessage::ExtraMemory(held));
            }
        };
        thread::Builder::new().name("holder-search".to_owned()).spawn(work)?;
        Ok(Self { requests: sender, baseline: None })
    }

    /// Requests a baseline, from which growth is measured, if memory has changed since the last one or some time
    /// has passed. To be called while memory is plentiful.
    pub fn request_baseline(&mut self, reading: &MemoryReading, limits: &Thresholds) {
        let is_due = self.baseline.is_none_or(|(requested, before)| {
            requested.elapsed() >= REST || requested.elapsed() >= CALM && has_moved(before, reading, limits)
        });
        if is_due && self.requests.try_send(true).is_ok() {
            self.baseline = Some((Instant::now(), reading.available_with_swap()));
        }
    }

    /// Requests a scan of what has grown since the baseline. Does nothing if one is already requested.
    pub fn request(&self) {
        let _ = self.requests.try_send(false);
    }
}

/// Adds a scan to the growth tracker.
pub fn scan_memory_objects(scanner: &mut Scanner, tracker: &mut GrowthTracker, is_calm: bool) {
    let scan = scanner.scan();
    tracker.add_scan(&scan.objects, is_calm, scan.is_complete);
}
