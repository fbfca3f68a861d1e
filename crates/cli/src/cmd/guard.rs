//! `manycore guard`: the same as the program `manycore-guard`.

use crate::failure::Outcome;
use manycore_guard_daemon::{Cookie, Guard};

/// Runs the guard or one of its subcommands.
///
/// # Errors
/// [`crate::failure::Failure::Input`] for invalid rules, [`crate::failure::Failure::Missing`] for missing
/// privileges or files.
pub fn run(args: &Guard) -> Outcome {
    Ok(manycore_guard_daemon::run(args)?)
}

/// Checks the cookie of an Erlang node's user.
///
/// # Errors
/// [`crate::failure::Failure::Missing`] if there is no cookie that belongs to this user.
pub fn cookie(args: &Cookie) -> Outcome {
    Ok(manycore_guard_daemon::cookie(args)?)
}
