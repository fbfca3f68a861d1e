//! Before a signal: what has to be known first, and which process is selected if it remains unknown.

use crate::decision::{
    choice::{Among, Suspect},
    stage::{Stage, is_end},
    table::Process,
};
use crate::watcher::Watcher;
use crate::{event::What, rules::LastResort};
use manycore_linux::clock::now_ns;

/// Longest wait for the control group of a new process, in nanoseconds.
pub(super) const ASKING_NS: u64 = 200_000_000;
/// Interval at which the answer is polled during [`ASKING_NS`], in nanoseconds.
pub(super) const MOMENT_NS: u64 = 2_000_000;

/// Longest wait for the memory that processes hold in addition to their pages, in nanoseconds. A result stays
/// valid for as long.
pub(super) const SEEKING_NS: u64 = 300_000_000;

/// A search without a result for this long is requested again.
const LOST_NS: u64 = 2_000_000_000;

impl Watcher {
    /// Whether the control group of a grown process must be awaited: the rules refer to control groups, and
    /// that of the process is not yet known. After [`ASKING_NS`] the inherited one is used.
    pub(super) fn has_to_ask(&mut self, at: usize) -> bool {
        let now = now_ns();
        let least = (self.plan.watches[at].reading.total >> 10) as u32 / 100;
        let is_open = |process: &Process| process.seen.kib > least && self.plan.waits_for(process);
        if !self.table.processes().iter().any(is_open) {
            return false;
        }
        self.plan.watches[at].asking_ns.get_or_insert(now);
        let is_asking = self.plan.watches[at].is_asking(now);
        if is_asking {
            self.who_next = 0;
            self.ask_who();
            self.plan.watches[at].incident.wait(now + MOMENT_NS);
        }
        is_asking
    }

    /// Whether most of the decrease is neither in the pages of processes nor in the memory that they were
    /// found to hold in addition.
    pub(super) fn is_unexplained(&self, at: usize) -> bool {
        let reading = &self.plan.watches[at].reading;
        let window = self.table.recent(at, reading, reading.total / 10);
        window.is_some_and(|window| self.table.unexplained(at, &window) > window.fall / 2)
    }

    /// Requests a search for the processes that hold memory in addition to their pages, unless one is under
    /// way.
    fn seek(&mut self, at: usize) {
        let now = now_ns();
        let goes_on = self.sought_ns.is_some_and(|since| now.saturating_sub(since) < LOST_NS);
        if self.can_seek && !goes_on && self.tell(at, &What::SeekHolders) {
            self.sought_ns = Some(now);
        }
    }

    /// From the warning on, keeps searches running while memory decreases and most of the decrease is
    /// unexplained.
    pub(super) fn keep_seeking(&mut self, at: usize) {
        if self.is_sought(at) {
            self.seek(at);
        }
    }

    /// Whether the result of a search must be awaited because most of the decrease is unexplained.
    pub(super) fn has_to_seek(&mut self, at: usize) -> bool {
        let now = now_ns();
        if !self.can_seek || now.saturating_sub(self.held_ns) < SEEKING_NS || !self.is_unexplained(at) {
            return false;
        }
        let watch = &mut self.plan.watches[at];
        watch.seeking_ns.get_or_insert(now);
        let is_seeking = watch.is_seeking(now);
        if is_seeking {
            watch.incident.wait(now + MOMENT_NS);
        } else {
            watch.seeking_ns = None;
        }
        self.seek(at);
        is_seeking
    }

    /// Returns the process to end, with its `oom_score`, if none is shown to be the cause and memory is
    /// nearly exhausted.
    pub(super) fn last_resort(&mut self, at: usize) -> Option<(Suspect, u32)> {
        let is_sought = self.is_sought(at);
        let watch = &self.plan.watches[at];
        let acts = watch.last_resort == LastResort::OomScore
            && is_end(&watch.reading, &watch.told, &watch.limits, is_sought);
        if acts { self.highest_score(at) } else { None }
    }

    /// Whether a search that may show the cause is under way or about to start.
    pub(super) fn is_sought(&self, at: usize) -> bool {
        let watch = &self.plan.watches[at];
        let is_falling = watch.told.stage >= Stage::Warn && !watch.is_steady();
        self.can_seek && is_falling && self.is_unexplained(at)
    }

    /// Returns the eligible process that the kernel would kill.
    pub(super) fn highest_score(&mut self, at: usize) -> Option<(Suspect, u32)> {
        let Self { plan, table, survey, .. } = self;
        let among = Among { watch: at, except: plan.watches[at].incident.left_out() };
        let allowed = table.processes().iter().filter(|process| among.allows(process));
        let scores = allowed.filter_map(|process| Some((survey.oom_score(process.seen.pid)?, process)));
        let (score, process) = scores.max_by_key(|(score, process)| (*score, process.bytes()))?;
        Some((Suspect::by_policy(process), score))
    }
}
