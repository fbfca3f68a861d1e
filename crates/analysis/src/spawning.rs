//! Memory and start time of light processes, how many fit, and how their work was spread.

use manycore_experiment::{
    Record,
    spawning::{
        CountLimit, Ending, Io, Purpose, Runtime, RuntimeRuns, Schedulers, SpawnRun, Spin, Work,
        capacity::Capacity,
    },
};
use manycore_stats::{histogram::quantile, jain_index, mean};
use serde::Serialize;

/// A published figure of light processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedFigure {
    /// Number of processes that were started.
    pub count: u64,
    /// Memory of the runtime, in bytes.
    pub memory_bytes: f64,
    /// Time until all were started, in seconds.
    pub start_seconds: f64,
}

/// Where [`PUBLISHED`] was measured.
pub const PUBLISHED_ON: &str = "Erlang/OTP 17, 64 CPUs";

/// Bytes that each process took there.
pub const PUBLISHED_BYTES: f64 = 2667.0;

/// Processes of Erlang/OTP 17 on four Xeon E7-4820 (64 logical CPUs, 125 GB).
pub const PUBLISHED: [PublishedFigure; 4] = [
    PublishedFigure { count: 100_000, memory_bytes: 299e6, start_seconds: 12.3 },
    PublishedFigure { count: 1_000_000, memory_bytes: 2.7e9, start_seconds: 6.8 },
    PublishedFigure { count: 10_000_000, memory_bytes: 27.2e9, start_seconds: 57.6 },
    PublishedFigure { count: 55_000_000, memory_bytes: 132e9, start_seconds: 400.0 },
];

/// One runtime under one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LightProcesses {
    /// The runtime.
    pub runtime: Runtime,
    /// Version of the runtime.
    pub version: String,
    /// The runtime's name for a light process.
    pub unit: String,
    /// Work of each light process.
    pub work: Work,
    /// Name in tables: `beam`, followed by the work where there are several kinds of it.
    pub name: String,
    /// Runs in their order.
    pub runs: Vec<LightProcessRun>,
    /// How many fit, and the lowest limit. `None` where no run shows the memory of one.
    pub capacity: Option<Capacity>,
    /// Memory that the runtime may use, in bytes.
    pub memory_bytes: u64,
    /// Source of that figure: `memory limit of the control group`, `available memory less a tenth`.
    pub memory_source: String,
    /// Limits of their number, smallest first.
    pub limits: Vec<CountLimit>,
    /// Schedulers and CPUs.
    pub schedulers: Schedulers,
    /// How the number of schedulers differs from what the CPUs allow. `None` where it does not.
    pub mismatch: Option<SchedulerMismatch>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LightProcessRun {
    /// Number of light processes that were requested.
    pub requested: u64,
    /// Number that were alive at the same time.
    pub alive: u64,
    /// The purpose of the run.
    pub purpose: Purpose,
    /// How the run ended.
    pub ending: Ending,
    /// Time until all were alive, in seconds.
    pub start_seconds: f64,
    /// Time until all were alive by the runtime's own clock, in seconds.
    pub reported_start_seconds: Option<f64>,
    /// Measured start time over the start time that the runtime reports.
    pub start_over_reported: Option<f64>,
    /// Start time of each, in seconds.
    pub seconds_each: Option<f64>,
    /// Time until the runtime had exited, in seconds.
    pub end_seconds: Option<f64>,
    /// PSS while all were held, in bytes.
    pub pss_bytes: Option<u64>,
    /// Resident set size while all were held, in bytes.
    pub rss_bytes: u64,
    /// Growth of PSS for each, in bytes.
    pub pss_bytes_each: Option<f64>,
    /// Growth of the resident set size for each, in bytes.
    pub rss_bytes_each: Option<f64>,
    /// Growth of kernel memory for each, in bytes.
    pub kernel_bytes_each: Option<f64>,
    /// Growth for each as the runtime reports it, in bytes.
    pub reported_bytes_each: Option<f64>,
    /// Measured growth of memory over the growth that the runtime reports.
    pub memory_over_reported: Option<f64>,
    /// How computing was spread over CPUs.
    pub balance: Option<CpuBalance>,
    /// Throughput and latency of file operations.
    pub file_rounds: Option<FileRounds>,
}

/// How computing was spread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuBalance {
    /// For each CPU, its number and the mean share of time in which it was busy, 0 to 1.
    pub cpus: Vec<(usize, f64)>,
    /// Jain's index over the CPUs.
    pub fairness: Option<f64>,
    /// Jain's index over the schedulers.
    pub scheduler_fairness: Option<f64>,
    /// Mean number of tasks that were running or runnable.
    pub running: Option<f64>,
    /// Mean number of light processes that were ready to run.
    pub queued: Option<f64>,
    /// Mean share of steal time.
    pub steal: Option<f64>,
}

/// Throughput and latency of file operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileRounds {
    /// Rounds of open, write, read and close per second.
    pub per_second: f64,
    /// Median time of a round in nanoseconds.
    pub p50_ns: Option<f64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Bytes that a round writes and reads.
    pub bytes: u64,
    /// File system.
    pub file_system: String,
}

