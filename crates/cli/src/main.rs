//! The `manycore` program; everything is in the library.
#![forbid(unsafe_code)]

use manycore::{cli::Cli, cmd, program};
use std::{env::args_os, process::ExitCode};

pub(crate) fn main() -> ExitCode {
    program::set_own_name();
    let words: Vec<_> = args_os().collect();
    match Cli::from_words(&words).and_then(cmd::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
