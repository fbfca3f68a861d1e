//! The subcommands that show the machine or a record, and the subcommands for shells and packagers.

use super::{ExportArgs, ExtentArgs, Format, GateArgs, ResultsBase, Source};
use crate::schemas::KINDS;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use std::{ffi::OsString, path::PathBuf};

/// Show CPUs, caches, NUMA nodes and devices
///
/// Shows, draws and saves the machine, and shows what this process may use.
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

/// Show results again, or side by side
///
/// Shows the last result below a short list, or the results that are named, without measuring anything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore report                                      list the last five results, and show the last one
  manycore report --list                               the last results, with their answers
  manycore report 2                                    the second one of the list
  manycore report latest --html                        also write the page report.html
  manycore report day.top --html                       time lines of a recording of `top`
  manycore report before after                         two directories of results side by side
  manycore report host7/record.json --html report.html --csv tables     an HTML page, and tables
  manycore report before after --fail-if 'slower > 3%'     exit with 1 if a slow-down is proven
  manycore report latest --export hyperfine=runs.json      for scripts of hyperfine
  manycore report --format json | jq .findings         the findings of the last result as JSON")]
pub struct Report {
    /// Results: directories, records (record.json), numbers of the list, or latest; several are shown side by side. Or a
    /// recording of `top`
    #[arg(value_name = "RESULT")]
    pub records: Vec<PathBuf>,
    /// Only list the last results, with their answers
    #[arg(long, conflicts_with_all = ["html", "csv"])]
    pub list: bool,
    /// How to print the evaluation
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub extent: ExtentArgs,
    /// Also write one HTML page that needs no other files [default file: report.html]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "report.html")]
    pub html: Option<PathBuf>,
    /// Also write the tables as CSV files into DIR
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub exports: ExportArgs,
    #[command(flatten)]
    pub base: ResultsBase,
}

/// Show what manycore can do on this machine
///
/// Examines rights, kernel, hardware and installed programs, says what each missing thing costs, and what brings it. Changes nothing
/// and takes about a second. Missing things are no failure: the exit code is 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore doctor                  what is available to this user
  sudo manycore doctor             what is available to root
  manycore doctor --format json    the checks as JSON")]
pub struct Doctor {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub extent: ExtentArgs,
}

/// Print the JSON Schema of a kind of JSON
///
/// Without a kind, lists the kinds.
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

/// Print the completion script of a shell
///
/// The script asks this program what can follow: options, placements, loads, devices, domains, groups and other names
/// of this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore completions bash > ~/.local/share/bash-completion/completions/manycore
  manycore completions zsh > \"${fpath[1]}/_manycore\"
  manycore completions fish > ~/.config/fish/completions/manycore.fish

To try it in the present shell of bash or zsh: source <(manycore completions bash). For elvish and powershell, the \
script has subcommands and options only.")]
pub struct Completions {
    /// Shell to print the script for
    pub shell: clap_complete::Shell,
}

/// What can follow on a command line; the scripts of `completions` run this.
#[derive(Debug, Args)]
pub struct Complete {
    /// The line up to the cursor, for shells that do not split it as this program needs it
    #[arg(long)]
    pub line: Option<OsString>,
    /// The part of the line that the shell replaces
    #[arg(long, requires = "line", allow_hyphen_values = true)]
    pub word: Option<OsString>,
    /// The words up to the cursor
    #[arg(last = true)]
    pub words: Vec<OsString>,
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
