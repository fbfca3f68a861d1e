//! The subcommand `spawn`, and the hidden subcommand that runs the built-in light processes.

use super::{
    Results,
    value::{count, duration, size},
};
use clap::{Args, ValueEnum};
use manycore_experiment::spawning::Runtime;
use std::{path::PathBuf, time::Duration};

/// Value of `--runtime` that selects every runtime.
pub const ALL: &str = "all";

/// Measure runtimes with many light processes
///
/// Starts hundreds of thousands of light processes, and measures start time, memory and how many would fit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore spawn --runtime beam --counts 1e5,1e6          processes of Erlang/OTP
  manycore spawn --runtime beam,go,tokio --counts 1e6     three runtimes side by side
  manycore spawn                                          every installed runtime, 10,000 and 100,000 each
  manycore spawn --runtime beam --test-capacity=512M      how many fit into 512 MiB, predicted and observed
  manycore spawn --runtime go --work spin --work-time 10s  do they load all CPUs evenly?
  manycore spawn --runtime beam --work io --counts 1000   files opened, written, read and closed

Runtimes: beam (Debian package erlang-base), go (golang-go) and jvm (default-jdk-headless); tokio, threads and \
processes are built in. Each count is started in a fresh runtime. A count that would not fit into 90 % of the \
available memory is refused before it starts. As root, the runtime runs in a control group with that limit. \
Ctrl-C saves the runs that have ended.")]
pub struct Spawn {
    /// Runtimes to measure: beam, go, jvm, tokio, threads, processes, or all that are installed
    #[arg(long, value_name = "RUNTIME", value_delimiter = ',', default_value = ALL, value_parser = names())]
    pub runtime: Vec<String>,
    /// Numbers of light processes to start, each in a fresh runtime: 1e5, 100000, 100k or 1M [default:
    /// 1e4,1e5 as far as they fit]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = count, allow_hyphen_values = true)]
    pub counts: Vec<u64>,
    /// What each light process does
    #[arg(long, value_enum, default_value_t = WorkChoice::Idle)]
    pub work: WorkChoice,
    /// How long the light processes work, with --work spin and io
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub work_time: Duration,
    /// Directory in which --work io creates a directory for its files [default: the one for temporary files]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Also test how many fit: start more and more in a control group with this memory limit, until it is
    /// reached [default: 512M]
    #[arg(long, value_name = "MEMORY", num_args = 0..=1, require_equals = true, default_missing_value = "512M",
        value_parser = memory)]
    pub test_capacity: Option<u64>,
    /// Also start counts that do not fit; the limit of a control group stops them
    #[arg(long)]
    pub beyond_memory: bool,
    #[command(flatten)]
    pub results: Results,
}

/// Work of each light process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkChoice {
    /// Sleeps until it is ended.
    Idle,
    /// Computes.
    Spin,
    /// Opens, writes, reads and closes a file of its own in a loop.
    Io,
}

/// Arguments of the hidden subcommand that runs built-in light processes. Only this program starts it.
#[derive(Debug, Args)]
pub struct Light {
    pub kind: String,
}

fn names() -> clap::builder::PossibleValuesParser {
    let names: Vec<&str> = [ALL].into_iter().chain(Runtime::ALL.map(Runtime::name)).collect();
    names.into()
}

/// Parses a memory size such as `512M`. Refuses sizes in which a runtime cannot start.
fn memory(text: &str) -> Result<u64, String> {
    const MIN_MEMORY: u64 = 64 << 20;
    size(text).and_then(|bytes| {
        if bytes < MIN_MEMORY {
            Err("less than 64M: runtimes need at least 64M to start".to_owned())
        } else {
            Ok(bytes)
        }
    })
}
