//! The options for what surrounds the runs of a command: hooks, input, shell, caches, failures.

use super::value::ignored_failures;
use crate::shell::Shell;
use clap::Args;
use manycore_study::life::IgnoredFailures;
use std::path::PathBuf;

/// What surrounds the runs of a command; shared by `compare`, `scale` and `tune`.
#[derive(Clone, Debug, Args)]
pub struct Life {
    /// Run this command once for each variant, before its first run. With compare, this option and the next three may be
    /// given once for all variants, or once for each of them in their order
    #[arg(long, value_name = "COMMAND")]
    pub setup: Vec<String>,
    /// Run this command before each run; its time does not count
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Vec<String>,
    /// Run this command after each run; its time does not count
    #[arg(long, value_name = "COMMAND")]
    pub conclude: Vec<String>,
    /// Run this command once for each variant at the end, also after an error or Ctrl-C
    #[arg(long, value_name = "COMMAND")]
    pub cleanup: Vec<String>,
    /// Give each run this file as its standard input [default: empty]
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Drop the caches of files before each run, so that it reads from the disk. Needs root
    #[arg(long)]
    pub drop_caches: bool,
    /// Run each command, and the commands around the runs, in this shell, as SHELL -c COMMAND. Its start is part of the
    /// measured time, and is reported where it matters
    #[arg(long, value_name = "SHELL", default_value = "none")]
    pub shell: Shell,
    /// Count failed runs, too; with CODES (such as 1,3), only those with these exit codes. Their exit status is recorded;
    /// a variant whose runs all fail has no verdict
    #[arg(
        long,
        value_name = "CODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = ignored_failures
    )]
    pub ignore_failure: Option<IgnoredFailures>,
}
