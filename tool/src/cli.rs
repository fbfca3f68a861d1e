//! The command line, from which help, completions and man pages are made.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Measures, places, isolates and proves on many-core Linux machines.
#[derive(Debug, Parser)]
#[command(name = "manycore", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the check that was asked for does not hold; 2 the command line or an input file is
wrong; 3 a needed right, file system or program is missing; 4 the measured command failed; 130 interrupted,
and what was measured is saved.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Topo(Topo),
    Report(Report),
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
