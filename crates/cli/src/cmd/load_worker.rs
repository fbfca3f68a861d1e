//! A process that generates the loads of `density` on another host. It ends with its standard input.

use crate::failure::{Failure, Outcome};
use manycore_linux::child;
use manycore_load::batch;
use std::{
    io::{BufReader, stdin, stdout},
    process,
};

/// Exit code if the other side has ended.
const LEFT: i32 = 130;

/// Reads loads, runs them, and prints their results.
pub fn run() -> Outcome {
    child::allow_many_files();
    batch::serve(BufReader::new(stdin()), &mut stdout(), || process::exit(LEFT)).map_err(|error| {
        Failure::input(format!("this subcommand is internal: manycore starts it on other hosts ({error})"))
    })
}
