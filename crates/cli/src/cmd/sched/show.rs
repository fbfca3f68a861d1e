//! `manycore sched show`: the scheduler in force.

use crate::{cli::SchedShow, failure::Outcome, output};
use manycore_render::terminal::Terminal;
use manycore_sched::show;

/// Shows the scheduler.
pub fn run(args: &SchedShow, terminal: Terminal) -> Outcome {
    let report = show::show(&args.root)?;
    output::result(args.format, terminal, &report, || show::document(&report))
}
