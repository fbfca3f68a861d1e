//! The subcommand `fleet`.

use super::{
    EvalBudget, ExtentArgs, ResultsBase,
    measure::section_names,
    value::{duration, share},
};
use clap::{Args, ValueEnum};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Measure and compare many hosts
///
/// Runs manycore on all nodes of a Slurm cluster, or on a list of hosts by ssh, and compares what they sent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet eval --partition batch            each node of a partition of Slurm
  manycore fleet eval --hosts hosts.txt --out f    each host of a file, by ssh
  manycore fleet report f                          which of them are slow
  manycore fleet topo --nodes 'n[1-64]'            how their hardware differs
  manycore fleet run --hosts hosts.txt -- doctor   any other subcommand, such as doctor")]
pub struct Fleet {
    #[command(subcommand)]
    pub subcommand: FleetSubcommand,
}

/// What to do with a fleet.
#[derive(Debug, clap::Subcommand)]
pub enum FleetSubcommand {
    Eval(FleetEval),
    Report(FleetReport),
    Check(FleetCheck),
    Topo(FleetTopo),
    Audit(FleetAudit),
    Run(FleetRunArgs),
}

/// The hosts, and how they are reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Hosts")]
pub struct FleetHosts {
    /// Nodes of Slurm, in its syntax, such as n[1-64,70]
    #[arg(long, value_name = "LIST", conflicts_with = "hosts")]
    pub nodes: Option<String>,
    /// Partition of Slurm: all its nodes, or those of --nodes
    #[arg(long, value_name = "NAME", conflicts_with = "hosts")]
    pub partition: Option<String>,
    /// File with a host of ssh on each line, such as user@host; - is standard input
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Program that connects to the hosts of --hosts, with its options, such as 'ssh -F FILE'
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub ssh: String,
    /// Number of hosts that are measured at the same time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub parallel: u16,
    /// How long a host may work
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    pub time: Duration,
    /// How long Slurm may take until it grants a node; later ones are listed as late
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub wait: Duration,
    /// Program to copy to the hosts, if this one does not run there
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Print only the result, and why hosts failed
    #[arg(long, short)]
    pub quiet: bool,
}

/// Measure many hosts, and compare them
///
/// Runs sections of `eval` on each host, and reports which of them are slow.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet eval --partition batch                all nodes that are up, each in a job of its own
  manycore fleet eval --nodes 'n[1-64]' --standard     narrower intervals, in 70 s a node
  manycore fleet eval --hosts hosts.txt --only stream  memory bandwidth only, by ssh
  manycore fleet eval --partition batch --out f        the same command continues an interrupted run

manycore is copied to a private directory of each host for the time of the measurement; nothing else is needed there, \
and nothing stays. Jobs of Slurm have a whole node each. If a node fails, another job measures it when it is back. Nodes \
that are down, late or fail are listed and do not hold up the others.")]
pub struct FleetEval {
    #[command(flatten)]
    pub hosts: FleetHosts,
    /// Measure only these sections
    #[arg(long, alias = "section", value_name = "SECTION", value_delimiter = ',', value_parser = section_names(),
        default_value = "matrix,stream,latency")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub budget: EvalBudget,
    /// Measure nodes that are slow or inconclusive again, and report the second measurement
    #[arg(long)]
    pub confirm: bool,
    #[command(flatten)]
    pub judging: FleetJudging,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Directory for what the hosts send [default: a new one, fleet-TIME, in that of --results]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub base: ResultsBase,
}

/// Compare the hardware of many hosts
///
/// Shows what all hosts have in common, and which of them differ in what.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet topo --partition batch
  manycore fleet topo --hosts hosts.txt --quiet")]
pub struct FleetTopo {
    #[command(flatten)]
    pub hosts: FleetHosts,
}

/// Audit the placement on many hosts
///
/// Runs `audit` on each host, and shows each finding once with the hosts that have it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet audit --partition batch
  manycore fleet audit --hosts hosts.txt --verbose")]
pub struct FleetAudit {
    #[command(flatten)]
    pub hosts: FleetHosts,
    #[command(flatten)]
    pub extent: ExtentArgs,
}

/// Run any subcommand on many hosts
///
/// Runs manycore with these arguments on each host. Equal outputs are printed once, the most frequent one first. An output
/// that is similar to it is shown by the lines that differ; --out keeps each as a whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet run --partition batch -- doctor
  manycore fleet run --hosts hosts.txt -- compare 'sleep 1' 'sleep 1' --quiet
  manycore fleet run --nodes 'n[1-4]' --out out -- topo --format json     one file for each host")]
