//! The verbs that measure: `eval`, `compare`, `scale`, `tune`.

use super::Format;
use clap::Args;
use manycore_experiment::metric::{READERS, Reader};
use manycore_placement::{Memory, Policy};
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// Evaluate this machine: noise floor, scaling, threads or processes, arithmetic, binding, cache lines between CPUs; with advice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore eval                              at most 90 s on 2 CPUs; results go to a new folder here
  manycore eval --standard --out /tmp/host7  five minutes: narrower intervals
  manycore eval --only scaling,affinity      some of the sections
  manycore eval --only latency               how long a cache line takes from each CPU to each other
  manycore eval --quiet --format json        for programs: nothing but errors on standard error
  manycore report /tmp/host7/record.json     the same report again, any time later

All of it works as an ordinary user. Ctrl-C saves what was measured.")]
pub struct Eval {
    #[command(flatten)]
    pub budget: EvalBudget,
    /// Measure only these sections
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = section_names())]
    pub only: Vec<String>,
    /// Differences within this share do not matter: what lies within is equivalent. Fixed before anything is measured
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub equivalent: f64,
    /// Seed of all random orders; from the clock where it is not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// Where the results go.
#[derive(Clone, Debug, Args)]
pub struct Results {
    /// Folder for record.json, report.html and the tables [default: manycore-VERB-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite the record of an earlier run in the folder of --out
    #[arg(long)]
    pub force: bool,
    /// How to print the judgement
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// No progress and no notes on standard error; the result is printed all the same
    #[arg(long, short)]
    pub quiet: bool,
}

/// How long the measuring may take.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct EvalBudget {
    /// The default: eval takes at most 90 s on 2 CPUs, bench 15 s
    #[arg(long)]
    pub quick: bool,
    /// Eval takes five minutes, bench one
    #[arg(long)]
    pub standard: bool,
    /// Bench takes four minutes, eval the published parameters: 30 s for each number of workers, 50 inverses of 1000 x 1000
    #[arg(long)]
    pub full: bool,
}

fn section_names() -> clap::builder::PossibleValuesParser {
    manycore_evaluate::SECTIONS.map(|section| section.name).into()
}

/// How commands are measured: what `compare`, `scale` and `tune` share.
#[derive(Clone, Debug, Args)]
pub struct Measuring {
    /// Time to spend; less is spent where the answer is clear before
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub budget: Duration,
    /// With compare: measure until the 95 % interval is this narrow (half its width, such as 1%), or the budget is spent
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Differences within this share do not matter: what lies within is equivalent. Fixed before anything is measured
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub equivalent: f64,
    /// Measure this many pairs (rounds), however long they take; with tune, in each round of the search and at its end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: Option<u32>,
    /// Runs of each before one that is timed to plan by; none of them counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub warmup: u32,
    /// A figure in the output: NAME=REGEX (its first group), NAME=json:PATH, or a ready-made reader; several
    /// are possible, the first is the primary one [default: wall, cpu, memory]
    #[arg(long, value_name = "METRIC", long_help = metric_help())]
    pub metric: Vec<Reader>,
    /// The metric that decides
    #[arg(long, value_name = "NAME")]
    pub primary: Option<String>,
    /// Start this, place it instead of the command, and end it afterwards; the command is the load on it
    #[arg(long, value_name = "COMMAND")]
    pub service: Option<String>,
    /// The service is up when this command succeeds
    #[arg(long, value_name = "COMMAND", requires = "service", conflicts_with = "ready_port")]
    pub ready: Option<String>,
    /// The service is up when it listens on this port
    #[arg(long, value_name = "PORT", requires = "service", value_parser = clap::value_parser!(u16).range(1..))]
    pub ready_port: Option<u16>,
    /// CPUs of the load on a service [default: those that the service's placements leave]
    #[arg(long, value_name = "LIST", requires = "service")]
    pub load_cpus: Option<CpuSet>,
    /// Longest time of one run of the command, and of the service's start
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub timeout: Duration,
    /// Count runs that end with an error like any other; how they ended is recorded, and a side that always fails has no
    /// verdict
    #[arg(long)]
    pub ignore_failure: bool,
    /// Seed of all random orders; from the clock where it is not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub results: Results,
}

/// The measured command.
#[derive(Clone, Debug, Args)]
pub struct Command {
    /// The command and its arguments; no shell is between
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn metric_help() -> String {
    format!(
        "A figure in the command's output. Several may be given; the first is the primary one, unless --primary says \
         otherwise. Wall time, CPU time and memory are always there.\n\n  \
         NAME=REGEX        the first group of REGEX, which must match once\n  \
         NAME=json:PATH    a number in JSON output, such as json:results.0.median\n  \
         NAME:lower=...    less is better (more is, otherwise)\n  \
         NAME[ms]=...      with its unit\n  \
         READER            all that a known program prints: {}",
        READERS.join(", ")
    )
}

/// `1%`, `0.5 %` or `0.01` as a share.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, scale) =
        text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    let share = number.parse::<f64>().map_err(|_| "expected a share such as 1% or 0.01".to_owned())? / scale;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err("a share lies between 0 and 100 %".to_owned()) }
}

