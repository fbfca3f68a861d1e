//! `manycore vm list`.

use crate::{
    cli::{Format, VmList},
    failure::{Failure, Outcome},
    output,
};
use manycore_topology::SysTree;
use manycore_vm::{monitor, usage_text};

/// Prints the running virtual machines.
///
/// # Errors
/// [`Failure::Input`] if the root directory does not exist.
pub fn run(args: &VmList) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    let snapshot = monitor::list(&tree, args.numa);
    match args.format {
        Format::Text => output::print(&usage_text::list(&snapshot)),
        Format::Json => output::print(&output::json(&snapshot)?),
    }
}
