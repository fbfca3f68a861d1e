//! The subcommands that measure: `eval`, `scale`, `tune`, and the options that they share with `compare`.

use super::{
    ExportArgs, ExtentArgs, Format, Life,
    value::{duration, share},
};
use clap::{Args, builder::PossibleValuesParser};
use manycore_control::setting::KNOWN;
use manycore_experiment::metric::{MetricReader, READERS};
use manycore_placement::{MemoryPlacement, Policy};
use manycore_study::{scheduler::SchedulerChoice, sharing::SharingLevel};
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Evaluate this machine, with advice
///
/// Measures noise, scaling, threads and processes, arithmetic, pinning, core-to-core latency, memory and contention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore eval                              about 90 s on 2 CPUs; results go below manycore-results/
  manycore eval --standard --out /tmp/host7  takes five minutes; narrower intervals
  manycore eval --only scaling,affinity      only these sections
  manycore eval --only latency               core-to-core latency of every pair of CPUs
  manycore eval --quiet --format json        for other programs; only errors on standard error
  manycore report /tmp/host7                 prints the same report again

Needs no root privileges. Ctrl-C saves the results so far.")]
pub struct Eval {
    #[command(flatten)]
    pub budget: EvalBudget,
    /// Measure only these sections
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = section_names())]
    pub only: Vec<String>,
    /// Margin of equivalence: a difference within this share does not matter. Fixed before anything is
    /// measured
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub equivalent: f64,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// Where the results go, and how they are printed.
#[derive(Clone, Debug, Args)]
pub struct Results {
    /// Directory for record.json, report.html and the tables [default: a new one, SUBCOMMAND-TIME, in that of
    /// --results]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub base: ResultsBase,
    /// Overwrite an earlier record in the directory of --out
    #[arg(long)]
    pub force: bool,
    /// How to print the evaluation
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Print no progress and no notes on standard error; the result is still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Show the view of `top` while it works, which takes some CPU time; the result is printed after it
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,
}

/// The directory of all results.
#[derive(Clone, Debug, Args)]
pub struct ResultsBase {
    /// Directory of all results; each run without --out creates its own in it
    #[arg(long, value_name = "DIR", default_value = "manycore-results")]
    pub results: PathBuf,
}

/// How long measuring may take: one of these.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct EvalBudget {
    /// Take about 90 s on 2 CPUs with eval, 25 s with fleet eval, 15 s with bench (the default)
    #[arg(long)]
    pub quick: bool,
    /// Take five minutes with eval, 70 s with fleet eval, one minute with bench
    #[arg(long)]
    pub standard: bool,
    /// Use the published parameters with eval (30 s for each number of workers, 50 inversions of 1000 x 1000
    /// matrices); take four minutes with bench
    #[arg(long)]
    pub full: bool,
    /// Time to spend. Less than the default gives wider intervals; the least numbers of runs are made in any case
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
}

impl EvalBudget {
    /// Returns the time to spend, where one is in force: the user's default of `--budget` gives way to the other options.
    pub fn duration(&self) -> Option<Duration> {
        self.budget.filter(|_| !(self.quick || self.standard || self.full))
    }
}

pub(super) fn section_names() -> PossibleValuesParser {
    manycore_evaluate::SECTIONS.map(|section| section.name).into()
}

fn setting_names() -> PossibleValuesParser {
    KNOWN.iter().map(|known| clap::builder::PossibleValue::new(known.name).help(known.about)).into()
}

