//! The scheduler in force.

mod report;
pub mod text;

pub use report::{SCHEDULER_SCHEMA, SchedulerReport};

use crate::Result;
use manycore_linux::sched_ext::{self, SchedExt};
use manycore_topology::SysTree;
use std::path::Path;

/// Reads the scheduler from the kernel's files below `root`: `/`, or a copy.
///
/// # Errors
/// The tree cannot be opened, or one of its CPU lists cannot be parsed.
pub fn show(root: &Path) -> Result<SchedulerReport> {
    let tree = SysTree::open(root)?;
    let machine = manycore_topology::read(&tree)?;
    let loaded = match sched_ext::read(&tree) {
        SchedExt::Enabled(name) => Some(name),
        _ => None,
    };
    Ok(SchedulerReport { schema: SCHEDULER_SCHEMA.to_owned(), kernel: machine.system.kernel, loaded })
}
