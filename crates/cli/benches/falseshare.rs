//! Measures the cost of observing every access, as CPU time relative to the plain emulator, on C programs and
//! on real ones.
//!
//! Runs alternate in pairs, in alternating order. The target is at most ten times the time of plain QEMU.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_falseshare::emulator::{Request, find, observe};
use manycore_falseshare::sharing::{LineLayout, Observation};
use manycore_stats::quantile;
use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Number of pairs of runs for each program.
const PAIRS: usize = 7;

/// Two threads that increment counters.
const COUNTERS: &str = r"
#include <pthread.h>
#ifndef APART
#define APART 1
#endif
static struct { long at[64]; } counts __attribute__((aligned(64)));
static void *work(void *p) {
    long *counter = p;
    for (long i = 0; i < 20000000; i++) ADD;
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &counts.at[i * APART]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
";

/// One thread that sorts and allocates.
const SORT: &str = r"
#include <stdlib.h>
static int order(const void *a, const void *b) { return **(long **)a < **(long **)b ? -1 : 1; }
int main(void) {
    enum { COUNT = 300000 };
    static long *all[COUNT];
    unsigned long seed = 1;
    for (int i = 0; i < COUNT; i++) {
        all[i] = malloc(24);
        *all[i] = (seed = seed * 6364136223846793005UL + 1) >> 1;
    }
    qsort(all, COUNT, sizeof *all, order);
    for (int i = 0; i < COUNT; i++) free(all[i]);
    return 0;
}
";

/// Four threads that factor a matrix by blocks, in place: the columns of a block start and end on lines that
/// other threads write too. This is the access pattern of SPLASH's LU without contiguous blocks.
const LU: &str = r"
#include <pthread.h>
#include <stdlib.h>
enum { ORDER = 512, BLOCK = 16, BLOCKS = ORDER / BLOCK, THREADS = 4 };
static double *matrix;
static pthread_barrier_t barrier;
static double *at(int row, int column) { return &matrix[row + (long)column * ORDER]; }
static int is_mine(int row, int column, int me) { return (row % 2) * 2 + column % 2 == me; }
/* Subtracts from block (row, column) what column `pivot` of the blocks beside and above it adds. */
static void eliminate(int row, int column, int pivot, int first) {
    for (int j = column * BLOCK; j < (column + 1) * BLOCK; j++) {
        double factor = *at(pivot, j);
        for (int i = first > row * BLOCK ? first : row * BLOCK; i < (row + 1) * BLOCK; i++)
            *at(i, j) -= factor * *at(i, pivot);
    }
}
static void divide(int row, int pivot, int first) {
    for (int i = first > row * BLOCK ? first : row * BLOCK; i < (row + 1) * BLOCK; i++)
        *at(i, pivot) /= *at(pivot, pivot);
}
static void step(int step, int me) {
    for (int row = step; row < BLOCKS; row++) {
        for (int pivot = step * BLOCK; pivot < (step + 1) * BLOCK && is_mine(row, step, me); pivot++) {
            divide(row, pivot, pivot + 1);
            for (int j = pivot + 1; j < (step + 1) * BLOCK; j++)
                for (int i = pivot + 1 > row * BLOCK ? pivot + 1 : row * BLOCK; i < (row + 1) * BLOCK; i++)
                    *at(i, j) -= *at(pivot, j) * *at(i, pivot);
        }
        if (row == step)
            pthread_barrier_wait(&barrier);
    }
    pthread_barrier_wait(&barrier);
    for (int row = step; row < BLOCKS; row++) {
        for (int column = step + 1; column < BLOCKS; column++)
            for (int pivot = step * BLOCK; pivot < (step + 1) * BLOCK && is_mine(row, column, me); pivot++)
                eliminate(row, column, pivot, pivot + 1);
        if (row == step)
            pthread_barrier_wait(&barrier);
    }
    pthread_barrier_wait(&barrier);
}
static void *work(void *me) {
    for (int k = 0; k < BLOCKS; k++) step(k, (int)(long)me);
    return 0;
}
int main(void) {
    pthread_t threads[THREADS];
    matrix = (double *)((char *)malloc(sizeof(double) * ORDER * ORDER + 16) + 16);
    for (int j = 0; j < ORDER; j++)
        for (int i = 0; i < ORDER; i++) *at(i, j) = i == j ? ORDER : 1.0 / (1 + i + j);
    pthread_barrier_init(&barrier, 0, THREADS);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return *at(ORDER - 1, ORDER - 1) > 0 ? 0 : 1;
}
";

/// Returns the CPU seconds of children that have exited (`/proc/self/stat`, fields 16 and 17, in hundredths).
fn children_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("proc");
    let after = stat.rsplit(") ").next().expect("a name");
    after.split(' ').skip(13).take(2).map(|field| field.parse::<f64>().expect("a number") / 100.0).sum()
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = children_seconds();
    let result = work();
    (children_seconds() - before, result)
}

