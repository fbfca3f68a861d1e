//! Before a signal: what has to be known first, and which process is selected if it remains unknown.

use crate::decision::{
    assessment::{Stage, needs_last_resort},
    cause::{Candidates, Suspect},
    process_table::ProcessEntry,
};
use crate::monitor::Monitor;
use crate::{event::EventDetail, rules::LastResort};
use manycore_linux::clock::now_ns;

/// Longest wait for the control group of a new process, in nanoseconds.
pub(super) const GROUP_WAIT_NS: u64 = 200_000_000;
/// Interval at which the answer is polled during [`GROUP_WAIT_NS`], in nanoseconds.
pub(super) const POLL_NS: u64 = 2_000_000;

/// Longest wait for the memory that processes hold in addition to their pages, in nanoseconds. A result stays
/// valid for as long.
pub(super) const HOLDER_WAIT_NS: u64 = 300_000_000;

/// A search without a result for this long is requested again.
const SEARCH_TIMEOUT_NS: u64 = 2_000_000_000;

impl Monitor {
    /// Whether the control group of a grown process must be awaited: the rules refer to control groups, and
    /// that of the process is not yet known. After [`GROUP_WAIT_NS`] the inherited one is used.
    pub(super) fn awaits_groups(&mut self, at: usize) -> bool {
        let now = now_ns();
        let least = (self.plan.watches[at].reading.total_bytes >> 10) as u32 / 100;
        let is_open = |process: &ProcessEntry| process.reading.kib > least && self.plan.needs_lookup(process);
        if !self.table.processes().iter().any(is_open) {
            return false;
        }
        self.plan.watches[at].group_wait_ns.get_or_insert(now);
        let is_awaiting_groups = self.plan.watches[at].is_awaiting_groups(now);
        if is_awaiting_groups {
            self.next_group_pid = 0;
            self.request_groups();
            self.plan.watches[at].shortage.delay_search(now + POLL_NS);
        }
        is_awaiting_groups
    }

    /// Whether most of the decrease is neither in the pages of processes nor in the memory that they were
    /// found to hold in addition.
    pub(super) fn is_unexplained(&self, at: usize) -> bool {
        let reading = &self.plan.watches[at].reading;
        let window = self.table.recent_window(at, reading, reading.total_bytes / 10);
        window.is_some_and(|window| self.table.unexplained(at, &window) > window.decrease / 2)
    }

    /// Requests a search for the processes that hold memory in addition to their pages, unless one is under
    /// way.
    fn request_search(&mut self, at: usize) {
        let now = now_ns();
        let goes_on =
            self.search_started_ns.is_some_and(|since| now.saturating_sub(since) < SEARCH_TIMEOUT_NS);
        if self.can_search && !goes_on && self.send_event(at, &EventDetail::SeekHolders) {
            self.search_started_ns = Some(now);
        }
    }

    /// From the warning on, keeps searches running while memory decreases and most of the decrease is
    /// unexplained.
    pub(super) fn keep_searching(&mut self, at: usize) {
        if self.is_searching(at) {
            self.request_search(at);
        }
    }

    /// Whether the result of a search must be awaited because most of the decrease is unexplained.
    pub(super) fn awaits_holders(&mut self, at: usize) -> bool {
        let now = now_ns();
        if !self.can_search
            || now.saturating_sub(self.extra_memory_ns) < HOLDER_WAIT_NS
            || !self.is_unexplained(at)
        {
            return false;
        }
        let watch = &mut self.plan.watches[at];
        watch.holder_wait_ns.get_or_insert(now);
        let is_awaiting_holders = watch.is_awaiting_holders(now);
        if is_awaiting_holders {
            watch.shortage.delay_search(now + POLL_NS);
        } else {
            watch.holder_wait_ns = None;
        }
        self.request_search(at);
        is_awaiting_holders
    }

    /// Returns the process to end, with its `oom_score`, if none is shown to be the cause and memory is
    /// nearly exhausted.
    pub(super) fn last_resort(&mut self, at: usize) -> Option<(Suspect, u32)> {
        let is_searching = self.is_searching(at);
        let watch = &self.plan.watches[at];
        let acts = watch.last_resort == LastResort::OomScore
            && needs_last_resort(&watch.reading, &watch.assessment, &watch.limits, is_searching);
        if acts { self.highest_score(at) } else { None }
    }

    /// Whether a search that may show the cause is under way or about to start.
    pub(super) fn is_searching(&self, at: usize) -> bool {
        let watch = &self.plan.watches[at];
        let is_falling = watch.assessment.stage >= Stage::Warn && !watch.is_steady();
        self.can_search && is_falling && self.is_unexplained(at)
    }

    /// Returns the eligible process that the kernel would kill.
    pub(super) fn highest_score(&mut self, at: usize) -> Option<(Suspect, u32)> {
        let Self { plan, table, scanner, .. } = self;
        let among = Candidates { watch: at, excluded: plan.watches[at].shortage.excluded() };
        let allowed = table.processes().iter().filter(|process| among.is_eligible(process));
        let scores =
            allowed.filter_map(|process| Some((scanner.reader.oom_score(process.reading.pid)?, process)));
        let (score, process) = scores.max_by_key(|(score, process)| (*score, process.freeable_bytes()))?;
        Some((Suspect::by_policy(process), score))
    }
}
