//! `manycore-guard`: the subcommand `manycore guard` as a program of its own, with nothing else in it.
#![forbid(unsafe_code)]

use clap::Parser;
use manycore_guard_daemon::Guard;
use std::process::ExitCode;

/// Protect a machine, a control group or some processes from running out of memory
#[derive(Debug, Parser)]
#[command(name = "manycore-guard", version, max_term_width = 120)]
struct Program {
    #[command(flatten)]
    guard: Guard,
}

fn main() -> ExitCode {
    match manycore_guard_daemon::run(&Program::parse().guard) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
