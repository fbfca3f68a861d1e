//! Compares memory bandwidth with STREAM's definition in C, and with likwid-bench if that is installed, in
//! interleaved samples: with one worker and with one on each CPU of a node.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_experiment::{
    command,
    counters::CounterReader,
    engine::Subject,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{Sample, id::TIMES_CACHES},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_linux::clock::now_ns;
use manycore_stats::{Estimate, median};
use manycore_text::units;
use manycore_topology::{CpuId, CpuSet, Machine};
use manycore_workload::stream::{Kernel, Stores, Streams, Work};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    rc::Rc,
    time::Duration,
};

/// Length of a sample of either program.
const SAMPLE: Duration = Duration::from_millis(500);

/// Default seconds for each comparison; the environment variable `SECONDS` overrides it.
const SECONDS: f64 = 30.0;

/// likwid-bench's names of our kernels, with ordinary and with non-temporal stores; the widest vectors come
/// first.
const LIKWID: [(Work, &[&str]); 6] = [
    (work(Kernel::Copy, Stores::Ordinary), &["copy_avx512", "copy_avx", "copy_sse", "copy"]),
    (
        work(Kernel::Copy, Stores::NonTemporal),
        &["copy_mem_avx512", "copy_mem_avx", "copy_mem_sse", "copy_mem"],
    ),
    (work(Kernel::Add, Stores::Ordinary), &["add_avx512", "add_avx", "add_sse", "add"]),
    (work(Kernel::Triad, Stores::Ordinary), &["stream_avx512", "stream_avx", "stream_sse", "stream"]),
    (
        work(Kernel::Triad, Stores::NonTemporal),
        &["stream_mem_avx512", "stream_mem_avx", "stream_mem_sse", "stream_mem"],
    ),
    (Work::READ, &["load_avx512", "load_avx", "load_sse", "load"]),
];

const fn work(kernel: Kernel, stores: Stores) -> Work {
    Work { kernel, stores }
}

fn main() -> ExitCode {
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let machine = common::machine();
    let cpus: Vec<CpuId> =
        machine.usable().iter().filter(|&cpu| machine.nodes[0].cpus.contains(cpu)).collect();
    let caches: u64 = machine.last_level_caches().filter_map(|cache| cache.size_bytes).sum();
    let array = std::env::var("ARRAY")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| (TIMES_CACHES * caches).max(64 << 20));
    println!("arrays of {}, caches of {}, CPUs {cpus:?}", units::bytes(array), units::bytes(caches));
    let mut counts = vec![1, cpus.len()];
    counts.dedup();
    for count in counts {
        let field = StreamWorkers::new(&machine, &cpus[..count], array);
        field.compare_with_c(seconds);
        field.compare_with_likwid(seconds);
    }
    ExitCode::SUCCESS
}

/// Our workers on some CPUs, and the bytes of an array of either program.
struct StreamWorkers<'a> {
    machine: &'a Machine,
    cpus: &'a [CpuId],
    array: u64,
    streams: Streams,
}

impl<'a> StreamWorkers<'a> {
    fn new(machine: &'a Machine, cpus: &'a [CpuId], array: u64) -> Self {
        let mut streams = Streams::new();
        // With several nodes, memory of the first one, to which the other programs are bound, too.
        let node = (machine.nodes.len() > 1).then_some(machine.nodes[0].id);
        streams.add(array, node, cpus.len()).expect("memory");
        Self { machine, cpus, array, streams }
    }

    fn ours(&self, work: Work) -> PoolSubject {
        let order = |(worker, &cpu): (usize, &CpuId)| WorkerOrder {
            worker,
            cpus: CpuSet::single(cpu),
            parameter: Streams::parameter(0, work),
            ticks: 0,
            expected_cpu: None,
        };
        let trial = Trial {
            orders: self.cpus.iter().enumerate().map(order).collect(),
            servers: Vec::new(),
            unit_per_tick: work.per_tick() as f64,
        };
        let pool = WorkerPool::from_members(self.streams.members(self.cpus.len())).expect("workers");
        let mode = SamplingMode::Slices { slice: SAMPLE, settling_time: Duration::from_millis(10) };
        PoolSubject::new(pool, Rc::new(CounterReader::new(self.machine)), mode, vec![trial], now_ns())
    }

    fn list(&self) -> String {
        self.cpus.iter().copied().collect::<CpuSet>().to_string()
    }