/// How the number of schedulers differs from what the CPUs allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerMismatch {
    /// Whether there are more schedulers than can run; otherwise there are fewer.
    pub more: bool,
    /// Whether the quota limits the number, and not the CPUs.
    pub by_quota: bool,
    /// Number of schedulers that can run at the same time.
    pub fitting: usize,
    /// The setting that corrects it, as typed in a shell.
    pub fix: String,
}

/// Evaluates all spawn experiments of a record.
pub(super) fn evaluate(record: &Record) -> Vec<LightProcesses> {
    let several = record.light_processes.windows(2).any(|pair| pair[0].work != pair[1].work);
    record.light_processes.iter().map(|spawning| evaluate_runtime(spawning, several)).collect()
}

fn evaluate_runtime(spawning: &RuntimeRuns, several: bool) -> LightProcesses {
    let work = match spawning.work {
        Work::Idle => "idle",
        Work::Spin => "spin",
        Work::Io => "io",
    };
    let runtime = spawning.runtime.name();
    let mut limits = spawning.limits.clone();
    limits.sort_by_key(|limit| limit.max_count);
    LightProcesses {
        runtime: spawning.runtime,
        version: spawning.version.clone(),
        unit: spawning.unit.clone(),
        work: spawning.work,
        name: if several { format!("{runtime}, {work}") } else { runtime.to_owned() },
        runs: spawning.runs.iter().map(run).collect(),
        capacity: Capacity::of(spawning),
        memory_bytes: spawning.memory_bytes,
        memory_source: spawning.memory_source.clone(),
        limits,
        mismatch: mismatch(spawning.runtime, &spawning.schedulers),
        schedulers: spawning.schedulers.clone(),
    }
}

fn run(run: &SpawnRun) -> LightProcessRun {
    LightProcessRun {
        requested: run.requested,
        alive: run.alive,
        purpose: run.purpose,
        ending: run.ending.clone(),
        start_seconds: run.start_seconds,
        reported_start_seconds: run.reported_start_seconds,
        start_over_reported: run.start_over_reported(),
        seconds_each: run.seconds_each(),
        end_seconds: run.end_seconds,
        pss_bytes: run.held.pss_bytes,
        rss_bytes: run.held.rss_bytes,
        pss_bytes_each: run.bytes_each(|memory| memory.pss_bytes),
        rss_bytes_each: run.bytes_each(|memory| Some(memory.rss_bytes)),
        kernel_bytes_each: run.bytes_each(|memory| memory.kernel_bytes),
        reported_bytes_each: run.bytes_each(|memory| memory.reported_bytes),
        memory_over_reported: run.memory_over_reported(),
        balance: run.spin.as_ref().map(balance),
        file_rounds: run.io.as_ref().map(rounds),
    }
}

fn balance(spin: &Spin) -> CpuBalance {
    let share = |column: usize| {
        let shares: Vec<f64> =
            spin.busy.iter().filter_map(|row| row.get(column)).copied().map(f64::from).collect();
        mean(&shares).unwrap_or(0.0)
    };
    let cpus: Vec<(usize, f64)> =
        spin.cpus.iter().enumerate().map(|(column, &cpu)| (cpu, share(column))).collect();
    let shares: Vec<f64> = cpus.iter().map(|&(_, share)| share).collect();
    let schedulers: Vec<f64> = spin.schedulers.iter().copied().map(f64::from).collect();
    CpuBalance {
        fairness: jain_index(&shares),
        scheduler_fairness: jain_index(&schedulers),
        running: mean(&spin.running.iter().copied().map(f64::from).collect::<Vec<_>>()),
        queued: mean(&spin.queued.iter().map(|&queued| queued as f64).collect::<Vec<_>>()),
        steal: mean(&spin.stolen.iter().copied().map(f64::from).collect::<Vec<_>>()),
        cpus,
    }
}

fn rounds(io: &Io) -> FileRounds {
    FileRounds {
        per_second: if io.seconds > 0.0 { io.operations as f64 / io.seconds } else { 0.0 },
        p50_ns: quantile(&io.latency, 0.5),
        p99_ns: quantile(&io.latency, 0.99),
        bytes: io.bytes,
        file_system: io.file_system.clone(),
    }
}

/// Compares the number of schedulers with the number of CPUs, or with the quota's CPUs where that is less.
/// More schedulers only take turns on the CPUs, and are throttled together.
fn mismatch(runtime: Runtime, schedulers: &Schedulers) -> Option<SchedulerMismatch> {
    let count = schedulers.count?;
    let cpus = schedulers.cpus.len();
    let quota = schedulers.quota_cpus.map(|quota| (quota.ceil() as usize).max(1));
    let by_quota = quota.is_some_and(|quota| quota < cpus);
    let fitting = quota.unwrap_or(cpus).min(cpus);
    let set = |option: &str| format!("{option}{fitting}");
    let fix = match runtime {
        Runtime::Beam => format!("erl +S {fitting}:{fitting}"),
        Runtime::Go => set("GOMAXPROCS="),
        Runtime::Jvm => set("java -XX:ActiveProcessorCount="),
        Runtime::Tokio => set("TOKIO_WORKER_THREADS="),
        Runtime::Threads | Runtime::Processes => return None,
    };
    (cpus > 0 && count != fitting).then_some(SchedulerMismatch {
        more: count > fitting,
        by_quota,
        fitting,
        fix,
    })
}

#[cfg(test)]
mod tests;
