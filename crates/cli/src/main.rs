//! The `manycore` program; everything is in the library.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

pub(crate) fn main() -> ExitCode {
    match manycore::cmd::run(manycore::cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
