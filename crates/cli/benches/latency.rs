//! Compares core-to-core latency with a C program of the same definition, which is compiled here.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_experiment::{
    Error, Result, command,
    engine::{Rng, Subject},
    ping_pong::PingPongSubject,
    record::Sample,
};
use manycore_linux::clock::now_ns;
use manycore_stats::Estimate;
use manycore_topology::{CpuId, TopologyDistance, pairs::Pair};
use manycore_workload::latency::PingPongTime;
use rand::SeedableRng;
use std::{path::Path, process::Command, time::Duration};

/// The compare-and-swap test of core-to-core-latency: 100 round trips between two readings of the clock, 200
/// times. Half a round trip is one way. Prints the median in nanoseconds.
const PEER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { TRIPS = 100, SAMPLES = 200 };
static _Alignas(4096) atomic_int flag;
static pthread_barrier_t barrier;
static void bind(int cpu) {
    cpu_set_t set; CPU_ZERO(&set); CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) exit(3);
}
static void turn(int from, int to) {
    int expected;
    do expected = from; while (!atomic_compare_exchange_strong_explicit(&flag, &expected, to,
                               memory_order_relaxed, memory_order_relaxed));
}
static void *answer(void *cpu) {
    bind(*(int *)cpu);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < TRIPS * (SAMPLES + 1); i++) turn(0, 1);
    return 0;
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int order(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int a = atoi(argv[1]), b = atoi(argv[2]);
    static double took[SAMPLES];
    pthread_t other;
    pthread_barrier_init(&barrier, 0, 2);
    bind(a);
    if (pthread_create(&other, 0, answer, &b)) return 3;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < TRIPS; i++) turn(1, 0);
    for (int s = 0; s < SAMPLES; s++) {
        double began = now();
        for (int i = 0; i < TRIPS; i++) turn(1, 0);
        took[s] = (now() - began) / TRIPS / 2;
    }
    pthread_join(other, 0);
    qsort(took, SAMPLES, sizeof *took, order);
    printf("%.3f\n", took[SAMPLES / 2]);
}
"#;

/// Time for bursts: about that of the C program's 200.
const VISIT: PingPongTime =
    PingPongTime { length: Duration::from_millis(4), timeout: Duration::from_secs(1) };

struct BothPrograms<'a> {
    ours: PingPongSubject,
    theirs: &'a Path,
    pair: Pair,
}

impl Subject for BothPrograms<'_> {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        let ns: f64 = if treatment == 0 {
            self.ours.measure(0)?.values[0]
        } else {
            let [a, b] = self.pair.map(|cpu| cpu.to_string());
            let output = command::run(Command::new(self.theirs).args([a, b]))?;
            output.stdout.trim().parse().map_err(|error| Error::Failed(format!("{error:?}")))?
        };
        if ns <= 0.0 {
            return Err(Error::Failed("the CPUs were not available".to_owned()));
        }
        // In picoseconds, so that no precision is lost; only ratios are used.
        Ok(Sample { wall_ns: (ns * 1000.0) as u64, work: 1.0, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

fn main() {
    let machine = common::machine();
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("peer.c"), folder.path().join("peer"));
    std::fs::write(&source, PEER).expect("the peer's source is written");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    if !compile.status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: no C compiler (install gcc)");
        return;
    }
    let examples = TopologyDistance::examples(&machine, &machine.usable());
    if examples.is_empty() {
        println!("SKIPPED: only one CPU may be used");
    }
    for (distance, pair) in examples {
        let ours =
            PingPongSubject::new(vec![pair], VISIT, Rng::seed_from_u64(1), 0, u64::MAX).expect("threads");
        let mut both = BothPrograms { ours, theirs: &program, pair };
        let experiment = common::compare(&["manycore", "C"], &mut both, 10.0);
        let figures = |treatment: usize| -> Vec<f64> {
            experiment.samples_of(treatment).map(|sample| sample.wall_ns as f64 / 1000.0).collect()
        };
        let ratio = Estimate::from_samples(&experiment.log_ratios(0, 1)).expect("pairs").map(f64::exp);
        let [ours, theirs] =
            [0, 1].map(|side| Estimate::from_samples(&figures(side)).expect("samples").median);
        let [a, b]: [CpuId; 2] = pair;
        println!(
            "latency between CPUs {a} and {b} ({}), manycore over C: {}; {ours:.1} and {theirs:.1} ns",
            distance.title(),
            common::show(&ratio)
        );
    }
}
