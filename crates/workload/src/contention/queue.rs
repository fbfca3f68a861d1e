//! Queues: all workers but one put in numbers, and one takes them out.

use super::{Member, Role, SharedObject, Team, ring::BoundedRing};
use crate::Load;
use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

/// Numbers put in per tick.
const PER_TICK: u64 = 32;

/// Capacity of a queue.
const LENGTH: u64 = 1024;

/// Polls of an empty ring before its consumer yields, or of a full one before a producer does.
const SPINS: u32 = 1_000;

/// How long the ring's consumer sleeps between polls. It is never woken, so that producers need not check
/// whether it sleeps.
const IDLE_SLEEP: Duration = Duration::from_millis(1);

struct AllQueues {
    ring: BoundedRing,
    closed: AtomicBool,
    taken: AtomicU64,
}

/// A channel and a ring for a number of workers.
pub struct Queues {
    all: Arc<AllQueues>,
    channel: Mutex<Option<(SyncSender<u64>, Receiver<u64>)>>,
    producers: usize,
}

impl Queues {
    /// Names of the variants: the standard library's bounded channel, and a bounded ring without locks.
    pub const VARIANTS: &[&str] = &["channel", "ring"];

    /// Creates queues for `workers` workers, at least two: the consumer is one of them.
    pub fn new(workers: usize) -> Self {
        let all = AllQueues {
            ring: BoundedRing::new(LENGTH),
            closed: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        };
        Self {
            all: Arc::new(all),
            channel: Mutex::new(Some(sync_channel(LENGTH as usize))),
            producers: workers.max(2) - 1,
        }
    }
}

impl SharedObject for Queues {
    fn members(&self) -> Vec<Member> {
        let Some((sender, receiver)) = self.channel.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return Vec::new();
        };
        let mut members = super::threads(self.producers, |_| Producer {
            all: Arc::clone(&self.all),
            sender: sender.clone(),
            variant: 0,
        });
        let (of_channel, of_ring) = (Arc::clone(&self.all), Arc::clone(&self.all));
        let takes = move || of_channel.take_from_channel(&receiver);
        members.push(Member::Thread(Box::new(|| Role::Server(Box::new(takes)))));
        let takes = move || of_ring.take_from_ring();
        members.push(Member::Thread(Box::new(|| Role::Server(Box::new(takes)))));
        members
    }

    fn team(&self, variant: usize, workers: usize) -> Team {
        Team {
            workers: (0..workers - 1).collect(),
            servers: vec![self.producers + variant],
            parameter: variant as u64,
        }
    }

    fn per_tick(&self) -> u64 {
        PER_TICK
    }

    fn object_count(&self) -> Option<u64> {
        Some(self.all.taken.load(Acquire))
    }

    fn close(&self) {
        self.all.closed.store(true, Release);
    }
}

impl AllQueues {
    fn count(&self) {
        // The two consumers never work at the same time, except at the end of a treatment.
        self.taken.fetch_add(1, Release);
    }

    /// Takes numbers until the last producer has ended.
    fn take_from_channel(&self, receiver: &Receiver<u64>) {
        while receiver.recv().is_ok() {
            self.count();
        }
    }

    /// Takes numbers until the ring is closed.
    fn take_from_ring(&self) {
        let mut looks = 0;
        while !self.closed.load(Relaxed) {
            if self.ring.pop().is_some() {
                self.count();
                looks = 0;
            } else if looks < SPINS {
                looks += 1;
                spin_loop();
            } else if looks < 2 * SPINS {
                looks += 1;
                std::thread::yield_now();
            } else {
                std::thread::sleep(IDLE_SLEEP);
            }
        }
    }
}

struct Producer {
    all: Arc<AllQueues>,
    sender: SyncSender<u64>,
    variant: u64,
}

impl Producer {
    fn push(&self, value: u64) {
        let mut looks = 0;
        while !self.all.ring.push(value) && !self.all.closed.load(Relaxed) {
            looks += 1;
            if looks < SPINS {
                spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Load for Producer {
    fn prepare(&mut self, variant: u64) {
        self.variant = variant;
    }

    fn ticks_per_event(&self) -> u64 {
        u64::MAX
    }

    fn tick(&mut self) {
        for value in 0..PER_TICK {
            if self.variant == 0 {
                // The consumer outlives all producers.
                let _ = self.sender.send(value);
            } else {
                self.push(value);
            }
        }
    }
}