/// `90s`, `5m` or `1h 30m`: more than nothing, and no more than a clock can add up.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_hours(366 * 24);
    match humantime::parse_duration(text).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("nothing can be done in no time".to_owned()),
        time if time > LONGEST => Err("a year is the longest time".to_owned()),
        time => Ok(time),
    }
}

/// `NAME=VALUE`.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Compare two placements, commands or environments in interleaved pairs, and say whether the difference is real.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore compare --vs 'gzip -1 -k -c big.log' -- gzip -9 -k -c big.log      which is faster
  manycore compare --a free --b close -- sysbench cpu --threads={workers} --events=2000 --time=0 run
  manycore compare --b-env OMP_PROC_BIND=true --workers 4 -- ./solver
  manycore compare --service 'redis-server --port 7777 --save \"\"' --ready-port 7777 --metric redis-benchmark \\
      --a cpus=0 --b cpus=2 --load-cpus 1 -- redis-benchmark -p 7777 -q -t get -n 100000
  manycore compare -- ./program                                               A against A: this machine's noise

Placements: free, close, spread, spread@core|cluster|llc|node|package, cpus=LIST, near=DEVICE, each optionally
+nosmt. Runs alternate in random order; an exact test of the pairs decides:
better or worse, equivalent within --equivalent, or inconclusive.")]
pub struct Compare {
    /// Where A runs [default: free]
    #[arg(long, value_name = "PLACE")]
    pub a: Option<Policy>,
    /// Where B runs [default: free]
    #[arg(long, value_name = "PLACE")]
    pub b: Option<Policy>,
    /// B is this command, split as a shell would; A is the one after --
    #[arg(long, value_name = "COMMAND")]
    pub vs: Option<String>,
    /// Environment of A
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub a_env: Vec<(String, String)>,
    /// Environment of B
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub b_env: Vec<(String, String)>,
    /// Memory of A: default, local, interleave, bind, interleave=LIST, bind=LIST
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub a_memory: Memory,
    /// Memory of B
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub b_memory: Memory,
    /// Workers that placements are for, put in the place of {workers} [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub command: Command,
}

/// Measure how a command scales over its number of workers, or over copies of it that run at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore scale --workers 1,2,4,8 -- make -C project -B -j{workers}
  manycore scale --metric sysbench -- sysbench cpu --threads={workers} --time=1 run
  manycore scale --copies --workers 4,16,32,64 --place spread@llc -- ./benchmark        rate, as SPEC CPU measures it
  manycore scale --budget 5m --workers 1,2,4,8,16,32 -- ./solver --threads {workers}

Numbers of workers alternate in random order, so that a busy neighbour disturbs all alike.")]
pub struct Scale {
    /// Numbers of workers, put in the place of {workers} [default: 1, 2, 4, ... all CPUs]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Vec<u32>,
    /// That many copies of the command run at once, instead of one command with that many workers
    #[arg(long)]
    pub copies: bool,
    /// Where they run
    #[arg(long, value_name = "PLACE", default_value = "free")]
    pub place: Policy,
    /// Where their memory comes from
    #[arg(long, value_name = "MEMORY", default_value = "default")]
    pub memory: Memory,
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub command: Command,
}

/// Search workers, placement, SMT and memory for what serves a command best, and prove it on fresh pairs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore tune -- sysbench memory --threads={workers} run
  manycore tune --budget 10m --workers 8,16,32,64 -- ./solver --threads {workers}
  manycore tune --place close spread@llc spread@node -- ./server-benchmark
  manycore tune --service 'redis-server --port 7777 --save \"\"' --ready-port 7777 --metric redis-benchmark \\
      --workers 1 --load-cpus 3 -- redis-benchmark -p 7777 -q -t get -n 100000

Candidates run in turns and the worse half is dropped after each round. The best are then measured anew against
today's behaviour: all CPUs, no placement. \"Leave it as it is\" is an answer.")]
pub struct Tune {
    /// Numbers of workers to try [default: powers of two, all cores, all CPUs, twice as many]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Vec<u32>,
    /// Placements to try [default: free, close, spread and spread over each level; with and without SMT]
    #[arg(long, value_name = "PLACE", num_args = 1..)]
    pub place: Vec<Policy>,
    /// Memory policies to try [default: default, local, interleave and bind, where there are several nodes]
    #[arg(long, value_name = "MEMORY", num_args = 1..)]
    pub memory: Vec<Memory>,
    /// Workers that the command has today [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub today: Option<u32>,
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub command: Command,
}
