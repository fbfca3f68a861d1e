//! Options for what is done with a result: comparison with stored ones, gates, and exports.

use clap::{Args, ValueEnum};
use manycore_analysis::gate::Gate;
use manycore_report::ExportFormat;
use std::path::PathBuf;

/// What a pipeline checks.
#[derive(Clone, Debug, Args)]
pub struct GateArgs {
    /// Exit with 1 if this is proven: 'slower > 3%' for the primary metric, 'p99 > 10%' for one of which less is better,
    /// 'requests < -5%' for one of which more is better. May be repeated
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<Gate>,
    /// What a gate counts as whose interval contains the limit
    #[arg(long, value_enum, value_name = "RESULT", default_value_t = InconclusiveChoice::Pass)]
    pub inconclusive: InconclusiveChoice,
}

/// What an inconclusive gate counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InconclusiveChoice {
    /// As passed: exit code 1 only where a slow-down is proven.
    Pass,
    /// As failed: exit code 0 only where the limit is proven to hold.
    Fail,
}

/// Files in the formats of other programs.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Also write the result for other programs: json, csv (every sample), markdown, benchstat, hyperfine (its JSON) or
    /// junit. May be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = export)]
    pub export: Vec<(ExportFormat, PathBuf)>,
}

fn export(text: &str) -> Result<(ExportFormat, PathBuf), String> {
    match text.split_once('=') {
        Some((format, file)) if !file.is_empty() => Ok((format.parse()?, file.into())),
        _ => Err("expected FORMAT=FILE, such as junit=compare.xml".to_owned()),
    }
}