/// How commands are measured; shared by `compare`, `scale` and `tune`.
#[derive(Clone, Debug, Args)]
pub struct Measuring {
    /// Time for the whole run, with warm-up. One that is too small for the six pairs that an interval needs is refused;
    /// without this option, they are measured however long they take. The run ends earlier if an interim analysis gives
    /// the result [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Whether the budget is a user's default, which gives way to a result.
    #[arg(skip)]
    pub is_default_budget: bool,
    /// With compare: measure until half the width of the 95 % interval is at most this share (such as 1%), or
    /// the budget is spent
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Margin of equivalence: a difference within this share does not matter. Fixed before anything is
    /// measured
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub equivalent: f64,
    /// Measure this many pairs or rounds, however long they take; with tune, this many in each round of the
    /// search and in the confirmation
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: Option<u32>,
    /// Warm-up runs of each variant; one more run is then timed to plan the measurement. None of them counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: u32,
    /// Read a figure from the output: NAME=REGEX (its first group), NAME=json:PATH, or a built-in reader. May
    /// be repeated; the first one is the primary metric [default: wall, cpu, memory]
    #[arg(long, value_name = "METRIC", long_help = metric_help())]
    pub metric: Vec<MetricReader>,
    /// Metric that decides the comparison
    #[arg(long, value_name = "NAME")]
    pub primary: Option<String>,
    /// Measure what running tasks share: the time in which all were apart although they could have shared a unit of
    /// this level (core, cluster, llc) while another was idle, as metrics such as `cluster_apart` [default level: that at
    /// which tasks have a choice]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub sharing: Option<SharingLevel>,
    /// Start this service, place it instead of the command, and stop it afterwards. The command generates its load
    #[arg(long, value_name = "COMMAND", group = "any_service")]
    pub service: Option<String>,
    /// Place these running processes and their descendants instead of the command, which generates their load. They get
    /// their CPUs back afterwards
    #[arg(long, value_name = "PID,PID,...", value_delimiter = ',', group = "any_service")]
    pub service_pid: Vec<u32>,
    /// The service is ready when this command succeeds
    #[arg(long, value_name = "COMMAND", requires = "service", conflicts_with = "ready_port")]
    pub ready: Option<String>,
    /// The service is ready when it listens on this port
    #[arg(long, value_name = "PORT", requires = "service", value_parser = clap::value_parser!(u16).range(1..))]
    pub ready_port: Option<u16>,
    /// CPUs for the load on a service [default: those that no placement of the service uses]
    #[arg(long, value_name = "LIST", requires = "any_service")]
    pub load_cpus: Option<CpuSet>,
    /// Time limit for one run of the command, and for the start of the service
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub life: Life,
    /// Seed of all random orders [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// The command to measure.
#[derive(Clone, Debug, Args)]
pub struct Command {
    /// The command and its arguments; started directly, without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn metric_help() -> String {
    format!(
        "A figure in the command's output. May be repeated; the first one is the primary metric, unless --primary \
         names another. Wall time, CPU time and memory are always measured.\n\n  \
         NAME=REGEX        the first group of REGEX, which must match once\n  \
         NAME=json:PATH    a number in JSON output, such as json:results.0.median\n  \
         NAME:lower=...    lower is better (the default is higher)\n  \
         NAME[ms]=...      the figure's unit\n  \
         NAME=stderr:...   an expression or json:PATH for standard error\n  \
         NAME=file:PATH:...  the same for a file that each run writes\n  \
         READER=stderr:    a reader for standard error; READER=file:PATH: for a file\n  \
         READER            every figure that a known program prints: {}",
        READERS.join(", ")
    )
}

/// How does a command scale with workers?
///
/// Measures how a command scales with its number of workers, or with the number of copies that run at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore scale --workers 1,2,4,8 -- make -C project -B -j{workers}
  manycore scale --metric sysbench -- sysbench cpu --threads={workers} --time=1 run
  manycore scale --copies --workers 4,16,32,64 --place spread@llc -- ./benchmark   copies, as in SPECrate
  manycore scale --budget 5m --workers 1,2,4,8,16,32 -- ./solver --threads {workers}

Numbers of workers alternate in random order, so that other work disturbs all of them alike.")]
pub struct Scale {
    /// Numbers of workers, put in place of {workers} [default: 1, 2, 4, ... all CPUs]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Vec<u32>,
    /// Run that many copies of the command at once, instead of one command with that many workers
    #[arg(long)]
    pub copies: bool,
    /// Placement of the workers
    #[arg(long, value_name = "PLACE", default_value = "free")]
    pub place: Policy,
    /// Memory policy
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub memory: MemoryPlacement,
    #[command(flatten)]
    pub exports: ExportArgs,
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub command: Command,
}

/// Find the best workers and placement
///
/// Searches for the number of workers, placement, SMT use and memory policy that serve a command best, and confirms the
/// result.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore tune -- sysbench memory --threads={workers} run
  manycore tune --budget 10m --workers 8,16,32,64 -- ./solver --threads {workers}
  manycore tune --place close spread@llc spread@node -- ./server-benchmark
  manycore tune --schedulers -- hackbench -g 4 -l 1000    also under the cluster-aware scheduler (as root)
  manycore tune --service 'redis-server --port 7777 --save \"\"' --ready-port 7777 --metric redis-benchmark \\
      --workers 1 --load-cpus 3 -- redis-benchmark -p 7777 -q -t get -n 100000

All candidates run in interleaved rounds, and the worse half is dropped after each round. The best ones are then \
compared on fresh pairs with the command as it runs today: all CPUs, no placement. \"Keep today's behaviour\" is a \
possible result.")]
pub struct Tune {
    /// Numbers of workers to try [default: powers of two, all cores, all CPUs, twice as many]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Vec<u32>,
    /// Placements to try [default: free, close, spread, and spread over each level; with and without SMT]
    #[arg(long, value_name = "PLACE", num_args = 1..)]
    pub place: Vec<Policy>,
    /// Memory policies to try [default: default, local, interleave and bind, on machines with several nodes]
    #[arg(long, value_name = "MEMORY", num_args = 1..)]
    pub memory: Vec<MemoryPlacement>,
    /// Settings of the machine to try, with all of their values
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',', value_parser = setting_names())]
    pub settings: Vec<String>,
    /// Schedulers to try beside the kernel's own one (as root) [without a value: cluster:spread, cluster:pack]
    ///
    /// A program that loads a sched_ext scheduler is quoted with its options.
    #[arg(long, value_name = "SCHEDULER", num_args = 0..)]
    pub schedulers: Option<Vec<SchedulerChoice>>,
    /// Number of workers that the command uses today [default: the number of usable CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub today: Option<u32>,
    #[command(flatten)]
    pub exports: ExportArgs,
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub command: Command,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_budget_gives_way_to_a_named_one() {
        let budget = Some(Duration::from_secs(5));
        let of = |quick| EvalBudget { quick, standard: false, full: false, budget }.duration();
        assert_eq!((of(false), of(true)), (budget, None));
    }
}
