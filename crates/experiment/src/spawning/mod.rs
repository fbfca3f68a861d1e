//! Light processes that were started by the hundred thousand and held: what was measured of them.
//!
//! A record holds one [`Spawning`] for each runtime; how many would fit, and what stands in the way, follows from it.

pub mod ceiling;

use manycore_topology::cpuset::CpuSet;
use serde::{Deserialize, Serialize};

/// What gives light processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Processes of Erlang/OTP.
    Beam,
    /// Goroutines.
    Go,
    /// Virtual threads of Java, or its platform threads where it has none.
    Jvm,
    /// Tasks of Rust's tokio.
    Tokio,
    /// Threads of the operating system.
    Threads,
    /// Processes of the operating system.
    Processes,
}

/// What each light process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Waits for the message to end.
    #[default]
    Idle,
    /// Computes without end.
    Spin,
    /// Opens, writes, reads and closes a file of its own, again and again.
    Io,
}

/// One runtime under one kind of work: a run for each count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spawning {
    /// The runtime.
    pub runtime: Runtime,
    /// Its version as it tells it: `Erlang/OTP 25 (ERTS 13.1.5)`.
    pub version: String,
    /// What a light process is called there: `process`, `goroutine`, `virtual thread`, `task`, `thread`.
    pub unit: String,
    /// What each does.
    pub work: Work,
    /// How many schedulers the runtime has, and how many CPUs it may use.
    pub schedulers: Schedulers,
    /// What bounds their number, smallest first; those that were not found bounded are absent.
    pub limits: Vec<Limit>,
    /// Memory that the runtime may take, in bytes.
    pub memory_bytes: u64,
    /// What says so: `memory limit of the control group`, `available memory less a tenth`.
    pub memory_source: String,
    /// One for each count, in the order of the runs.
    pub runs: Vec<Run>,
}

/// Schedulers of a runtime beside the CPUs that it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedulers {
    /// Threads that run light processes: `+S`, `GOMAXPROCS`, parallelism of the carrier pool, worker threads. Absent for
    /// threads and processes of the operating system.
    pub count: Option<usize>,
    /// How they are bound to CPUs, as the runtime tells it (`+sbt`): `unbound`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub binding: Option<String>,
    /// CPUs that the runtime may use (affinity and cpuset).
    pub cpus: CpuSet,
    /// CPUs' worth of time that a quota allows, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quota_cpus: Option<f64>,
    /// Option that sets their number: `+S 2:2`, `GOMAXPROCS=2`, `-XX:ActiveProcessorCount=2`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub option: String,
}

/// Something that bounds the number of light processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Its name: `+P`, `kernel.pid_max`, `RLIMIT_NPROC`, `vm.max_map_count`, `pids.max`.
    pub name: String,
    /// Light processes that it leaves room for.
    pub room: u64,
    /// Where its value is from: the file, the option, the call.
    pub source: String,
    /// What lifts it, as one would type it: `sysctl -w kernel.pid_max=4194304`.
    pub lift: String,
}

/// Why a run was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// This count was asked for.
    #[default]
    Count,
    /// A small one, by which the memory of others is foretold.
    Pilot,
    /// To see whether the predicted ceiling is there: started until the runtime could have no more, in a control group
    /// with a limit.
    Ceiling,
}

/// One count, started, held and ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Light processes that were asked for.
    pub asked: u64,
    /// Those that lived at once at the end of the start.
    pub alive: u64,
    /// Why it was made.
    pub purpose: Purpose,
    /// From the first start until all lived, as seen by us, in seconds.
    pub start_seconds: f64,
    /// The same by the runtime's own clock, in seconds.
    pub own_start_seconds: Option<f64>,
    /// From the message to end until the runtime had gone, in seconds.
    pub end_seconds: Option<f64>,
    /// How it ended.
    pub ending: Ending,
    /// Memory before the first was started.
    pub before: Memory,
    /// Memory while all were held.
    pub held: Memory,
    /// Memory that bounded the run, in bytes, where it was set for this run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_limit_bytes: Option<u64>,
    /// What the CPUs did, where they computed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spin: Option<Spin>,
    /// What the files gave, where they worked on files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub io: Option<Io>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Ending {
    /// All were started, held, and ended when they were told.
    #[default]
    Clean,
    /// The runtime or the kernel refused to start more.
    Refused {
        /// In its words.
        why: String,
    },
    /// Killed at the memory limit.
    Killed {
        /// By whom, and at what.
        why: String,
    },
    /// Ended by itself in another way.
    Failed {
        /// What it said last.
        why: String,
    },
    /// Stopped by the user.
    Interrupted,
}

/// Memory of a runtime at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Sum of `Pss` (`/proc/PID/smaps_rollup`) of its processes.
    pub pss_bytes: Option<u64>,
    /// Sum of resident sets (`VmRSS`).
    pub rss_bytes: u64,
    /// What the kernel holds for it beside that: page tables (`VmPTE`) and kernel stacks, where they can be told.
    pub kernel_bytes: Option<u64>,
    /// What the runtime itself says that it uses: `erlang:memory(total)`, `runtime.MemStats.Sys` less `HeapReleased`.
    pub own_bytes: Option<u64>,
    /// Charge of its control group, where it has one of its own.
    pub group_bytes: Option<u64>,
}

/// What the CPUs did while light processes computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spin {
    /// Length of an interval in seconds.
    pub interval_seconds: f64,
    /// The CPUs, in the order of the columns of `busy`.
    pub cpus: Vec<usize>,
    /// For each interval, the share of each CPU's time that the runtime's threads and all others took, 0 to 1.
    pub busy: Vec<Vec<f32>>,
    /// For each interval, the share that the hypervisor stole, 0 to 1, summed over CPUs and divided by their number.
    pub stolen: Vec<f32>,
    /// For each interval, tasks that ran or waited for a CPU on the machine (`/proc/loadavg`).
    pub running: Vec<u32>,
    /// Light processes that were ready to run, as the runtime tells it (`erlang:statistics(run_queue)`), where it does:
    /// once in an interval, and not in each where it was late.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queued: Vec<u64>,
    /// Share of the time that each scheduler worked, 0 to 1, as the runtime tells it
    /// (`erlang:statistics(scheduler_wall_time)`), where it does.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub schedulers: Vec<f32>,
}

/// What files gave while light processes opened, wrote, read and closed them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Time that it was counted for, in seconds.
    pub seconds: f64,
    /// Rounds of open, write, read and close in this time.
    pub operations: u64,
    /// Bytes that a round writes and then reads.
    pub bytes: u64,
    /// File system of the scratch folder: `ext4`.
    pub file_system: String,
    /// Time of a round, in buckets of [`manycore_stats::histogram`]: index and count.
    pub latency: Vec<(u32, u64)>,
}

impl Runtime {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Beam, Self::Go, Self::Jvm, Self::Tokio, Self::Threads, Self::Processes];

    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beam => "beam",
            Self::Go => "go",
            Self::Jvm => "jvm",
            Self::Tokio => "tokio",
            Self::Threads => "threads",
            Self::Processes => "processes",
        }
    }
}
