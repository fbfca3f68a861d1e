//! The subcommands that show the machine or a record, and the subcommands for shells and packagers.

use super::{Format, Source};
use crate::schemas::KINDS;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use std::path::PathBuf;

/// Show, draw and save the machine: CPUs, caches, NUMA nodes, devices, and what this process may use
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore topo                          this machine as a tree
  manycore topo --svg machine.svg        a drawing of it
  manycore topo --save build7.machine    one text file, for --root and --machine elsewhere
  manycore topo --root build7.machine    the saved machine as a tree
  manycore topo --format json | jq '.caches[] | select(.level == 3)'")]
pub struct Topo {
    #[command(flatten)]
    pub source: Source,
    /// How to print the machine
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Also draw the machine as nested boxes, into an SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also save all files that were read, as one text file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Render records without measuring anything; several are shown side by side
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore report manycore-eval/record.json                        the report as text
  manycore report before.json after.json                           two records side by side
  manycore report record.json --html report.html --csv tables      an HTML page, and tables
  manycore report record.json --format json | jq .findings         the findings as JSON")]
pub struct Report {
    /// Records (record.json) of measurements
    #[arg(required = true, value_name = "RECORD")]
    pub records: Vec<PathBuf>,
    /// How to print the evaluation
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Also write one HTML page that needs no other files
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the tables as CSV files into DIR
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
}

/// Print the JSON Schema of a kind of JSON, or list the kinds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore schema                                  the kinds of JSON and what writes them
  manycore schema record > record.schema.json      the schema of records, for a validator
  manycore schema plan | jq .properties            the fields of a plan, with their meaning and unit")]
pub struct Schema {
    /// Kind of JSON, as in the field "schema" of a file: record for manycore/record/1
    #[arg(value_name = "KIND", value_parser = schema_kinds())]
    pub kind: Option<String>,
}

fn schema_kinds() -> PossibleValuesParser {
    KINDS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.about)).into()
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore completions bash > /etc/bash_completion.d/manycore
  manycore completions zsh > \"${fpath[1]}/_manycore\"
  manycore completions fish > ~/.config/fish/completions/manycore.fish")]
pub struct Completions {
    /// Shell to print the script for
    pub shell: clap_complete::Shell,
}

/// Write the man pages
#[derive(Debug, Args)]
pub struct Man {
    /// Folder to write them into
    pub out: PathBuf,
}

/// The command line of a worker process, which the tool starts itself.
#[derive(Debug, Args)]
pub struct Worker {
    pub load: String,
    pub slot: usize,
    pub object: Option<String>,
}
