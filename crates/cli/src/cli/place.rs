//! Arguments of the subcommands that place commands and processes and undo placements: `run`, `pin`, `undo` and
//! `probe`.

use super::{
    Format,
    value::{percentage, process_id},
};
use clap::{Args, ValueEnum};
use manycore_placement::{MemoryPlacement, Policy, Reserve};
use std::path::PathBuf;

/// Arguments that `run` and `pin` have in common.
#[derive(Clone, Debug, Args)]
pub struct PlacementArgs {
    /// Placement: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE or
    /// near=nodeN; append +nosmt to use one CPU per core, +isolated to use isolated CPUs as well
    #[arg(long, value_name = "PLACE", default_value = "close", conflicts_with = "plan")]
    pub place: Policy,
    /// Number of workers to place [default: one per CPU of the placement]
    #[arg(long, value_name = "N", conflicts_with = "plan", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Option<u32>,
    /// CPUs to leave to interrupts and the system: a number, or cpus=LIST
    #[arg(long, value_name = "RESERVE", conflicts_with = "plan")]
    pub reserve: Option<Reserve>,
    /// Use the plan in this file, written by `plan --format json` or `tune`, instead of a placement
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Fail if workers would have to share a CPU
    #[arg(long)]
    pub exclusive: bool,
    /// Memory policy: default, local, interleave, bind, interleave=LIST, bind=LIST
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub memory: MemoryPlacement,
    /// How tasks are held in place: by a cpuset where one is available (from Linux 6.2 on) and by affinities, or by
    /// affinities alone
    #[arg(long, value_enum, default_value_t = Enforcement::Auto)]
    pub hold: Enforcement,
    /// Also write where each task ran to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Exit with code 1 if the plan did not hold, or if less than this share of the CPU time was observed
    /// in place [default share: 90%]
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "90%", value_parser = percentage)]
    pub check: Option<f64>,
    /// Print only errors on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// How tasks are held on their CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Enforcement {
    /// By a cpuset where one is available, and by affinities.
    Auto,
    /// By affinities alone.
    Affinity,
}

/// Run a command on planned CPUs
///
/// Runs a command with its threads on planned CPUs, and shows where they ran.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore run -- ./solver --threads 8                        one CPU per thread, close together
  manycore run --place spread@llc --workers 8 -- make -j8     one last-level cache per worker
  manycore run --place near=eth0 --workers 4 --reserve cpus=0 -- ./server
  manycore run --plan plan.json -- ./solver                   use a plan written by `manycore tune`
  manycore run --place free -- ./solver                       only record where its threads run
  manycore run --place spread --workers 20 -- manycore probe --threads 20   check each thread's CPU 10,000 times

The command keeps its standard input and output, its terminal and its exit status (128 + N after signal N). {workers} \
in the command is replaced by the number of workers. The report goes to standard error. All processes and threads that \
the command creates are pinned when they appear. When the command ends, processes that it leaves running, daemons \
included, get their former CPUs back; with --wait, manycore stays until they have ended. If manycore is killed by \
SIGKILL, the command keeps running, and `manycore undo` restores the CPUs.")]
pub struct RunArgs {
    #[command(flatten)]
    pub placing: PlacementArgs,
    /// Wait until all processes that the command has started have ended
    #[arg(long)]
    pub wait: bool,
    /// Show the view of `top` meanwhile; what the command prints is shown after it
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub command: super::Command,
}

/// Move running processes to planned CPUs
///
/// Moves processes, their children and all their threads, until they end or Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore pin --pid 812 --place spread@cluster       until it ends or Ctrl-C, then its CPUs are restored
  manycore pin --pid $(pidof nginx | tr ' ' ,) --place near=eth0 --workers 4
  manycore pin --pid 812 --place cpus=4-7 --once      move existing tasks and exit; `manycore undo` restores

Threads and children created later are pinned when they appear. With --once they only inherit their affinity.")]
pub struct PinArgs {
    /// Ids of the processes; their descendants are moved as well
    #[arg(long, required = true, value_name = "PID", value_delimiter = ',', value_parser = process_id)]
    pub pid: Vec<u32>,
    /// Move the existing tasks and exit; `undo` restores their CPUs
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub placing: PlacementArgs,
}

/// Undo what manycore has changed
///
/// Undoes changes that are still in force: after SIGKILL, pin --once, irq place or qos set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore undo --list            list the changes in force and the processes that made them
  manycore undo                   undo all changes whose manycore process has ended
  manycore undo pin-812           undo only this change

Processes that have ended are skipped, even if their id is in use again. What another program has changed since is \
left unchanged and reported.")]
pub struct Undo {
    /// Names from --list [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only list the changes
    #[arg(long)]
    pub list: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Start threads that check which CPU they run on, to try out placements.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore run --place spread --workers 20 -- manycore probe --threads 20")]
pub struct ProbeArgs {
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub threads: u32,
    /// Checks per thread, counted once it is pinned or has waited for that in vain
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub checks: u32,
    /// Work between two checks, in microseconds of CPU time
    #[arg(long, value_name = "US", default_value_t = 10)]
    pub work: u32,
    /// Sleep for that time instead of working
    #[arg(long)]
    pub sleep: bool,
}
