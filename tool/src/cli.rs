//! The command line, from which help, completions and man pages are made.
#![allow(missing_docs, reason = "a comment on a flattened part or a verb would replace the one on its type")]

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Shows a many-core Linux machine, and measures how it and work on it scale over its cores.
#[derive(Debug, Parser)]
#[command(name = "manycore", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  the check that was asked for does not hold
    2  the command line or an input file is wrong
    3  a needed right, file system or program is missing, or an output cannot be written
    4  a measured command or worker failed
  130  interrupted; what was measured is saved";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Topo(Topo),
    Eval(Eval),
    Report(Report),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    #[command(hide = true)]
    Worker(Worker),
}

/// Evaluate this machine: noise floor, scaling, threads or processes, arithmetic, binding; with advice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore eval                              at most 90 s on 2 CPUs; results go to a new folder here
  manycore eval --standard --out /tmp/host7  five minutes: narrower intervals
  manycore eval --only scaling,affinity      some of the sections
  manycore eval --quiet --format json        for programs: nothing but errors on standard error
  manycore report /tmp/host7/record.json     the same report again, any time later

All of it works as an ordinary user. Ctrl-C saves what was measured.")]
pub struct Eval {
    #[command(flatten)]
    pub budget: EvalBudget,
    /// Folder for record.json, report.html and the tables [default: manycore-eval-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the judgement
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Measure only these sections
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = section_names())]
    pub only: Vec<String>,
    /// Seed of all random orders; from the clock where it is not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// No progress and no notes on standard error; the result is printed all the same
    #[arg(long, short)]
    pub quiet: bool,
}

/// How long the evaluation may take.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct EvalBudget {
    /// At most 90 s on 2 CPUs (the default)
    #[arg(long)]
    pub quick: bool,
    /// Five minutes
    #[arg(long)]
    pub standard: bool,
    /// The published parameters: 30 s for each number of workers, 50 inverses of 1000 x 1000
    #[arg(long)]
    pub full: bool,
}

fn section_names() -> clap::builder::PossibleValuesParser {
    crate::suite::SECTIONS.map(|section| section.name).into()
}

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore completions bash > /etc/bash_completion.d/manycore
  manycore completions zsh > \"${fpath[1]}/_manycore\"
  manycore completions fish > ~/.config/fish/completions/manycore.fish")]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Write the man pages.
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for them
    pub out: PathBuf,
}

/// A worker process; started by the tool itself.
#[derive(Debug, Args)]
pub struct Worker {
    pub load: String,
    pub slot: usize,
}

/// Which machine is meant.
#[derive(Debug, Args)]
pub struct Source {
    /// Read the machine from the sysfs and procfs trees below DIR, or from a file that --save wrote
    #[arg(long, value_name = "DIR", default_value = "/", conflicts_with = "machine")]
    pub root: PathBuf,
    /// Read the machine from FILE, as `topo --save` or `topo --format json` wrote it
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Show, draw and save the machine: CPUs, caches, NUMA nodes, devices, and what this process may use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore topo                          the tree of this machine
  manycore topo --svg machine.svg        a picture of it
  manycore topo --save build7.machine    one text file that --root and --machine take on another machine
  manycore topo --root build7.machine    the tree of that machine
  manycore topo --format json | jq '.caches[] | select(.level == 3)'")]
pub struct Topo {
    #[command(flatten)]
    pub source: Source,
    /// How to print the machine
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Also draw the machine as nested boxes
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also save everything that was read, as one text file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Render records, also several side by side, without measuring anything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore report manycore-eval/record.json                        what it says, as text
  manycore report before.json after.json                           two runs side by side
  manycore report record.json --html report.html --csv tables      a page, and tables for other programs
  manycore report record.json --format json | jq .findings         the judgement, for programs")]
pub struct Report {
    /// Records that a measuring verb wrote
    #[arg(required = true, value_name = "RECORD")]
    pub records: Vec<PathBuf>,
    /// How to print the judgement
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Also write one HTML page without outside resources
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write tables as CSV files into DIR
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
}
