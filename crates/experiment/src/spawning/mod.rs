//! Records of light processes that were started by the hundred thousand and held.
//!
//! A record holds one [`RuntimeRuns`] per runtime. How many would fit, and which limits apply, is computed from
//! it.

pub mod capacity;

use manycore_topology::cpuset::CpuSet;
use serde::{Deserialize, Serialize};

/// A runtime that provides light processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Processes of Erlang/OTP.
    Beam,
    /// Goroutines.
    Go,
    /// Virtual threads of Java, or platform threads before Java 21.
    Jvm,
    /// Tasks of Rust's tokio.
    Tokio,
    /// Threads of the operating system.
    Threads,
    /// Processes of the operating system.
    Processes,
}

/// Work of each light process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Sleeps until it is ended.
    #[default]
    Idle,
    /// Computes until it is stopped.
    Spin,
    /// Opens, writes, reads and closes a file of its own in a loop.
    Io,
}

/// Measurement of one runtime with one kind of work: a run for each count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeRuns {
    /// The runtime.
    pub runtime: Runtime,
    /// Version as the runtime reports it: `Erlang/OTP 25 (ERTS 13.1.5)`.
    pub version: String,
    /// Name of one light process: `process`, `goroutine`, `virtual thread`, `task`, `thread`.
    pub unit: String,
    /// Work of each light process.
    pub work: Work,
    /// Number of schedulers, and the CPUs that the runtime may use.
    pub schedulers: Schedulers,
    /// Limits of their number, lowest first. Limits that do not apply are absent.
    pub limits: Vec<CountLimit>,
    /// Memory that the runtime may use, in bytes.
    pub memory_bytes: u64,
    /// Source of that figure: `memory limit of the control group`, `available memory less a tenth`.
    pub memory_source: String,
    /// The runs, in the order in which they were made.
    pub runs: Vec<SpawnRun>,
}

/// Schedulers of a runtime, and the CPUs that it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Schedulers {
    /// Number of threads that run light processes: `+S`, `GOMAXPROCS`, parallelism of the carrier pool,
    /// worker threads. Absent for threads and processes of the operating system.
    pub count: Option<usize>,
    /// How they are bound to CPUs, as the runtime reports it (`+sbt`): `unbound`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub binding: Option<String>,
    /// CPUs that the runtime may use (affinity and cpuset).
    pub cpus: CpuSet,
    /// CPU quota, as a number of CPUs, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quota_cpus: Option<f64>,
    /// Option that sets the number: `+S 2:2`, `GOMAXPROCS=2`, `-XX:ActiveProcessorCount=2`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub option: String,
}

/// A limit of the number of light processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountLimit {
    /// Name: `+P`, `kernel.pid_max`, `RLIMIT_NPROC`, `vm.max_map_count`, `pids.max`.
    pub name: String,
    /// Number of light processes that it allows.
    pub max_count: u64,
    /// Source of the value: the file, the option, the call.
    pub source: String,
    /// Command that raises it: `sysctl -w kernel.pid_max=4194304`.
    pub raise_command: String,
}

/// Purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Measures a requested count.
    #[default]
    Count,
    /// A small run from which the memory of others is predicted.
    Pilot,
    /// Tests the predicted limit: starts more and more in a control group with a memory limit, until the
    /// runtime cannot start another one.
    CapacityTest,
}

/// One count: started, held and ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpawnRun {
    /// Number of requested light processes.
    pub requested: u64,
    /// Number that were alive at the end of the start.
    pub alive: u64,
    /// Purpose of the run.
    pub purpose: Purpose,
    /// From the first start until all were alive, on this program's clock, in seconds.
    pub start_seconds: f64,
    /// From the first start until all were alive, as the runtime itself reports it, in seconds.
    pub reported_start_seconds: Option<f64>,
    /// From the message to end until the runtime had exited, in seconds.
    pub end_seconds: Option<f64>,
    /// How the run ended.
    pub ending: Ending,
    /// Memory of the runtime before the first light process was started.
    pub before: Memory,
    /// Memory of the runtime while all light processes were held.
    pub held: Memory,
    /// Memory limit that was set for this run, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_limit_bytes: Option<u64>,
    /// Activity of the CPUs, if the light processes computed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spin: Option<Spin>,
    /// Rate of file operations, if the light processes worked on files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub io: Option<Io>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Ending {
    /// All were started, held, and ended on request.
    #[default]
    Clean,
    /// The runtime or the kernel refused to start more.
    Refused {
        /// The message of the runtime or the kernel.
        why: String,
    },
    /// Killed at the memory limit.
    Killed {
        /// What killed it, and at which limit.
        why: String,
    },
    /// Ended by itself in another way.
    Failed {
        /// Its last message.
        why: String,
    },
    /// Stopped by the user.
    Interrupted,
}

/// Memory of a runtime at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Sum of `Pss` (`/proc/PID/smaps_rollup`) of its processes, in bytes.
    pub pss_bytes: Option<u64>,
    /// Sum of RSS (`VmRSS`) of its processes, in bytes.
    pub rss_bytes: u64,
    /// Kernel memory for its processes that is not in PSS or RSS: page tables (`VmPTE`) and kernel stacks, in bytes, if
    /// known.
    pub kernel_bytes: Option<u64>,
    /// Memory that the runtime itself reports: `erlang:memory(total)`, `runtime.MemStats.Sys` less
    /// `HeapReleased`.
    pub reported_bytes: Option<u64>,
    /// Charge of its control group in bytes, if it has one of its own.
    pub cgroup_bytes: Option<u64>,
}

/// Activity of the CPUs while light processes computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spin {
    /// Length of an interval in seconds.
    pub interval_seconds: f64,
    /// The CPUs, in the order of the columns of `busy`.
    pub cpus: Vec<usize>,
    /// Busy share of each CPU in each interval, 0 to 1: the runtime's threads and all others.
    pub busy: Vec<Vec<f32>>,
    /// Share of CPU time that the hypervisor took (steal) in each interval, 0 to 1; the mean over CPUs.
    pub stolen: Vec<f32>,
    /// In each interval, number of tasks of the machine that ran or waited for a CPU (`/proc/loadavg`).
    pub running: Vec<u32>,
    /// Number of light processes that were ready to run, if the runtime reports it
    /// (`erlang:statistics(run_queue)`). One value per interval; values are missing if the runtime was late.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queued: Vec<u64>,
    /// Share of the time that each scheduler worked, 0 to 1, if the runtime reports it
    /// (`erlang:statistics(scheduler_wall_time)`).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub schedulers: Vec<f32>,
}

/// Rate of file operations while light processes opened, wrote, read and closed files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Io {
    /// Duration of the measurement, in seconds.
    pub seconds: f64,
    /// Number of rounds of open, write, read and close during the measurement.
    pub operations: u64,
    /// Bytes that a round writes and then reads.
    pub bytes: u64,
    /// File system of the scratch directory: `ext4`.
    pub file_system: String,
    /// Histogram of the time of a round, in buckets of [`manycore_stats::histogram`]: index and count.
    pub latency: Vec<(u32, u64)>,
}

impl Runtime {
    /// All runtimes, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Beam, Self::Go, Self::Jvm, Self::Tokio, Self::Threads, Self::Processes];

    /// Returns the name on the command line.
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