pub struct FleetRunArgs {
    #[command(flatten)]
    pub hosts: FleetHosts,
    /// Directory for the output of each host; without it, the output is only printed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The arguments of manycore there
    #[arg(last = true, required = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Show which nodes are slow
///
/// Compares the records of nodes of the same kind, and shows which are slow, which are noisy, and what differs on them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet report f                            what the records show
  manycore fleet report f --html                     also as a page, f/fleet.html, with a link to that of each node
  manycore fleet report runs/06 --history runs/*     since when, from at least six dated runs
  srun -x \"$(manycore fleet report f --format nodelist)\" ...   on the others
  manycore fleet report f --drain | sh               drain the slow nodes in Slurm
  manycore fleet report f --format prometheus >f.new   then move it to where node_exporter reads

DIR is what 'fleet eval' wrote. Records of other origin are read from DIR/nodes/NAME/record.json.

The exit code is 1 if a node is slow.")]
pub struct FleetReport {
    /// The directory of a run
    #[arg(value_name = "DIR", required_unless_present = "history")]
    pub folder: Option<PathBuf>,
    #[command(flatten)]
    pub judging: FleetJudging,
    /// Directories of earlier runs over the same nodes, to show what changed and when
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub history: Vec<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = FleetFormat::Text, conflicts_with = "drain")]
    pub format: FleetFormat,
    /// Print only the commands that drain the slow nodes in Slurm; nothing is run
    #[arg(long)]
    pub drain: bool,
    /// Also write one HTML page [default file: DIR/fleet.html]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "the option, and its value")]
    pub html: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Print no progress and no notes on standard error; the result is still printed
    #[arg(long, short)]
    pub quiet: bool,
}

impl FleetReport {
    /// Returns the directory of the run, and those of earlier ones; `None` without the first one. --history takes all words after
    /// it, also the directory where it is the last word.
    pub fn folders(&self) -> Option<(&Path, &[PathBuf])> {
        match (&self.folder, self.history.split_last()) {
            (Some(folder), _) => Some((folder, &self.history)),
            (None, Some((folder, earlier))) if !earlier.is_empty() => Some((folder, earlier)),
            (None, _) => None,
        }
    }
}

/// How nodes are judged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Judging")]
pub struct FleetJudging {
    /// A slow node is slower than the median of its kind by at least this share
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub slow: f64,
    /// False discovery rate: the expected share of wrong results among those that are called slow
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub false_discoveries: f64,
    /// Properties that nodes of one kind have in common, separated by commas
    #[arg(
        long,
        value_name = "PROPERTIES",
        value_delimiter = ',',
        default_value = "CPU model,CPUs,memory,kernel,microcode"
    )]
    pub kinds_by: Vec<String>,
    /// An earlier result (--format json), for kinds with too few nodes
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
}

/// How a fleet is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// Text for reading.
    Text,
    /// JSON for other programs, and as a baseline.
    Json,
    /// One row for each node and figure.
    Csv,
    /// Text with tables, for a page or a ticket.
    Markdown,
    /// The slow nodes, for `srun -x`.
    Nodelist,
    /// A text file for the node exporter of Prometheus.
    Prometheus,
}

/// Check this node against a fleet
///
/// Measures this node for about 20 s and compares it with an earlier result over its fleet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore fleet report f --format json >baseline.json     once, over the fleet
  manycore fleet check baseline.json                       on a node

The exit code is 1 if this node is slow. It is 0 if it is not, and also if it was not judged: other processes were busy, the \
figures scatter too much, or the baseline has no such node. It is 4 if the measurement failed or did not end. For a HealthCheckProgram of Slurm, see \
/usr/share/manycore/slurm/manycore-health-check.")]
pub struct FleetCheck {
    /// The result over the fleet
    #[arg(value_name = "FILE")]
    pub baseline: PathBuf,
    /// Measure only these sections
    #[arg(long, alias = "section", value_name = "SECTION", value_delimiter = ',', value_parser = section_names(),
        default_value = "matrix,stream,latency")]
    pub only: Vec<String>,
    /// Time to spend
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub budget: Duration,
    /// A slow node is slower than the median of its kind by at least this share
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub slow: f64,
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, FleetSubcommand, Subcommand};
    use clap::Parser;
    use manycore_fleet::DEFAULT_KEYS;

    #[test]
    fn the_default_kinds_are_those_of_an_evaluation() {
        let cli = Cli::try_parse_from(["manycore", "fleet", "report", "f"]).unwrap();
        let Subcommand::Fleet(fleet) = cli.subcommand else { panic!("{cli:?}") };
        let FleetSubcommand::Report(report) = fleet.subcommand else { panic!("{fleet:?}") };
        assert_eq!(report.judging.kinds_by, DEFAULT_KEYS);
    }
}
