//! When all processes are surveyed, and what is requested about them.

use crate::decision::{
    assessment::{MemoryReading, Stage},
    process_table::{ProcessEntry, Protection, WATCHES},
};
use crate::event::EventDetail;
use crate::monitor::{Monitor, SECOND, SURVEY_SHARE, WatchState};
use manycore_linux::clock::now_ns;

/// Interval between surveys of all processes while memory is plentiful and available memory changes.
const CALM_SURVEY_NS: u64 = 30 * SECOND;

/// While memory is plentiful, surveys may take one part in this many of the time.
const CALM_SURVEY_SHARE: u64 = 5_000;

/// Interval between surveys while processes of a name are watched.
const NAMED_SURVEY_NS: u64 = 2 * SECOND;

/// Shortest interval between surveys while available memory decreases.
const QUICK_SURVEY_NS: u64 = SECOND / 5;

/// A table that is at most this old is used to find a cause.
const FRESH_NS: u64 = SECOND / 50;

/// Largest number of processes for which one tick requests the control group.
const GROUP_REQUESTS: usize = 64;

/// Number of processes for which a survey requests the amount of shared memory.
const SHARED_REQUESTS: usize = 4;

/// The amount is requested for processes of this size, in KiB. For larger ones it takes too long to
/// determine.
const SHARE_KIB: std::ops::Range<u32> = 32 << 10..1 << 20;

/// Interval between surveys while memory is plentiful and available memory is nearly what it was at the last
/// survey: little can have grown.
const REST_SURVEY_NS: u64 = 600 * SECOND;

/// At rest, surveys may take one part in this many of the time, but one is made at least every
/// [`RAREST_SURVEY_NS`].
const REST_SURVEY_SHARE: u64 = 100_000;

/// See [`REST_SURVEY_SHARE`].
const RAREST_SURVEY_NS: u64 = 3_600 * SECOND;

impl Monitor {
    /// Updates the processes that are watched by name, and those that have just started, which may yet
    /// execute another program.
    pub(super) fn scan_named(&mut self, now: u64) {
        let Self { plan, table, scanner, .. } = self;
        let named = plan.named_watches;
        if named == 0 {
            return;
        }
        scanner.scan_new(table, now, |process| plan.apply_rules(process));
        let is_followed = |process: &ProcessEntry| {
            process.watches & named != 0 || now.saturating_sub(process.first_ns) < NAMED_SURVEY_NS
        };
        scanner.rescan(table, now, is_followed, |process| plan.apply_rules(process));
    }

    /// Returns the interval between surveys of all processes, in nanoseconds.
    pub(super) fn survey_interval_ns(&self) -> u64 {
        let is_soon = |watch: &WatchState| {
            watch.assessment.stage >= Stage::Warn
                || watch.assessment.seconds_left.is_some_and(|left| left < 60.0)
        };
        if self.plan.watches.iter().any(|watch| watch.shortage.is_waiting()) {
            return (QUICK_SURVEY_NS / 4).max(self.survey_ns * SURVEY_SHARE);
        }
        if self.plan.watches.iter().any(is_soon) {
            let is_idle = self.plan.watches.iter().all(WatchState::is_steady);
            return if is_idle { 5 * SECOND } else { QUICK_SURVEY_NS.max(self.survey_ns * SURVEY_SHARE) };
        }
        let calm = CALM_SURVEY_NS.max(self.survey_ns * CALM_SURVEY_SHARE);
        if self.plan.named_watches != 0 {
            NAMED_SURVEY_NS.max(self.survey_ns * 100)
        } else if self.plan.watches.iter().any(WatchState::has_moved) {
            calm
        } else {
            let share = (self.survey_ns * REST_SURVEY_SHARE).min(RAREST_SURVEY_NS);
            REST_SURVEY_NS.max(calm).max(share)
        }
    }

    /// Surveys all processes and makes this a moment from which growth is measured.
    pub(super) fn survey_all(&mut self, now: u64) {
        let Self { plan, table, scanner, .. } = self;
        let swaps =
            plan.watches.iter().any(|watch| watch.reading.swap_total_bytes > watch.reading.swap_free_bytes);
        if scanner.scan_all(table, now, swaps, |process| plan.apply_rules(process)).is_err() {
            return;
        }
        let mut readings = [MemoryReading::default(); WATCHES];
        for (reading, watch) in readings.iter_mut().zip(&mut self.plan.watches) {
            *reading = watch.reading;
            watch.surveyed_available = watch.reading.available_with_swap();
        }
        self.table.mark(now, &readings);
        self.survey_ns = now_ns().saturating_sub(now);
        self.surveyed_ns = now;
        if self.table.dropped > 0 {
            self.send_event(0, &EventDetail::Dropped(self.table.dropped));
        }
        self.next_group_pid = 0;
        self.request_shared_sizes();
    }

    /// Requests the control groups of new processes. At most [`GROUP_REQUESTS`] are requested per tick; the others
    /// follow with the next ticks.
    pub(super) fn request_groups(&mut self) {
        if self.next_group_pid == u32::MAX {
            return;
        }
        let mut next = self.next_group_pid;
        let (from, mut asked) = (next, 0);
        let is_unknown = |process: &&ProcessEntry| {
            process.reading.pid > from && !process.is_known && process.protection != Some(Protection::Kernel)
        };
        for process in self.table.processes().iter().filter(is_unknown) {
            let what = EventDetail::Identify { pid: process.reading.pid, start: process.reading.start };
            if asked == GROUP_REQUESTS || !self.send_event(0, &what) {
                self.next_group_pid = next;
                return;
            }
            (next, asked) = (process.reading.pid, asked + 1);
        }
        // All have been requested. The next survey may find more.
        self.next_group_pid = u32::MAX;
    }

    /// Requests how much memory of some processes is shared with others.
    fn request_shared_sizes(&mut self) {
        if self.plan.watches.iter().any(|watch| watch.assessment.stage >= Stage::Warn) {
            return;
        }
        // Continues with the next process ids after those of the last survey.
        let next = self.next_shared_pid;
        let big = self.table.processes().iter().filter(|process| SHARE_KIB.contains(&process.reading.kib));
        let mut asked = 0;
        self.next_shared_pid = 0;
        for process in big.filter(|process| process.reading.pid > next).take(SHARED_REQUESTS) {
            asked = process.reading.pid;
            self.send_event(
                0,
                &EventDetail::SharedSize { pid: process.reading.pid, start: process.reading.start },
            );
        }
        self.next_shared_pid = asked;
    }

    /// Renews the table if it is too old to find a cause.
    pub(super) fn refresh_table(&mut self) {
        let now = now_ns();
        if now.saturating_sub(self.surveyed_ns) > FRESH_NS {
            for at in 0..self.plan.watches.len() {
                self.read(at, now);
            }
            self.survey_all(now);
        }
    }
}
