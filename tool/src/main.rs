//! `manycore`: measures how a machine and a workload scale over cores, places work and takes it back,
//! isolates neighbours, and proves each claim with honest statistics.
//!
//! This file is the table of contents: [`cli`] is the command line, [`cmd`] has one file per verb.
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod failure;
mod load;
mod output;
mod report;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cmd::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
