//! The verbs that place commands and processes, and take it back.

use super::Format;
use clap::{Args, ValueEnum};
use manycore_placement::{Memory, Policy, Reserve};
use std::path::PathBuf;

/// A share such as `90%`, from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "write a share from 0% to 100%, such as 90%".to_owned())
}

/// What `run` and `pin` share.
#[derive(Clone, Debug, Args)]
pub struct Placing {
    /// Where: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE, near=nodeN, each
    /// optionally +nosmt, and +isolated to use isolated CPUs, too
    #[arg(long, value_name = "PLACE", default_value = "close", conflicts_with = "plan")]
    pub place: Policy,
    /// Workers that the placement is for [default: one for each CPU that it has room on]
    #[arg(long, value_name = "N", conflicts_with = "plan", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Option<u32>,
    /// CPUs kept back for interrupts and the system: how many, or cpus=LIST
    #[arg(long, value_name = "RESERVE", conflicts_with = "plan")]
    pub reserve: Option<Reserve>,
    /// A plan that `plan --format json` or `tune` wrote, instead of a placement
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Refuse where workers would share a CPU
    #[arg(long)]
    pub exclusive: bool,
    /// Memory: default, local, interleave, bind, interleave=LIST, bind=LIST
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub memory: Memory,
    /// What holds the tasks: a cpuset where one can be had and affinities, or affinities alone
    #[arg(long, value_enum, default_value_t = Hold::Auto)]
    pub hold: Hold,
    /// Also write where each task ran, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit code 1 where the plan did not hold, or where less than this share of the CPU time was seen in place
    /// [default share: 90%]
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "90%", value_parser = share)]
    pub check: Option<f64>,
    /// Nothing but errors on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// What holds tasks on their CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hold {
    /// A cpuset where one can be had, and affinities.
    Auto,
    /// Affinities alone.
    Affinity,
}

/// Run a command with its threads on planned CPUs, and show where they really ran.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore run -- ./solver --threads 8                        one thread to a CPU, close together
  manycore run --place spread@llc --workers 8 -- make -j8     a last-level cache for each worker's tasks
  manycore run --place near=eth0 --workers 4 --reserve cpus=0 -- ./server
  manycore run --plan plan.json -- ./solver                   the plan that `manycore tune` wrote
  manycore run --place free -- ./solver                       only look where its threads run
  manycore run --place spread --workers 20 -- manycore probe --threads 20   ask each thread 10,000 times

The command keeps standard input and output, the terminal and its exit status (128 + N after signal N); {workers} in
it becomes the number of workers. Where it ran goes to standard error. All processes and threads that it makes are
seated as they appear. At its end what it leaves running gets its former CPUs back, unless --wait stays with it: daemons too, which are
found by their control group or by the kernel's messages about new processes. After SIGKILL of manycore the command
goes on, and `manycore undo` gives back.")]
pub struct Run {
    #[command(flatten)]
    pub placing: Placing,
    /// Stay until everything that the command has started has ended
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub command: super::Command,
}

/// Move a running process, its children and all their threads to planned CPUs, until it ends or Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore pin --pid 812 --place spread@cluster       until it ends or Ctrl-C, then it has its CPUs back
  manycore pin --pid $(pidof nginx | tr ' ' ,) --place near=eth0 --workers 4
  manycore pin --pid 812 --place cpus=4-7 --once      move what is there, and leave it so until `manycore undo`

Threads and children that are born later are seated as they appear (not with --once: they inherit).")]
pub struct Pin {
    /// The processes, with all below them
    #[arg(long, required = true, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Vec<u32>,
    /// Move what is there and end; `undo` takes it back
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub placing: Placing,
}

/// Take back what manycore changed and could not take back itself: after SIGKILL, or where it was to stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore undo --list            what is in force, and whose it is
  manycore undo                   take back all that nobody looks after any more
  manycore undo pin-812           only this

Processes that have ended are passed over, also where another has their id; what somebody else has changed since is
left alone and told.")]
pub struct Undo {
    /// Names from --list [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only show
    #[arg(long)]
    pub list: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Threads that look where they run; for trying placements.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore run --place spread --workers 20 -- manycore probe --threads 20")]
pub struct Probe {
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub threads: u32,
    /// Looks of each thread, once it is bound or has waited for that in vain
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub looks: u32,
    /// Work between two looks, in microseconds
    #[arg(long, value_name = "US", default_value_t = 10)]
    pub work: u32,
    /// Sleep for that time instead
    #[arg(long)]
    pub sleep: bool,
}
