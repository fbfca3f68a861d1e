//! What an add costs, beside plain adds, a shared atomic, and the counters of others: one run, interleaved rounds.
//!
//! Built by `../peers`, which has the other crates (`make bench`, or `cargo bench --manifest-path
//! percpu/peers/Cargo.toml`). Of each contender and round, one short burst is timed, in an order that rotates from
//! round to round; shown are medians over rounds with quartiles, and the medians of ratios of bursts of one round.
//! `--rounds N` sets how many (default 201, the fewest for a first impression 21).
//!
//! Not here: `metered` (its counters are one shared atomic, which is here), `counters` (no threads), `percpu` and
//! `cpu-local` (kernels only), `rseq` (an empty name), `wbase` (padded atomics by an index of the caller's, as the
//! hand-made array is).

use manycore_percpu::PerCpuCounter;
use std::{
    cell::Cell,
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

/// Someone who adds 1 as often as he is told to.
struct Contender {
    name: &'static str,
    adds: Box<dyn Fn(u64) + Sync>,
}

fn contender(name: &'static str, adds: impl Fn(u64) + Sync + 'static) -> Contender {
    Contender { name, adds: Box::new(adds) }
}

/// One that is called for each add; the call is inlined.
fn each(name: &'static str, add: impl Fn() + Sync + 'static) -> Contender {
    contender(name, move |n| (0..n).for_each(|_| add()))
}

thread_local! {
    static OWN: Cell<*mut u64> = const { Cell::new(std::ptr::null_mut()) };
    static SLOT: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed)
    };
}

/// This thread's pointer to its count, made once.
fn own() -> *mut u64 {
    if OWN.get().is_null() {
        OWN.set(Box::leak(Box::new(0)));
    }
    OWN.get()
}

/// A plain load, add and store through a thread-local pointer, which each add reads anew.
fn plain() -> Contender {
    contender("plain add through a thread-local pointer", |n| {
        own();
        for _ in 0..n {
            // SAFETY: the pointer of this thread, to a count that lives for ever.
            unsafe {
                let count = OWN.with(|pointer| pointer.as_ptr().read_volatile());
                count.write_volatile(count.read_volatile() + 1);
            }
        }
    })
}

/// As above, as one instruction with the pointer in a register: x86-64 only.
#[cfg(target_arch = "x86_64")]
fn instruction() -> Contender {
    contender("plain `add [pointer], 1`", |n| {
        let count = own();
        for _ in 0..n {
            // SAFETY: as above.
            unsafe { std::arch::asm!("add qword ptr [{}], 1", in(reg) count, options(nostack)) };
        }
    })
}