fn plain(command: &[OsString]) {
    let emulator = format!("qemu-{}", std::env::consts::ARCH);
    let program = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(&command[0]))
        .find(|path| path.is_file())
        .unwrap_or_else(|| command[0].clone().into());
    let status = Command::new(emulator).arg(program).args(&command[1..]).stdout(Stdio::null()).status();
    assert!(status.expect("the emulator starts").success());
}

fn observed(command: &[OsString]) -> Observation {
    let request = Request {
        command: command.to_vec(),
        layouts: vec![LineLayout { line_bytes: 64, shift_bytes: 0 }],
        memory_limit_bytes: 1 << 30,
        timeout: None,
        cleanup: None,
    };
    observe(&request, &|| false).expect("it is observed")
}

fn compare(name: &str, command: &[OsString]) {
    let (mut ratios, mut nanoseconds, mut last) = (Vec::new(), Vec::new(), Observation::default());
    for pair in 0..=PAIRS {
        let run_plain = || timed(|| plain(command)).0;
        let run_ours = || timed(|| observed(command));
        let (base, (ours, observation)) = if pair % 2 == 0 {
            let base = run_plain();
            (base, run_ours())
        } else {
            let ours = run_ours();
            (run_plain(), ours)
        };
        let accesses: u64 = observation.processes.iter().map(|process| process.accesses).sum();
        if pair > 0 {
            ratios.push(ours / base.max(0.01));
            nanoseconds.push(ours / accesses as f64 * 1e9);
        }
        last = observation;
    }
    let at = |values: &[f64], share| quantile(values, share).expect("values");
    let transfers: u64 =
        last.processes.iter().flat_map(|process| &process.lines).map(|line| line.transfers).sum();
    println!(
        "  {name:<26} {:5.1} x plain QEMU   {:.1} to {:.1}   {:5.1} ns an access   {transfers} transfers",
        at(&ratios, 0.5),
        at(&ratios, 0.0),
        at(&ratios, 1.0),
        at(&nanoseconds, 0.5)
    );
}

fn compile(folder: &Path, name: &str, source: &str, options: &[&str]) -> OsString {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&code, source).expect("a file");
    let status =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).args(options).arg(&code).status();
    assert!(status.expect("a compiler").success());
    program.into_os_string()
}

fn main() {
    if let Err(error) = find() {
        return println!("SKIPPED: {error}");
    }
    // Commands that are given as arguments, each as one word, are measured instead, such as published programs.
    let commands: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if !commands.is_empty() {
        for command in commands {
            compare(&command, &command.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        }
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    println!("CPU time with every access observed, {PAIRS} pairs; the target is at most 10 x");
    let plain_add = "-DADD=++*(volatile long *)counter";
    let atomic_add = "-DADD=__atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST)";
    for (name, options) in [
        ("counters of one line", &[plain_add][..]),
        ("counters apart", &[plain_add, "-DAPART=32"]),
        ("one counter, atomic", &[atomic_add, "-DAPART=0"]),
    ] {
        compare(name, &[compile(folder.path(), &name.replace([' ', ','], "_"), COUNTERS, options)]);
    }
    compare("LU, blocks interleaved", &[compile(folder.path(), "lu", LU, &["-O2"])]);
    compare("sort of many blocks", &[compile(folder.path(), "sort", SORT, &[])]);
    let memory = "sysbench memory --threads=2 --memory-total-size=200M --memory-block-size=4K run";
    let cpu = "sysbench cpu --threads=2 --events=100 --time=0 run";
    for (name, command) in [("sysbench memory", memory), ("sysbench cpu", cpu)] {
        compare(name, &command.split(' ').map(OsString::from).collect::<Vec<_>>());
    }
}
