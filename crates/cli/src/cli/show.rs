//! The verbs that show the machine and records, and those for shells and packagers.

use super::{Format, Source};
use clap::Args;
use std::path::PathBuf;

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
    pub object: Option<String>,
}
