//! The loads by name.

use crate::Section;
use crate::contention::{Stage, bench};
use crate::error::Result;
use manycore_workload::contention::{
    Counters, Locks, Messages, Pipes, Queues, Semaphores, Shared, SysvSemaphore,
};
use std::{io, sync::Arc};

/// A load whose workers share something.
pub(super) struct Contended {
    pub(super) section: Section,
    /// What is counted.
    pub(super) unit: &'static str,
    pub(super) variants: &'static [&'static str],
    /// Whether each worker has a process that serves it, so that one of them is a pair.
    pub(super) pairs: bool,
    /// Whether workers sleep when they wait, so that two of them on one CPU make sense.
    pub(super) blocks: bool,
    pub(super) open: fn(usize) -> io::Result<Arc<dyn Shared>>,
}

impl Contended {
    /// Fewest workers: a queue has two ends.
    pub(super) fn least(&self) -> usize {
        if self.section.name == "queue" { 2 } else { 1 }
    }

    /// Workers whose tasks are two.
    pub(super) fn of_two(&self) -> usize {
        if self.pairs { 1 } else { 2 }
    }

    /// What a worker is called.
    pub(super) fn counted(&self) -> &'static str {
        if self.pairs { "pairs" } else { "workers" }
    }
}

/// A section of `bench` alone.
const fn named(name: &'static str, title: &'static str, run: fn(&mut Stage) -> Result) -> Section {
    Section { name, title, seconds: |profile| profile.bench, run }
}

pub(super) const COUNTER: Contended = Contended {
    section: named("counter", "atomic counters: one for all, neighbours in a line, on own lines", |stage| {
        bench(stage, &COUNTER)
    }),
    unit: "additions",
    variants: Counters::VARIANTS,
    pairs: false,
    blocks: false,
    open: |workers| Ok(Arc::new(Counters::new(workers))),
};

pub(super) const LOCK: Contended = Contended {
    section: named(
        "lock",
        "locks: the standard mutex, spinning, with tickets, with a queue (MCS)",
        |stage| bench(stage, &LOCK),
    ),
    unit: "acquisitions",
    variants: Locks::VARIANTS,
    pairs: false,
    blocks: false,
    open: |workers| Ok(Arc::new(Locks::new(workers))),
};

const QUEUE: Contended = Contended {
    section: named("queue", "queues of many producers and one consumer: a channel, a ring", |stage| {
        bench(stage, &QUEUE)
    }),
    unit: "messages",
    variants: Queues::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(Queues::new(workers))),
};

const SEM: Contended = Contended {
    section: named("sem", "a POSIX semaphore: wait and post, by threads and by processes", |stage| {
        bench(stage, &SEM)
    }),
    unit: "waits and posts",
    variants: Semaphores::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(Semaphores::new(workers)?)),
};

const SEM_SYSV: Contended = Contended {
    section: named("sem-sysv", "a System V semaphore: wait and signal, by processes", |stage| {
        bench(stage, &SEM_SYSV)
    }),
    unit: "waits and signals",
    variants: SysvSemaphore::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(SysvSemaphore::new(workers)?)),
};

const MSG: Contended = Contended {
    section: named("msg", "System V messages of 4 bytes from one process to another", |stage| {
        bench(stage, &MSG)
    }),
    unit: "messages",
    variants: Messages::VARIANTS,
    pairs: true,
    blocks: true,
    open: |workers| Ok(Arc::new(Messages::new(workers)?)),
};

pub(super) const PIPE: Contended = Contended {
    section: named(
        "pipe",
        "8 bytes through pipes to another process and back (UnixBench context1)",
        |stage| bench(stage, &PIPE),
    ),
    unit: "round trips",
    variants: Pipes::VARIANTS,
    pairs: true,
    blocks: true,
    open: |workers| Ok(Arc::new(Pipes::new(workers)?)),
};

/// What `bench` measures beside the sections of `eval`.
pub const LOADS: [Section; 7] =
    [COUNTER.section, LOCK.section, QUEUE.section, SEM.section, SEM_SYSV.section, MSG.section, PIPE.section];