/// Work that waits for itself: a few dependent multiplications, about 6 ns. The CPU does other things meanwhile.
#[inline(always)]
fn waiting(state: u64) -> u64 {
    (0..4).fold(state, |state, _| (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

/// Work that keeps the CPU from anything else: simple instructions in eight independent chains.
#[inline(always)]
fn filling(mut state: [u64; 8]) -> [u64; 8] {
    for one in &mut state {
        *one = one.rotate_left(13).wrapping_add(*one ^ (*one >> 7));
    }
    state
}

fn ours() -> Contender {
    let counter = PerCpuCounter::new();
    each("manycore-percpu add_local", move || counter.add_local(1))
}

fn atomic() -> Contender {
    let count: &'static AtomicU64 = Box::leak(Box::default());
    each("one shared AtomicU64", move || {
        count.fetch_add(1, Relaxed);
    })
}

/// The first is ours, the rest what it is held against.
fn contenders(shards: usize) -> Vec<Contender> {
    let atomics = PerCpuCounter::with_atomics();
    let [padded, by_cpu] = [0; 2].map(|_| {
        (0..shards.next_power_of_two())
            .map(|_| AtomicU64::new(0).into())
            .collect::<Vec<crossbeam_utils::CachePadded<AtomicU64>>>()
    });
    let fast = fast_counter::ConcurrentCounter::new(shards);
    let telemetry = fast_telemetry::Counter::new(shards);
    let contatori = contatori::counters::unsigned::Unsigned::new();
    let consistent = atomic_counter::ConsistentCounter::new(0);
    let relaxed = atomic_counter::RelaxedCounter::new(0);
    let pool = sharded_counter::CounterPool::with_shard_amount(shards + 1);
    vec![
        ours(),
        atomic(),
        each("manycore-percpu, sharded atomics", move || atomics.add_local(1)),
        each("CachePadded atomics, by thread", move || {
            padded[SLOT.with(|slot| *slot) & (padded.len() - 1)].fetch_add(1, Relaxed);
        }),
        each("CachePadded atomics, by sched_getcpu", move || {
            // SAFETY: takes nothing and returns a number.
            let cpu = unsafe { libc::sched_getcpu() } as usize;
            by_cpu[cpu & (by_cpu.len() - 1)].fetch_add(1, Relaxed);
        }),
        each("contatori 0.7", move || contatori.add(1)),
        each("fast-counter 1.0", move || fast.add(1)),
        each("fast-telemetry 0.10", move || telemetry.add(1)),
        each("atomic-counter 1.0, consistent", move || {
            atomic_counter::AtomicCounter::inc(&consistent);
        }),
        each("atomic-counter 1.0, relaxed", move || {
            atomic_counter::AtomicCounter::inc(&relaxed);
        }),
        each("countme 3.0 (an add and a subtraction)", || {
            drop(black_box(countme::Count::<Contender>::new()))
        }),
        contender("sharded-counter 0.1 (handle, no sum)", move |n| {
            let mut local = pool.counter();
            for _ in 0..n {
                black_box(local.next());
            }
        }),
    ]
}

/// Nanoseconds of one add of each contender in each round.
type Rounds = Vec<Vec<f64>>;

/// Bursts of `n` adds of everyone, on `threads` threads at once; the time is that of the slowest.
fn measure(contenders: &[Contender], threads: usize, n: u64, rounds: usize) -> Rounds {
    let mut times = vec![Vec::new(); contenders.len()];
    let (start, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    start.wait();
                    let Some(contender) = contenders.get(next.load(Relaxed)) else { return };
                    (contender.adds)(n);
                    end.wait();
                }
            });
        }
        for round in 0..=rounds {
            for turn in 0..contenders.len() {
                let index = (turn + round) % contenders.len();
                next.store(index, Relaxed);
                start.wait();
                let began = Instant::now();
                end.wait();
                // The first round warms up.
                if round > 0 {
                    times[index].push(began.elapsed().as_nanos() as f64 / n as f64);
                }
            }
        }
        next.store(usize::MAX, Relaxed);
        start.wait();
    });
    times
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// A line for each contender: its time, and how many times that of the first it is.
fn show(contenders: &[Contender], times: &Rounds) {
    println!("  {:<44}{:>9}{:>20}{:>12}{:>18}", "", "ns/add", "quartiles", "x of ours", "quartiles");
    for (contender, own) in contenders.iter().zip(times) {
        let [low, median, high] = quartiles(own.clone());
        let [least, ratio, most] =
            quartiles(own.iter().zip(&times[0]).map(|(own, ours)| own / ours).collect());
        println!(
            "  {:<44}{median:>9.2}{:>20}{ratio:>12.2}{:>18}",
            contender.name,
            format!("{low:.2} to {high:.2}"),
            format!("{least:.2} to {most:.2}")
        );
    }
}

/// The ratio of the first to the second, in rounds, with quartiles.
fn ratio(times: &Rounds, of: usize, to: usize) -> [f64; 3] {
    quartiles(times[of].iter().zip(&times[to]).map(|(of, to)| of / to).collect())
}

/// Such a ratio with a target beside it; whether that is met.
fn target(text: &str, times: &Rounds, of: usize, to: usize, holds: impl Fn(f64) -> bool) -> bool {
    let [low, median, high] = ratio(times, of, to);
    let word = if holds(median) { "holds" } else { "missed" };
    println!("  {word}: {text}: {median:.2} ({low:.2} to {high:.2})");
    holds(median)
}

fn one_thread(rounds: usize) {
    println!("One thread, adds one after the other");
    let mut them = contenders(1);
    let others = them.len();
    them.push(plain());
    #[cfg(target_arch = "x86_64")]
    them.push(instruction());
    let times = measure(&them, 1, 50_000, rounds);
    show(&them, &times);
    let text = "ours at most 1.5 times a plain add through a thread-local pointer";
    if !target(text, &times, 0, others, |x| x <= 1.5) {
        let [_, fastest, _] = quartiles(times[others].clone());
        println!(
            "    A loop of {fastest:.2} ns an add carries the value from store to load in hardly any time, and is as fast\n    \
             as a loop can be that does nothing else; a sequence has a dozen instructions more."
        );
    }
    for (index, them) in them.iter().enumerate().take(others).skip(1) {
        target(&format!("no slower than {}", them.name), &times, 0, index, |x| x <= 1.0);
    }
}