    fn compare_with_c(&self, seconds: f64) {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("stream");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/stream.c");
        // Without calls of memcpy, which would select its stores by itself.
        let options = ["-O3", "-fopenmp", "-fno-tree-loop-distribute-patterns", "-o"];
        let built = Command::new("gcc").args(options).arg(&program).arg(source).status();
        assert!(built.is_ok_and(|status| status.success()), "gcc builds stream.c");
        let mut program = PeerProcess::new(&program, &self.list(), self.cpus.len(), self.array);
        for kernel in [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad] {
            let theirs = |time: Duration| program.rate(kernel.name(), time);
            self.compare(work(kernel, Stores::Ordinary), "C", Box::new(theirs), seconds);
        }
    }

    fn compare_with_likwid(&self, seconds: f64) {
        let Ok(known) = command::run(Command::new("likwid-bench").arg("-a")) else {
            println!("SKIPPED: likwid-bench is not installed");
            return;
        };
        let known: Vec<&str> =
            known.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
        for (work, names) in LIKWID {
            let can = |name: &&&str| {
                let flag = name.rsplit('_').next().unwrap_or_default();
                let has = |flag: &str| self.machine.system.cpu_flags.iter().any(|have| have == flag);
                known.contains(*name) && (flag != "avx512" || has("avx512f")) && (flag != "avx" || has("avx"))
            };
            let Some(name) = names.iter().find(can) else { continue };
            let theirs = |time: Duration| self.likwid(name, work, time);
            self.compare(work, name, Box::new(theirs), seconds);
        }
    }

    /// Runs a test of likwid-bench. Returns bytes per second.
    fn likwid(&self, name: &str, work: Work, time: Duration) -> f64 {
        let arrays = match work.kernel {
            Kernel::Read => 1,
            Kernel::Copy | Kernel::Scale => 2,
            _ => 3,
        };
        let size = format!("N:{}kB:{}", self.array * arrays / 1000, self.cpus.len());
        let mut program = Command::new("taskset");
        program.args(["-c", &self.list(), "likwid-bench", "-t", name, "-w", &size]);
        program.args(["-s", &time.as_secs().max(1).to_string()]);
        let run = command::run(&mut program).expect("likwid-bench runs");
        let line = run.stdout.lines().find_map(|line| line.strip_prefix("MByte/s:"));
        line.and_then(|rate| rate.trim().parse::<f64>().ok()).expect("a rate") * 1e6
    }

    fn compare(&self, work: Work, name: &str, theirs: Box<dyn FnMut(Duration) -> f64 + '_>, seconds: f64) {
        let mut both = BothPrograms { ours: self.ours(work), theirs };
        let experiment = common::compare(&["ours", name], &mut both, seconds);
        let rate = |treatment| median(&experiment.rates(treatment)).unwrap_or(0.0) / 1e9;
        let ratio = Estimate::from_samples(&experiment.log_ratios(1, 0)).expect("pairs").map(f64::exp);
        println!(
            "{}, {}, {} workers: {:.2} GB/s, {name} {:.2} GB/s, ours over theirs: {}",
            work.kernel.name(),
            work.stores.name(),
            self.cpus.len(),
            rate(0),
            rate(1),
            common::show(&ratio)
        );
    }
}

/// The program in C, which waits for orders.
struct PeerProcess {
    program: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl PeerProcess {
    fn new(program: &Path, cpus: &str, threads: usize, array: u64) -> Self {
        let mut program = Command::new("taskset")
            .args(["-c", cpus])
            .arg(program)
            .arg(array.to_string())
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("OMP_PROC_BIND", "true")
            // Threads that wait for the next kernel must not use CPU time of our workers.
            .env("OMP_WAIT_POLICY", "passive")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset starts it");
        let (to, from) = (program.stdin.take().expect("a pipe"), program.stdout.take().expect("a pipe"));
        Self { program, to, from: BufReader::new(from) }
    }

    fn rate(&mut self, kernel: &str, time: Duration) -> f64 {
        writeln!(self.to, "{kernel} {}", time.as_secs_f64()).expect("it reads orders");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it answers");
        line.trim().parse().expect("a rate")
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Our load (treatment 0) and the other program (1).
struct BothPrograms<'a> {
    ours: PoolSubject,
    theirs: Box<dyn FnMut(Duration) -> f64 + 'a>,
}

impl Subject for BothPrograms<'_> {
    type Error = manycore_experiment::Error;

    fn measure(&mut self, treatment: usize) -> manycore_experiment::Result<Sample> {
        if treatment == 0 {
            return self.ours.measure(0);
        }
        self.ours.stop_all()?;
        let rate = (self.theirs)(SAMPLE);
        let work = rate * SAMPLE.as_secs_f64();
        Ok(Sample { wall_ns: SAMPLE.as_nanos() as u64, work, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}
