//! A worker process: works on one slot of the worker control block, which is its standard input.

use crate::{
    cli::Worker,
    failure::{Failure, Outcome},
};
use manycore_experiment::board::Board;
use manycore_experiment::worker;
use manycore_workload::{
    Kind,
    contention::{Part, join},
};
use std::{io::stdin, os::fd::AsFd};

/// Works until the coordinator ends the process.
pub fn run(args: &Worker) -> Outcome {
    let started_by_hand =
        || Failure::input("this verb is internal: manycore itself starts workers, with a control block");
    let part = part(args)?.ok_or_else(started_by_hand)?;
    let memory = stdin().as_fd().try_clone_to_owned().map_err(|_| started_by_hand())?;
    let board = Board::open(memory).map_err(|_| started_by_hand())?;
    let slot = board.slots().get(args.slot).ok_or_else(started_by_hand)?;
    worker::take_part(slot, part);
    Ok(())
}

/// Returns the requested work: an independent load, or one part of a load whose workers share an object.
fn part(args: &Worker) -> Outcome<Option<Part>> {
    let object = args.object.as_deref().unwrap_or_default();
    match join(&args.load, object) {
        Some(part) => part.map(Some).map_err(|error| {
            Failure::missing(format!("a worker process cannot open the shared object ({object}): {error}"))
        }),
        None => Ok(Kind::from_name(&args.load).map(|kind| Part::Works(kind.load()))),
    }
}
