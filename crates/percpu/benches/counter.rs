//! The cost of an add, compared with plain adds, with a shared atomic, and with the counters of other crates,
//! in one run of interleaved rounds.
//!
//! Built by `../peers`, which depends on the other crates (`make bench`, or `cargo bench --manifest-path
//! crates/percpu/peers/Cargo.toml`). In each round, one short burst of each contender is timed, in an order that
//! rotates from round to round. The output shows medians over the rounds with quartiles, and medians of the ratios of
//! two bursts of the same round. `--rounds N` sets the number of rounds (default 201; 21 are enough for a first
//! impression).
//!
//! Not included: `metered` (its counters are one shared atomic, which is included), `counters` (not for
//! threads), `percpu` and `cpu-local` (for kernels only), `rseq` (an empty crate), `wbase` (padded atomics
//! with an index chosen by the caller, like the hand-made array here).

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

/// A counter under test: adds 1 the given number of times.
struct Contender {
    name: &'static str,
    adds: Box<dyn Fn(u64) + Sync>,
}

fn contender(name: &'static str, adds: impl Fn(u64) + Sync + 'static) -> Contender {
    Contender { name, adds: Box::new(adds) }
}

/// Returns a contender that is called for each add. The call is inlined.
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

/// Returns this thread's pointer to its count, which is created once.
fn own() -> *mut u64 {
    if OWN.get().is_null() {
        OWN.set(Box::leak(Box::new(0)));
    }
    OWN.get()
}

/// Returns a plain load, add and store through a thread-local pointer, which is read again for each add.
fn plain() -> Contender {
    contender("plain add through a thread-local pointer", |n| {
        own();
        for _ in 0..n {
            // SAFETY: this thread's own pointer, to a count that is never freed.
            unsafe {
                let count = OWN.with(|pointer| pointer.as_ptr().read_volatile());
                count.write_volatile(count.read_volatile() + 1);
            }
        }
    })
}

/// Returns the same as one instruction with the pointer in a register: x86-64 only.
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

/// Work that waits for its own results: a few dependent multiplications, about 6 ns. Execution units are idle
/// meanwhile.
#[inline(always)]
fn waiting(state: u64) -> u64 {
    (0..4).fold(state, |state, _| (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

/// Work that leaves no execution unit idle: simple instructions in eight independent chains.
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

/// Returns the contenders. The first one is ours; the others are compared with it.
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
            // SAFETY: has no arguments and returns a number.
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

/// Nanoseconds of one add, of each contender in each round.
type Rounds = Vec<Vec<f64>>;

/// Times bursts of `n` adds of each contender, on `threads` threads at once. The time is that of the slowest
/// thread.
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

/// Prints a line for each contender: its time, and its ratio to the first one.
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

/// Returns the ratio of the first to the second over the rounds, with quartiles.
fn ratio(times: &Rounds, of: usize, to: usize) -> [f64; 3] {
    quartiles(times[of].iter().zip(&times[to]).map(|(of, to)| of / to).collect())
}

/// Prints such a ratio and its target. Returns whether the target is met.
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
            "    A loop of {fastest:.2} ns an add forwards the value from store to load in almost no time, and is as fast\n    \
             as a loop without other work can be; a sequence has a dozen instructions more."
        );
    }
    for (index, them) in them.iter().enumerate().take(others).skip(1) {
        target(&format!("no slower than {}", them.name), &times, 0, index, |x| x <= 1.0);
    }
}

/// Returns four loops: without an add, with ours, with a plain add, and with one atomic.
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
                // SAFETY: this thread's own pointer, to a count that is never freed.
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

/// Nanoseconds below which no ratio is computed: less than half a cycle.
const MIN_NS: f64 = 0.1;

/// Measures the cost of an add among other work: the time that it adds to a loop.
fn among_work(kind: &str, them: &[Contender], rounds: usize) {
    println!("\nOne thread, with work between two adds that {kind}");
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
    if plain > MIN_NS {
        let (ratio, word) = (ours / plain, if ours <= 1.5 * plain { "holds" } else { "missed" });
        println!("  {word}: the part of ours at most 1.5 times that of a plain add: {ratio:.2}");
    } else {
        println!(
            "  no ratio of parts: that of a plain add is {least:.2} to {most:.2} ns, which is too little;"
        );
        println!("    that of ours is {low:.2} to {high:.2} ns");
    }
    target("the loop with ours at most 1.5 times that with a plain add", &times, 1, 2, |x| x <= 1.5);
}

/// Returns the number of cores of this machine's CPUs if `/sys` reports them. Threads of one core share its
/// cache.
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

/// Measures the ratio to one shared atomic with 1, 2, 4, ... and all CPUs.
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
                    "    {cpus} CPUs in {cores} cores, as reported by this system. The fewer CPUs share a line, and the"
                );
                println!("    nearer they are, the less it costs. The target applies to many CPUs.");
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
    among_work("waits for its own results", &loops_with(1, waiting), rounds);
    among_work("keeps all execution units busy", &loops_with([1, 2, 3, 4, 5, 6, 7, 8], filling), rounds);
    all_cpus(cpus, rounds);
    by_number_of_cpus(cpus, rounds);
}