/// The loop without an add is the first, the one with ours the second, and that with a plain add the third.
fn loops_with<S: Copy + Sync + 'static>(
    start: S,
    work: impl Fn(S) -> S + Copy + Sync + 'static,
) -> [Contender; 4] {
    let counter = PerCpuCounter::new();
    let count: &'static AtomicU64 = Box::leak(Box::default());
    [
        contender("work, no add", move |n| {
            black_box((0..n).fold(start, |state, _| work(state)));
        }),
        contender("work, manycore-percpu add_local", move |n| {
            black_box((0..n).fold(start, |state, _| {
                counter.add_local(1);
                work(state)
            }));
        }),
        contender("work, plain add", move |n| {
            own();
            black_box((0..n).fold(start, |state, _| {
                // SAFETY: the pointer of this thread, to a count that lives for ever.
                unsafe {
                    let count = OWN.with(|pointer| pointer.as_ptr().read_volatile());
                    count.write_volatile(count.read_volatile() + 1);
                }
                work(state)
            }));
        }),
        contender("work, one AtomicU64", move |n| {
            black_box((0..n).fold(start, |state, _| {
                count.fetch_add(1, Relaxed);
                work(state)
            }));
        }),
    ]
}

/// Nanoseconds that no ratio is taken of: less than half a cycle.
const NOTHING: f64 = 0.1;

/// What an add costs where it is one thing among others: what it adds to the time of a loop that does some work.
fn among_work(kind: &str, them: &[Contender], rounds: usize) {
    println!("\nOne thread, between two adds work that {kind}");
    let times = measure(them, 1, 50_000, rounds);
    println!("  {:<44}{:>9}{:>20}{:>12}{:>18}", "", "ns/turn", "quartiles", "add's part", "quartiles");
    let mut costs = Vec::new();
    for (contender, own) in them.iter().zip(&times) {
        let [low, median, high] = quartiles(own.clone());
        let cost = quartiles(own.iter().zip(&times[0]).map(|(own, none)| own - none).collect());
        println!(
            "  {:<44}{median:>9.2}{:>20}{:>12.2}{:>18}",
            contender.name,
            format!("{low:.2} to {high:.2}"),
            cost[1],
            format!("{:.2} to {:.2}", cost[0], cost[2])
        );
        costs.push(cost);
    }
    let ([low, ours, high], [least, plain, most]) = (costs[1], costs[2]);
    if plain > NOTHING {
        let (ratio, word) = (ours / plain, if ours <= 1.5 * plain { "holds" } else { "missed" });
        println!("  {word}: the part of ours at most 1.5 times that of a plain add: {ratio:.2}");
    } else {
        println!("  no ratio of parts: that of a plain add is {least:.2} to {most:.2} ns, which is nothing;");
        println!("    that of ours is {low:.2} to {high:.2} ns");
    }
    target("the loop with ours at most 1.5 times that with a plain add", &times, 1, 2, |x| x <= 1.5);
}

/// Cores that the CPUs of this machine are in, where `/sys` tells: threads of one core share its cache.
fn cores(cpus: usize) -> Option<usize> {
    let of = |cpu| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
            .ok()
    };
    Some((0..cpus).map(of).collect::<Option<std::collections::HashSet<_>>>()?.len())
}

fn all_cpus(cpus: usize, rounds: usize) {
    println!("\n{cpus} threads, all adding");
    let them = contenders(cpus);
    let times = measure(&them, cpus, 50_000, rounds);
    show(&them, &times);
    for (index, them) in them.iter().enumerate().skip(1) {
        target(&format!("no slower than {}", them.name), &times, 0, index, |x| x <= 1.0);
    }
}

/// How far ahead of one shared atomic this is with 1, 2, 4, ... and all CPUs.
fn by_number_of_cpus(cpus: usize, rounds: usize) {
    println!("\nOne shared AtomicU64, times of ours, by the number of threads");
    let counts = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < cpus).chain([cpus]);
    for threads in counts {
        let them = [ours(), atomic()];
        let times = measure(&them, threads, 50_000, rounds);
        let [low, median, high] = ratio(&times, 1, 0);
        println!("  {threads:>4} {median:>9.2} ({low:.2} to {high:.2})");
        if threads == cpus {
            let reached = target("at least 10 times with all CPUs", &times, 1, 0, |x| x >= 10.0);
            if let (false, Some(cores)) = (reached, cores(cpus)) {
                println!(
                    "    {cpus} CPUs in {cores} cores, as far as this system is told. The fewer CPUs share a line, and the"
                );
                println!("    nearer they are, the less it costs them: the target is meant for many.");
            }
        }
    }
}

fn main() {
    let mut words = std::env::args().skip_while(|word| word != "--rounds").skip(1);
    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(201);
    countme::enable(true);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    println!("engine: {}; {cpus} CPUs; {rounds} rounds, medians\n", manycore_percpu::engine());
    one_thread(rounds);
    among_work("waits for itself", &loops_with(1, waiting), rounds);
    among_work("fills the CPU", &loops_with([1, 2, 3, 4, 5, 6, 7, 8], filling), rounds);
    all_cpus(cpus, rounds);
    by_number_of_cpus(cpus, rounds);
}
