//! Head and tail of a queue side by side, and apart.

use std::{
    env,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

const ROUNDS: u64 = 200_000;

/// Whose turn it is, so that both run however busy the machine is.
static BATON: Baton = Baton(AtomicU64::new(0));

#[repr(align(64))]
struct Baton(AtomicU64);

#[repr(align(64))]
struct Packed {
    head: AtomicU64,
    tail: AtomicU64,
}

#[repr(align(64))]
struct Line(AtomicU64);

struct Apart {
    head: Line,
    tail: Line,
}

trait Ends: Send + Sync + 'static {
    fn push(&self);
    fn pop(&self);
}

impl Ends for Packed {
    fn push(&self) {
        self.tail.fetch_add(1, Relaxed); // A
    }

    fn pop(&self) {
        self.head.fetch_add(1, Relaxed); // B
    }
}

impl Ends for Apart {
    fn push(&self) {
        self.tail.0.fetch_sub(1, Relaxed);
    }

    fn pop(&self) {
        self.head.0.fetch_sub(1, Relaxed);
    }
}

fn work<T: Ends>(ends: Arc<T>) {
    let start = Arc::new(Barrier::new(2));
    let run = |name: &str, me: u64, step: fn(&T)| {
        let (ends, start) = (Arc::clone(&ends), Arc::clone(&start));
        let body = move || {
            start.wait();
            for round in 0..ROUNDS {
                step(&ends);
                if round % 1000 == 0 {
                    while BATON.0.load(Relaxed) != me {
                        thread::yield_now();
                    }
                    BATON.0.store(1 - me, Relaxed);
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).unwrap()
    };
    let threads = [run("producer", 0, T::push), run("consumer", 1, T::pop)];
    for thread in threads {
        thread.join().unwrap();
    }
}

fn main() {
    let new = || AtomicU64::new(0);
    match env::args().nth(1).as_deref() {
        Some("false") => work(Arc::new(Packed { head: new(), tail: new() })), // C
        _ => work(Arc::new(Apart { head: Line(new()), tail: Line(new()) })),
    }
}
