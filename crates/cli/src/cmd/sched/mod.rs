//! `manycore sched`: shows the scheduler, and spreads threads over clusters.

mod affinity;
mod kernel;
mod run;
mod show;

use crate::{
    cli::{Sched, SchedSubcommand},
    failure::Outcome,
};
use manycore_render::terminal::Terminal;

/// Runs the subcommand of `sched`.
pub fn run(args: &Sched, terminal: Terminal) -> Outcome {
    match &args.subcommand {
        SchedSubcommand::Show(args) => show::run(args, terminal),
        SchedSubcommand::Run(args) => run::run(args),
    }
}
