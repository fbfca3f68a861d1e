//! Four threads that look up keys of their own, each in its own shard of a `DashMap`. A lookup takes the shard's lock,
//! which is a write. Shards of dashmap 5 are adjacent; since version 6, each is padded to lines of its own.

use std::{
    env,
    hash::BuildHasherDefault,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

const THREADS: usize = 4;
const ROUNDS: u64 = 30_000;

/// A hasher without random keys, so that every run has the same shards.
type Fixed = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// The thread whose turn it is, so that all alternate even on a busy machine.
static BATON: Baton = Baton(AtomicUsize::new(0));

#[repr(align(128))]
struct Baton(AtomicUsize);

fn turn(me: usize) {
    while BATON.0.load(Relaxed) != me {
        thread::yield_now();
    }
    BATON.0.store((me + 1) % THREADS, Relaxed);
}

macro_rules! look_up {
    ($dashmap:ident) => {{
        let map = $dashmap::DashMap::with_hasher_and_shard_amount(Fixed::default(), THREADS);
        let keys: Vec<u64> =
            (0..THREADS).map(|shard| (0..).find(|key| map.determine_map(key) == shard).unwrap()).collect();
        for key in &keys {
            map.insert(*key, 1_u64);
        }
        thread::scope(|scope| {
            for (me, key) in keys.iter().enumerate() {
                let map = &map;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        black_box(*map.get(key).unwrap());
                        if round % 200 == 0 {
                            turn(me);
                        }
                    }
                });
            }
        });
    }};
}

fn main() {
    match env::args().nth(1).as_deref() {
        Some("5") => look_up!(dashmap5),
        _ => look_up!(dashmap6),
    }
}
