//! `manycore qos clear`.

use crate::{cli::QosClear, cmd::undo, failure::Outcome};
use manycore_qos::clear::{Selection, clear};
use manycore_render::terminal::Terminal;

/// Undoes the changes to the named groups, or to all groups.
///
/// # Errors
/// [`crate::failure::Failure::Input`] for a group that manycore has not changed or that a running
/// `qos set --follow` manages, [`crate::failure::Failure::Missing`] if a change could not be undone.
pub fn run(args: &QosClear, terminal: Terminal) -> Outcome {
    let selection = if args.all { Selection::All } else { Selection::Named(args.names.clone()) };
    undo::print(&clear(&selection)?, args.format, terminal, 0)
}
