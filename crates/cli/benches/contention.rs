//! Compares counters and pipes with C programs that do the same, in interleaved samples: unpinned, and on one
//! CPU.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use clap::Parser;
use manycore_experiment::{
    command,
    counters::CounterReader,
    engine::Subject,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::Sample,
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_linux::clock::now_ns;
use manycore_stats::Estimate;
use manycore_topology::CpuSet;
use manycore_workload::contention::{Counters, Pipes, SharedObject};
use std::{
    path::Path,
    process::{Command, ExitCode},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Length of a sample of either program.
const SAMPLE: Duration = Duration::from_millis(500);

/// Default seconds for each comparison; the environment variable `SECONDS` overrides it.
const SECONDS: f64 = 60.0;

/// Our load (treatment 0) and the program in C (1).
struct BothPrograms<'a> {
    ours: PoolSubject,
    program: &'a Path,
    load: &'a str,
    cpus: CpuSet,
}

impl Subject for BothPrograms<'_> {
    type Error = manycore_experiment::Error;

    fn measure(&mut self, treatment: usize) -> manycore_experiment::Result<Sample> {
        if treatment == 0 {
            return self.ours.measure(0);
        }
        self.ours.stop_all()?;
        let mut taskset = Command::new("taskset");
        let seconds = SAMPLE.as_secs_f64();
        taskset
            .args(["-c", &self.cpus.to_string()])
            .arg(self.program)
            .args([self.load, &seconds.to_string()]);
        let printed = command::run(&mut taskset)?.stdout;
        let rate: f64 = printed.trim().parse().expect("a rate");
        Ok(Sample { wall_ns: SAMPLE.as_nanos() as u64, work: rate * seconds, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

fn main() -> ExitCode {
    // Worker processes run this executable.
    if std::env::args().nth(1).is_some_and(|subcommand| subcommand == "worker") {
        return manycore::cmd::run(manycore::cli::Cli::parse())
            .map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("contention");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/contention.c");
    let built = Command::new("gcc").args(["-O2", "-o"]).arg(&program).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "gcc builds contention.c");
    let all = common::machine().usable();
    let one = CpuSet::single(all.first().expect("a CPU"));
    let counter: fn() -> Arc<dyn SharedObject> = || Arc::new(Counters::new(1));
    let pipe: fn() -> Arc<dyn SharedObject> = || Arc::new(Pipes::new(1).expect("pipes"));
    for (load, cpus, open) in
        [("counter", &all, counter), ("counter", &one, counter), ("pipe", &all, pipe), ("pipe", &one, pipe)]
    {
        let ratio = ratio(&program, load, cpus, open(), seconds);
        println!("{load} on CPUs {cpus}, ours over C: {}", common::show(&ratio));
    }
    ExitCode::SUCCESS
}

fn ratio(program: &Path, load: &str, cpus: &CpuSet, object: Arc<dyn SharedObject>, seconds: f64) -> Estimate {
    let team = object.team(0, 1);
    let order = WorkerOrder {
        worker: team.workers[0],
        cpus: cpus.clone(),
        parameter: team.parameter,
        ticks: 0,
        expected_cpu: None,
    };
    let trial = Trial {
        orders: vec![order],
        servers: team.servers.iter().map(|&server| (server, cpus.clone())).collect(),
        unit_per_tick: object.per_tick() as f64,
    };
    let mode = SamplingMode::Slices { slice: SAMPLE, settling_time: Duration::from_millis(10) };
    let counter_reader = Rc::new(CounterReader::new(&common::machine()));
    let pool = WorkerPool::with_shared_object(object).expect("workers");
    let ours = PoolSubject::new(pool, counter_reader, mode, vec![trial], now_ns());
    let mut both = BothPrograms { ours, program, load, cpus: cpus.clone() };
    let experiment = common::compare(&["ours", "C"], &mut both, seconds);
    Estimate::from_samples(&experiment.log_ratios(1, 0)).expect("pairs").map(f64::exp)
}
