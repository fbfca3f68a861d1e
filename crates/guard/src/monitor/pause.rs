//! How long the monitor waits between readings, and what wakes it before.

use crate::decision::{
    assessment::{Stage, StageReason, next_reading_ns, ns_to_level},
    process_table::WATCHES,
};
use crate::monitor::{Monitor, SECOND, WatchState, evidence::POLL_NS};
use manycore_linux::clock::now_ns;
use manycore_topology::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{fs, os::fd::AsFd};

/// Pause between readings while a process that was sent a signal has not exited yet.
pub(super) const WAITING_NS: u64 = SECOND / 50;

/// Pause between readings if memory is always short but does not decrease.
const STEADY_NS: u64 = SECOND / 10;

/// Longest pause between readings, except at rest.
const LONGEST_NS: u64 = SECOND;

/// Longest pause between readings at rest: nothing else depends on them, and all CPUs together cannot reach the level
/// of a signal in this time.
const LONGEST_REST_NS: u64 = 4 * SECOND;

/// Returns the number of CPUs that the machine can have, including those that are offline; without limit if it is
/// unknown.
pub(super) fn possible_cpus() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    list.trim().parse().map_or(usize::MAX, |cpus: CpuSet| cpus.len())
}

impl Monitor {
    /// Returns the time until the next tick, in nanoseconds.
    pub(super) fn pause(&self) -> u64 {
        let now = now_ns();
        let of = |watch: &WatchState| {
            if watch.shortage.is_waiting() {
                WAITING_NS
            } else if watch.assessment.stage >= Stage::Term
                && (watch.is_awaiting_groups(now) || watch.is_awaiting_holders(now))
            {
                POLL_NS
            } else if watch.is_unreadable {
                LONGEST_NS
            } else if watch.is_steady() && watch.assessment.reason != StageReason::None {
                // Memory is always short, but does not become shorter.
                STEADY_NS
            } else {
                let longest_ns = self.longest_pause_ns(watch);
                next_reading_ns(&watch.reading, &watch.assessment, &watch.limits, longest_ns)
            }
        };
        self.plan.watches.iter().map(of).min().unwrap_or(LONGEST_NS)
    }

    /// Returns the longest pause between readings of a watch.
    fn longest_pause_ns(&self, watch: &WatchState) -> u64 {
        let is_requesting = self.next_group_pid != u32::MAX;
        if self.is_read_each_second() || self.plan.named_watches != 0 || is_requesting {
            return LONGEST_NS;
        }
        let keep_alive = self.manager.as_ref().and_then(|manager| manager.keep_alive_interval);
        let keep_alive_ns = keep_alive.map_or(u64::MAX, |interval| interval.as_nanos() as u64);
        let rest_ns = ns_to_level(&watch.reading, &watch.limits, self.cpus);
        rest_ns.min(LONGEST_REST_NS).min(keep_alive_ns / 2).max(LONGEST_NS)
    }

    /// Waits until the pause has passed, tasks stall for memory or a killed process has exited. Returns true
    /// if only a message of the slow path has arrived.
    pub(super) fn wait(&mut self, pause_ns: u64) -> bool {
        const PLACES: usize = 2 * WATCHES + 1;
        let none = || PollFd::new(&self.wake_up, PollFlags::empty());
        let mut all: [PollFd; PLACES] = std::array::from_fn(|_| none());
        all[0] = PollFd::new(&self.wake_up, PollFlags::IN);
        for (at, watch) in self.plan.watches.iter().enumerate().take(WATCHES) {
            if let Some(pressure_trigger) = &watch.pressure_trigger {
                all[1 + at] = PollFd::from_borrowed_fd(pressure_trigger.as_fd(), PollFlags::PRI);
            }
            if let Some(held) = watch.target.as_ref().and_then(|target| target.held.as_ref()) {
                all[1 + WATCHES + at] = PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN);
            }
        }
        let time = Timespec { tv_sec: (pause_ns / SECOND) as i64, tv_nsec: (pause_ns % SECOND) as i64 };
        let count = poll(&mut all, Some(&time)).unwrap_or(0);
        let only_facts = count == 1 && !all[0].revents().is_empty();
        // The pressure notification of a removed group would fire for ever.
        let is_broken =
            |fd: &PollFd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        let broken: [bool; WATCHES] = std::array::from_fn(|at| is_broken(&all[1 + at]));
        for (watch, _) in self.plan.watches.iter_mut().zip(broken).filter(|(_, broken)| *broken) {
            watch.pressure_trigger = None;
        }
        only_facts
    }
}
