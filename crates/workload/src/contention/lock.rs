//! Locks: each worker acquires the lock, adds one to the data that it protects, and releases it.

use super::{Member, SharedObject, Team, threads};
use crate::Load;
use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

/// Acquisitions per tick: few, because each may wait for all other workers.
const PER_TICK: u64 = 16;

/// Polls before a waiting worker yields its CPU to other workers, one of which may hold the lock.
const SPINS: u32 = 1_000;

/// Waits while `busy`. Yields the CPU from time to time, so that a worker that was preempted while it held
/// the lock can run again.
fn wait_while(busy: impl Fn() -> bool) {
    let mut turns = 0;
    while busy() {
        turns += 1;
        if turns < SPINS {
            spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// The data that a lock protects. It is read and written separately, like any other data: a lock that two
/// workers hold at once would lose counts, which [`SharedObject::object_count`] reveals.
#[derive(Default)]
#[repr(align(128))]
struct Guarded(AtomicU64);

impl Guarded {
    fn add(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }
}

/// A value that shares its cache lines with no other.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// The node of a worker in the queue of an MCS lock.
#[derive(Default)]
#[repr(align(128))]
struct QueueNode {
    /// The next worker in the queue, plus one; 0 for none.
    next: AtomicUsize,
    waits: AtomicBool,
}

/// One lock of each kind.
#[derive(Default)]
struct AllLocks {
    mutex: CachePadded<Mutex<u64>>,
    spin: CachePadded<AtomicBool>,
    spun: Guarded,
    next_ticket: CachePadded<AtomicU64>,
    serving: CachePadded<AtomicU64>,
    ticketed: Guarded,
    /// The last worker in the queue, plus one; 0 if the lock is free.
    tail: CachePadded<AtomicUsize>,
    nodes: Vec<QueueNode>,
    queued: Guarded,
}

impl AllLocks {
    /// Uses the standard library's mutex, which sleeps on a futex.
    fn mutex(&self) {
        *self.mutex.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Test-and-test-and-set lock.
    fn spin(&self) {
        while self.spin.0.swap(true, Acquire) {
            wait_while(|| self.spin.0.load(Relaxed));
        }
        self.spun.add();
        self.spin.0.store(false, Release);
    }

    /// Ticket lock: first come, first served; all waiting workers poll the same word.
    fn ticket(&self) {
        let mine = self.next_ticket.0.fetch_add(1, Relaxed);
        wait_while(|| self.serving.0.load(Acquire) != mine);
        self.ticketed.add();
        self.serving.0.store(mine + 1, Release);
    }

    /// Queue lock: first come, first served; each waiting worker polls its own word (Mellor-Crummey and Scott
    /// 1991).
    fn queue(&self, worker: usize) {
        let node = &self.nodes[worker];
        node.next.store(0, Relaxed);
        node.waits.store(true, Relaxed);
        let before = self.tail.0.swap(worker + 1, AcqRel);
        if before != 0 {
            self.nodes[before - 1].next.store(worker + 1, Release);
            wait_while(|| node.waits.load(Acquire));
        }
        self.queued.add();
        if self.tail.0.compare_exchange(worker + 1, 0, Release, Relaxed).is_err() {
            // Another worker is queued behind this one, and may not have set `next` yet.
            wait_while(|| node.next.load(Acquire) == 0);
            self.nodes[node.next.load(Relaxed) - 1].waits.store(false, Release);
        }
    }
}

/// Locks for a number of workers.
pub struct Locks {
    all: Arc<AllLocks>,
    workers: usize,
}

impl Locks {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["mutex", "spin", "ticket", "mcs"];

    /// Creates locks for `workers` workers.
    pub fn new(workers: usize) -> Self {
        let nodes = (0..workers).map(|_| QueueNode::default()).collect();
        Self { all: Arc::new(AllLocks { nodes, ..AllLocks::default() }), workers }
    }
}

impl SharedObject for Locks {
    fn members(&self) -> Vec<Member> {
        threads(self.workers, |worker| LockUser { all: Arc::clone(&self.all), worker, variant: 0 })
    }

    fn team(&self, variant: usize, workers: usize) -> Team {
        Team { workers: (0..workers).collect(), servers: Vec::new(), parameter: variant as u64 }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn object_count(&self) -> Option<u64> {
        let AllLocks { mutex, spun, ticketed, queued, .. } = &*self.all;
        let guarded = [spun, ticketed, queued].map(|guarded| guarded.0.load(Relaxed));
        let mutex = *mutex.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(mutex + guarded.iter().sum::<u64>())
    }
}

struct LockUser {
    all: Arc<AllLocks>,
    worker: usize,
    variant: u64,
}

impl Load for LockUser {
    fn prepare(&mut self, variant: u64) {
        self.variant = variant;
    }

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        for _ in 0..PER_TICK {
            match self.variant {
                0 => self.all.mutex(),
                1 => self.all.spin(),
                2 => self.all.ticket(),
                _ => self.all.queue(self.worker),
            }
        }
    }
}
