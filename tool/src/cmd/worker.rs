//! A worker process: works on the slot that it is told, of the board that is its standard input.

use crate::{
    cli::Worker,
    experiment::worker,
    failure::{Failure, Outcome},
};
use manycore_host::board::Board;
use manycore_workload::Kind;
use std::{io::stdin, os::fd::AsFd};

/// Works until the coordinator ends it.
pub fn run(args: &Worker) -> Outcome {
    let started_by_hand =
        || Failure::input("worker is started by manycore itself, with its board as standard input");
    let kind = Kind::from_name(&args.load).ok_or_else(started_by_hand)?;
    let memory = stdin().as_fd().try_clone_to_owned().map_err(|_| started_by_hand())?;
    let board = Board::open(memory).map_err(|_| started_by_hand())?;
    let slot = board.slots().get(args.slot).ok_or_else(started_by_hand)?;
    worker::work(slot, kind);
    Ok(())
}
