//! The body of a worker, in a thread of this process or in a process of its own.

use crate::board::{NOT_WATCHED, QUIT, Slot};
use manycore_linux::{affinity::current_cpu, clock::now_ns};
use manycore_workload::{Load, contention::Part};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Takes part in an object: follows the orders on `slot` until the order to quit, or serves until the object
/// is closed.
pub fn take_part(slot: &Slot, part: Part) {
    slot.enter();
    match part {
        Part::Works(load) => work(slot, load),
        // A server gets no orders, so its slot stays idle.
        Part::Serves(serve) => serve(),
    }
}

fn work(slot: &Slot, load: Box<dyn Load>) {
    let mut worker = Worker { slot, load, parameter: None, ticks: 0, event: Event::default() };
    let mut command = slot.rest(0, now_ns());
    while command != QUIT {
        command = match worker.follow(command) {
            Some(newer) => newer,
            None => slot.rest(command, now_ns()),
        };
    }
}

/// Adds to a number that only this worker writes. An atomic addition would make a round through a pipe 1 %
/// slower.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed) + more, Relaxed);
}

struct Worker<'a> {
    slot: &'a Slot,
    load: Box<dyn Load>,
    parameter: Option<u64>,
    ticks: u64,
    event: Event,
}

/// The current event.
#[derive(Default)]
struct Event {
    ticks: u64,
    /// When it began. `None` if a pause interrupted it, so that its duration is not valid.
    began_ns: Option<u64>,
}

impl Worker<'_> {
    /// Works until the target is reached, or until another order is given, which it returns.
    fn follow(&mut self, command: u32) -> Option<u32> {
        let slot = self.slot;
        let parameter = slot.parameter.load(Relaxed);
        if self.parameter != Some(parameter) {
            self.load.prepare(parameter);
            (self.parameter, self.event) = (Some(parameter), Event::default());
            if let Some(error) = self.load.broken() {
                slot.error.store(error, Release);
                return Some(QUIT);
            }
        }
        let goal = slot.goal.load(Relaxed);
        let watched = Some(slot.watch_cpu.load(Relaxed)).filter(|&cpu| cpu != NOT_WATCHED);
        let per_event = self.load.ticks_per_event();
        self.event.began_ns = (self.event.ticks == 0).then(now_ns);
        while self.ticks < goal {
            let latest = slot.command.load(Acquire);
            if latest != command {
                return Some(latest);
            }
            self.load.tick();
            if let Some(error) = self.load.broken() {
                slot.error.store(error, Release);
                return Some(QUIT);
            }
            self.ticks += 1;
            slot.ticks.store(self.ticks, Release);
            if let Some(cpu) = watched {
                add(&slot.checks, 1);
                add(&slot.elsewhere, u64::from(current_cpu() != cpu));
            }
            self.event.ticks += 1;
            if self.event.ticks == per_event {
                self.end_event();
            }
        }
        None
    }

    fn end_event(&mut self) {
        let now = now_ns();
        if let Some(began) = self.event.began_ns.filter(|_| self.slot.measuring.load(Relaxed) == 1) {
            self.slot.count_event(now - began);
        }
        self.event = Event { ticks: 0, began_ns: Some(now) };
    }
}
