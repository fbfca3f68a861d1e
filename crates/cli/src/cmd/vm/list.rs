//! `manycore vm list`.

use crate::{
    cli::VmList,
    failure::{Failure, Outcome},
    output,
};
use manycore_render::terminal::Terminal;
use manycore_topology::SysTree;
use manycore_vm::{monitor, usage_text};
use std::path::Path;

/// Prints the running virtual machines.
///
/// # Errors
/// [`Failure::Input`] if the root directory does not exist.
pub fn run(args: &VmList, terminal: Terminal) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    if args.root == Path::new("/") {
        output::note_hidden();
    }
    let snapshot = monitor::list(&tree, args.numa);
    output::result(args.format, terminal, &snapshot, || usage_text::list(&snapshot))
}
