//! Two threads with counters of their own; the first argument selects where these are. Lines that a finding must name
//! have markers.

use std::{
    cell::Cell,
    env,
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

const ROUNDS: u64 = 100_000;

/// The thread whose turn it is, so that both alternate even on a busy machine.
static BATON: Line<AtomicU64> = Line(AtomicU64::new(0));

static TOGETHER: Line<AtomicU64> = Line(AtomicU64::new(0));

static TABLE: Line<[u64; 8]> = Line([1, 2, 3, 4, 5, 6, 7, 8]);

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

#[repr(align(64))]
struct Line<T>(T);

#[repr(align(64))]
struct Packed {
    head: AtomicU64,
    tail: AtomicU64,
}

// Not inlined, because the compiler could merge the code of both and keep one source line.
impl Packed {
    fn new() -> Self {
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0) }
    }

    #[inline(never)]
    fn push(&self) {
        self.tail.fetch_add(1, Relaxed); // A
    }

    #[inline(never)]
    fn pop(&self) {
        self.head.fetch_add(1, Relaxed); // B
    }
}

/// Runs the steps of each thread; a step gets the number of the thread and the round.
fn both(step: impl Fn(u64, u64) + Sync) {
    let (start, step) = (Barrier::new(2), &step);
    thread::scope(|scope| {
        for me in 0..2 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    step(me, round);
                    if round % 1000 == 0 {
                        while BATON.0.load(Relaxed) != me {
                            thread::yield_now();
                        }
                        BATON.0.store(1 - me, Relaxed);
                    }
                }
            });
        }
    });
}

fn ends(queue: &Packed) {
    both(|me, _| if me == 0 { queue.push() } else { queue.pop() });
}

#[inline(never)]
fn neighbour() -> Box<AtomicU64> {
    Box::new(AtomicU64::new(0)) // D
}

fn neighbours() {
    let blocks = [neighbour(), neighbour(), neighbour()];
    // Two of three are on one line, wherever that starts.
    let line = |at: usize| std::ptr::from_ref(&*blocks[at]).addr() / 64;
    let first = usize::from(line(0) != line(1));
    both(|me, _| {
        blocks[first + me as usize].fetch_add(1, Relaxed); // F
    });
}

fn own(more: u64) {
    OWN.with(|own| black_box(own).set(own.get() + more));
}

fn main() {
    let name = env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "false" => ends(&Box::new(Packed::new())), // C
        "apart" => {
            let counters = Box::new([Line(AtomicU64::new(0)), Line(AtomicU64::new(0))]);
            both(|me, _| {
                counters[me as usize].0.fetch_add(1, Relaxed);
            });
        }
        "true" => both(|_, _| {
            TOGETHER.0.fetch_add(1, Relaxed); // E
        }),
        "readonly" => both(|_, round| own(black_box(&TABLE).0[round as usize % 8])),
        "local" => both(|_, _| own(1)),
        "neighbours" => neighbours(),
        "stack" => ends(&Packed::new()),
        _ => std::process::exit(2),
    }
    println!("done");
}
