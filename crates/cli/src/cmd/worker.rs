//! A worker process: works on one slot of the worker control block, which is its standard input.

use crate::{
    cli::Worker,
    failure::{Failure, Outcome},
};
use manycore_experiment::worker;
use manycore_workload::{
    LoadKind,
    contention::{Role, open_role},
};
use std::{io::stdin, os::fd::AsFd};

/// Works until the coordinator ends the process.
pub fn run(args: &Worker) -> Outcome {
    let started_by_hand = || {
        Failure::input("this subcommand is internal: manycore itself starts workers, with a control block")
    };
    let role = role(args)?.ok_or_else(started_by_hand)?;
    let memory = stdin().as_fd().try_clone_to_owned().map_err(|_| started_by_hand())?;
    worker::run(memory, args.slot, role).map_err(|_| started_by_hand())
}

/// Returns the requested work: an independent load, or one role of a load whose workers share an object.
fn role(args: &Worker) -> Outcome<Option<Role>> {
    let object = args.object.as_deref().unwrap_or_default();
    match open_role(&args.load, object) {
        Some(role) => role.map(Some).map_err(|error| {
            Failure::missing(format!("a worker process cannot open the shared object ({object}): {error}"))
        }),
        None => Ok(LoadKind::from_name(&args.load).map(|kind| Role::Worker(kind.load()))),
    }
}
