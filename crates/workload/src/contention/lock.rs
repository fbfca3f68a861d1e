//! Locks: each worker takes the lock, adds one to what it guards, and gives it back.

use super::{Member, Shared, Team, threads};
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

/// Acquisitions in a tick: few, because each may wait for all others.
const PER_TICK: u64 = 16;

/// Turns that a worker waits before it lets others have its CPU, one of whom may hold the lock.
const PATIENCE: u32 = 1_000;

/// Waits while `busy`; gives the CPU away from time to time, so that a worker that was interrupted with the lock
/// in its hands can go on.
fn wait_while(busy: impl Fn() -> bool) {
    let mut turns = 0;
    while busy() {
        turns += 1;
        if turns < PATIENCE {
            spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// What a lock guards. It is read and written apart, as any data would be: a lock that let two in at once would
/// lose counts, and [`Shared::counted`] would tell.
#[derive(Default)]
#[repr(align(128))]
struct Guarded(AtomicU64);

impl Guarded {
    fn add(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }
}

/// Alone on its line.
#[derive(Default)]
#[repr(align(128))]
struct Alone<T>(T);

/// A worker's place in the queue of a queue lock.
#[derive(Default)]
#[repr(align(128))]
struct Place {
    /// The worker behind, plus one; 0 for none.
    next: AtomicUsize,
    waits: AtomicBool,
}

/// One lock of each kind.
#[derive(Default)]
struct All {
    mutex: Alone<Mutex<u64>>,
    spin: Alone<AtomicBool>,
    spun: Guarded,
    next_ticket: Alone<AtomicU64>,
    serving: Alone<AtomicU64>,
    ticketed: Guarded,
    /// The last in the queue, plus one; 0 where the lock is free.
    tail: Alone<AtomicUsize>,
    places: Vec<Place>,
    queued: Guarded,
}

impl All {
    /// The standard library's mutex, which sleeps on a futex.
    fn mutex(&self) {
        *self.mutex.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Test, and only then test and set.
    fn spin(&self) {
        while self.spin.0.swap(true, Acquire) {
            wait_while(|| self.spin.0.load(Relaxed));
        }
        self.spun.add();
        self.spin.0.store(false, Release);
    }

    /// First come, first served; all look at one word.
    fn ticket(&self) {
        let mine = self.next_ticket.0.fetch_add(1, Relaxed);
        wait_while(|| self.serving.0.load(Acquire) != mine);
        self.ticketed.add();
        self.serving.0.store(mine + 1, Release);
    }

    /// First come, first served; each looks at a word of its own (Mellor-Crummey and Scott 1991).
    fn queue(&self, worker: usize) {
        let place = &self.places[worker];
        place.next.store(0, Relaxed);
        place.waits.store(true, Relaxed);
        let before = self.tail.0.swap(worker + 1, AcqRel);
        if before != 0 {
            self.places[before - 1].next.store(worker + 1, Release);
            wait_while(|| place.waits.load(Acquire));
        }
        self.queued.add();
        if self.tail.0.compare_exchange(worker + 1, 0, Release, Relaxed).is_err() {
            // Somebody is behind us, and perhaps about to say so.
            wait_while(|| place.next.load(Acquire) == 0);
            self.places[place.next.load(Relaxed) - 1].waits.store(false, Release);
        }
    }
}

/// Locks for some workers.
pub struct Locks {
    all: Arc<All>,
    workers: usize,
}

impl Locks {
    /// Names of the variants.
    pub const VARIANTS: &[&str] = &["mutex", "spin", "ticket", "mcs"];

    /// Locks of `workers` workers.
    pub fn new(workers: usize) -> Self {
        let places = (0..workers).map(|_| Place::default()).collect();
        Self { all: Arc::new(All { places, ..All::default() }), workers }
    }
}

impl Shared for Locks {
    fn members(&self) -> Vec<Member> {
        threads(self.workers, |worker| Acquires { all: Arc::clone(&self.all), worker, variant: 0 })
    }

    fn team(&self, variant: usize, workers: usize) -> Team {
        Team { workers: (0..workers).collect(), servers: Vec::new(), parameter: variant as u64 }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn counted(&self) -> Option<u64> {
        let All { mutex, spun, ticketed, queued, .. } = &*self.all;
        let guarded = [spun, ticketed, queued].map(|guarded| guarded.0.load(Relaxed));
        let mutex = *mutex.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(mutex + guarded.iter().sum::<u64>())
    }
}

struct Acquires {
    all: Arc<All>,
    worker: usize,
    variant: u64,
}

impl Load for Acquires {
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
