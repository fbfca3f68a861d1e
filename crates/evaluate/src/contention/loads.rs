//! The loads of `bench`.

use crate::{
    Section,
    contention::{Suite, bench},
    error::Result,
};
use manycore_workload::contention::{
    Counters, Locks, Messages, Pipes, Queues, Semaphores, SharedObject, SysvSemaphore,
};
use std::{io, sync::Arc};

/// A load whose workers share an object.
pub(super) struct ContendedLoad {
    pub(super) section: Section,
    /// The unit of the work.
    pub(super) unit: &'static str,
    pub(super) variants: &'static [&'static str],
    /// Whether each worker has a process that serves it, so that a worker is a pair of processes.
    pub(super) pairs: bool,
    /// Whether workers sleep while they wait, so that two of them can be measured on one CPU.
    pub(super) blocks: bool,
    pub(super) open: fn(usize) -> io::Result<Arc<dyn SharedObject>>,
}

impl ContendedLoad {
    /// Returns the smallest number of workers: a queue has two ends.
    pub(super) fn min_workers(&self) -> usize {
        if self.section.name == "queue" { 2 } else { 1 }
    }

    /// Returns the number of workers that makes two tasks.
    pub(super) fn workers_for_two_tasks(&self) -> usize {
        if self.pairs { 1 } else { 2 }
    }

    /// Returns the noun for workers.
    pub(super) fn worker_noun(&self) -> &'static str {
        if self.pairs { "pairs" } else { "workers" }
    }
}

/// Returns a section of `bench` only.
const fn bench_section(name: &'static str, title: &'static str, run: fn(&mut Suite) -> Result) -> Section {
    Section { name, title, seconds: |profile| profile.bench, run }
}

pub(super) const COUNTER: ContendedLoad = ContendedLoad {
    section: bench_section(
        "counter",
        "atomic counters: shared, packed in a line, padded, per CPU",
        |suite| bench(suite, &COUNTER),
    ),
    unit: "additions",
    variants: Counters::VARIANTS,
    pairs: false,
    blocks: false,
    open: |workers| Ok(Arc::new(Counters::new(workers))),
};

pub(super) const LOCK: ContendedLoad = ContendedLoad {
    section: bench_section(
        "lock",
        "locks: standard mutex, spin lock, ticket lock, queue-based lock (MCS)",
        |suite| bench(suite, &LOCK),
    ),
    unit: "acquisitions",
    variants: Locks::VARIANTS,
    pairs: false,
    blocks: false,
    open: |workers| Ok(Arc::new(Locks::new(workers))),
};

const QUEUE: ContendedLoad = ContendedLoad {
    section: bench_section("queue", "queues with many producers and one consumer: channel, ring", |suite| {
        bench(suite, &QUEUE)
    }),
    unit: "messages",
    variants: Queues::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(Queues::new(workers))),
};

const SEM: ContendedLoad = ContendedLoad {
    section: bench_section("sem", "POSIX semaphore: wait and post, by threads and by processes", |suite| {
        bench(suite, &SEM)
    }),
    unit: "waits and posts",
    variants: Semaphores::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(Semaphores::new(workers)?)),
};

const SEM_SYSV: ContendedLoad = ContendedLoad {
    section: bench_section("sem-sysv", "System V semaphore: wait and signal, by processes", |suite| {
        bench(suite, &SEM_SYSV)
    }),
    unit: "waits and signals",
    variants: SysvSemaphore::VARIANTS,
    pairs: false,
    blocks: true,
    open: |workers| Ok(Arc::new(SysvSemaphore::new(workers)?)),
};

const MSG: ContendedLoad = ContendedLoad {
    section: bench_section("msg", "System V messages of 4 bytes from one process to another", |suite| {
        bench(suite, &MSG)
    }),
    unit: "messages",
    variants: Messages::VARIANTS,
    pairs: true,
    blocks: true,
    open: |workers| Ok(Arc::new(Messages::new(workers)?)),
};

pub(super) const PIPE: ContendedLoad = ContendedLoad {
    section: bench_section(
        "pipe",
        "8 bytes through pipes to another process and back (UnixBench context1)",
        |suite| bench(suite, &PIPE),
    ),
    unit: "round trips",
    variants: Pipes::VARIANTS,
    pairs: true,
    blocks: true,
    open: |workers| Ok(Arc::new(Pipes::new(workers)?)),
};

/// The loads of `bench`, in addition to the sections of `eval`.
pub const LOADS: [Section; 7] =
    [COUNTER.section, LOCK.section, QUEUE.section, SEM.section, SEM_SYSV.section, MSG.section, PIPE.section];
