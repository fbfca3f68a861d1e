//! `manycore audit`: finds problems in how everything on this machine is pinned.

use crate::{
    cli::Audit as Args,
    failure::{Failure, Outcome},
    output,
};
use manycore_audit::{Audit, process_scan::ScanScope, scan, text};
use manycore_control::journal;
use manycore_render::terminal::Terminal;
use manycore_topology::SysTree;
use std::{path::Path, time::Duration};

/// Examines the machine and prints the findings; exit code 1 if there are any.
///
/// # Errors
/// [`Failure::Check`] if there are findings, [`Failure::Input`] if there is no such process or the machine
/// cannot be read.
pub fn run(args: &Args, terminal: Terminal) -> Outcome {
    let scope = ScanScope { only: args.pid.clone(), ..ScanScope::default() };
    let audit = examine(scope, args.budget)?;
    let extent = args.extent.extent();
    output::result(args.format, terminal, &audit, || text::render(&audit, extent))?;
    match audit.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("1 finding".to_owned())),
        several => Err(Failure::Check(format!("{several} findings"))),
    }
}

/// Examines the processes of a scope without this one, for `interval`.
///
/// # Errors
/// [`Failure::Input`] if there is no such process or the machine cannot be read.
pub fn examine(scope: ScanScope, interval: Duration) -> Outcome<Audit> {
    let tree = SysTree::open(Path::new("/")).map_err(Failure::input)?;
    let scope = ScanScope { exclude: Some(std::process::id()), ..scope };
    // Pins of another user's manycore are fixed like those of any other program.
    let (journals, _) = journal::pending(&journal::folder()).unwrap_or_default();
    Ok(scan::audit(&tree, &scope, interval, &journals)?)
}
