//! The overhead of slicing: prime events in slices of 50 ms that alternate between two workers, compared with
//! one uninterrupted run of the same length in a plain loop.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_experiment::{
    counters::CounterReader,
    engine::Subject,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::Sample,
    sampling::slices,
    worker_pool::WorkerPool,
};
use manycore_linux::{affinity, clock::now_ns};
use manycore_stats::Estimate;
use manycore_topology::CpuSet;
use manycore_workload::{DEFAULT_MAX_PRIME, LoadKind};
use std::rc::Rc;

/// Slices per sample.
const SLICES_EACH: usize = 10;

/// Length of an uninterrupted run: the same as that of the slices of a sample.
const RUN_NS: u64 = 500_000_000;

struct BothPrograms {
    live: PoolSubject,
    cpu: CpuSet,
}

impl BothPrograms {
    fn sliced(&mut self) -> manycore_experiment::Result<Sample> {
        let mut sum = Sample::default();
        for slice in 0..SLICES_EACH {
            // Treatments 0 and 1 have different workers, so each slice begins with a switch.
            let sample = self.live.measure(slice % 2)?;
            sum.work += sample.work;
            sum.wall_ns += sample.wall_ns;
        }
        self.live.stop_all()?;
        Ok(sum)
    }

    /// Runs on the CPU of the slices, while the coordinator sleeps as it does during a slice.
    fn uninterrupted(&self) -> Sample {
        let cpu = self.cpu.clone();
        let run = std::thread::spawn(move || {
            affinity::restrict(0, &cpu).expect("the CPU of the slices");
            let mut load = LoadKind::Prime.load();
            load.prepare(DEFAULT_MAX_PRIME);
            let (began, mut events) = (now_ns(), 0.0);
            loop {
                (0..load.ticks_per_event()).for_each(|_| load.tick());
                events += 1.0;
                let elapsed = now_ns() - began;
                if elapsed >= RUN_NS {
                    return Sample { wall_ns: elapsed, work: events, ..Sample::default() };
                }
            }
        });
        run.join().expect("the run ends")
    }
}

impl Subject for BothPrograms {
    type Error = manycore_experiment::Error;

    fn measure(&mut self, treatment: usize) -> manycore_experiment::Result<Sample> {
        if treatment == 0 { Ok(self.uninterrupted()) } else { self.sliced() }
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

fn main() {
    let machine = common::machine();
    let mut load = LoadKind::Prime.load();
    load.prepare(DEFAULT_MAX_PRIME);
    let unit_per_tick = 1.0 / load.ticks_per_event() as f64;
    // BothPrograms variants use one CPU, the coordinator another one: two CPUs of a guest may differ in speed.
    let cpus: Vec<CpuSet> = machine.allowed.cpus.iter().map(CpuSet::single).collect();
    let [coordinator, .., cpu] = &cpus[..] else { return println!("SKIPPED: needs two CPUs") };
    affinity::restrict(0, coordinator).expect("a CPU of ours");
    let trial = |worker| Trial {
        orders: vec![WorkerOrder {
            worker,
            cpus: cpu.clone(),
            parameter: DEFAULT_MAX_PRIME,
            ticks: 0,
            expected_cpu: None,
        }],
        servers: Vec::new(),
        unit_per_tick,
    };
    let trials = vec![trial(0), trial(1)];
    let pool = WorkerPool::start(LoadKind::Prime, 2, 0).expect("two workers");
    let live =
        PoolSubject::new(pool, Rc::new(CounterReader::new(&machine)), slices(&machine), trials, now_ns());
    let experiment =
        common::compare(&["uninterrupted", "sliced"], &mut BothPrograms { live, cpu: cpu.clone() }, 60.0);
    let ratio = Estimate::from_samples(&experiment.log_ratios(0, 1)).expect("pairs").map(f64::exp);
    println!("events per second, sliced over uninterrupted: {}", common::show(&ratio));
}
