//! The hidden subcommand of the process that cleans up after another one: see [`manycore_control::cleanup`].

use manycore_control::cleanup;
use manycore_workload::contention;
use std::io::stdin;

/// Waits for the end of the other process, and removes what it left behind.
pub fn run() {
    // An object that does not exist any more was removed by its creator.
    cleanup::run(stdin().lock(), &|object| drop(contention::remove(object)));
}
