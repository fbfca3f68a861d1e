//! The body of a worker, in a thread of this process or in a process of its own.
//!
//! A [`WorkerPool`](crate::worker_pool::WorkerPool) starts its worker processes from the running program, as
//! `PROGRAM worker LOAD SLOT [OBJECT]`, with the worker control block as standard input. A program that uses worker
//! processes answers these arguments with [`run`].

use crate::control_block::{NO_EXPECTED_CPU, QUIT, WorkerControlBlock, WorkerSlot};
use manycore_linux::{affinity::current_cpu, clock::now_ns};
use manycore_workload::{Load, contention::Role};
use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Runs a worker process: follows the orders on the slot with this index in the control block `memory`, until the
/// order to quit, or serves until the shared object is closed.
///
/// # Errors
/// `InvalidData` if `memory` is not a control block with that slot; else those of `mmap(2)`.
pub fn run(memory: OwnedFd, slot: usize, role: Role) -> io::Result<()> {
    let block = WorkerControlBlock::open(memory)?;
    let slot = block.slots().get(slot).ok_or(io::ErrorKind::InvalidData)?;
    run_role(slot, role);
    Ok(())
}

/// Takes part in an object: follows the orders on `slot` until the order to quit, or serves until the object
/// is closed.
pub(crate) fn run_role(slot: &WorkerSlot, part: Role) {
    slot.announce();
    match part {
        Role::Worker(load) => work(slot, load),
        // A server gets no orders, so its slot stays idle.
        Role::Server(serve) => serve(),
    }
}

fn work(slot: &WorkerSlot, load: Box<dyn Load>) {
    let mut worker = Worker { slot, load, parameter: None, ticks: 0, event: CurrentEvent::default() };
    let mut command = slot.finish_and_wait(0, now_ns());
    while command != QUIT {
        command = match worker.run_order(command) {
            Some(newer) => newer,
            None => slot.finish_and_wait(command, now_ns()),
        };
    }
}

/// Adds to a number that only this worker writes. An atomic addition would make a round through a pipe 1 %
/// slower.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed) + more, Relaxed);
}

struct Worker<'a> {
    slot: &'a WorkerSlot,
    load: Box<dyn Load>,
    parameter: Option<u64>,
    ticks: u64,
    event: CurrentEvent,
}

/// The current event.
#[derive(Default)]
struct CurrentEvent {
    ticks: u64,
    /// When it began. `None` if a pause interrupted it, so that its duration is not valid.
    began_ns: Option<u64>,
}

impl Worker<'_> {
    /// Works until the target is reached, or until another order is given, which it returns.
    fn run_order(&mut self, command: u32) -> Option<u32> {
        let slot = self.slot;
        let parameter = slot.parameter.load(Relaxed);
        if self.parameter != Some(parameter) {
            self.load.prepare(parameter);
            (self.parameter, self.event) = (Some(parameter), CurrentEvent::default());
            if let Some(error) = self.load.error() {
                slot.error.store(error, Release);
                return Some(QUIT);
            }
        }
        let target = slot.target_ticks.load(Relaxed);
        let watched = Some(slot.expected_cpu.load(Relaxed)).filter(|&cpu| cpu != NO_EXPECTED_CPU);
        let per_event = self.load.ticks_per_event();
        self.event.began_ns = (self.event.ticks == 0).then(now_ns);
        while self.ticks < target {
            let latest = slot.command.load(Acquire);
            if latest != command {
                return Some(latest);
            }
            self.load.tick();
            if let Some(error) = self.load.error() {
                slot.error.store(error, Release);
                return Some(QUIT);
            }
            self.ticks += 1;
            slot.ticks.store(self.ticks, Release);
            if let Some(cpu) = watched {
                add(&slot.cpu_checks, 1);
                add(&slot.off_cpu_checks, u64::from(current_cpu() != cpu));
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
        self.event = CurrentEvent { ticks: 0, began_ns: Some(now) };
    }
}
