//! `manycore vm list`.

use crate::{
    cli::{Format, VmList},
    failure::{Failure, Outcome},
    output,
};
use manycore_linux::vms::usage::{Moment, Reading};
use manycore_linux::{
    clock::utc,
    vms::{Domains, Wanted, host},
};
use manycore_topology::SysTree;
use manycore_vm::top_text;
use std::collections::BTreeMap;

/// Prints the running virtual machines.
///
/// # Errors
/// [`Failure::Input`] if the root directory does not exist.
pub fn run(args: &VmList) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    let wanted = Wanted { vcpus: false, nodes: args.numa };
    let now: BTreeMap<u32, Reading> = keyed(Domains::new(&tree, wanted).look());
    let moment = Moment::between(utc(), None, &BTreeMap::new(), (&host(&tree), &now));
    match args.format {
        Format::Text => output::print(&top_text::list(&moment)),
        Format::Json => output::print(&output::json(&moment)?),
    }
}

/// Returns the readings by process id.
pub(super) fn keyed(readings: Vec<Reading>) -> BTreeMap<u32, Reading> {
    readings.into_iter().map(|reading| (reading.identity.pid, reading)).collect()
}
