//! `manycore qos`: limits of memory bandwidth and cache for groups of tasks.

mod clear;
mod prove;
mod set;
mod show;
mod watch;

use crate::{
    cli::{Qos, QosSubcommand},
    failure::Outcome,
};
use manycore_render::terminal::Terminal;

/// Shows, sets, measures or clears limits, or watches the usage of groups.
pub fn run(args: &Qos, terminal: Terminal) -> Outcome {
    match &args.subcommand {
        QosSubcommand::Show(args) => show::run(args, terminal),
        QosSubcommand::Set(args) => set::run(args, terminal),
        QosSubcommand::Watch(args) => watch::run(args, terminal),
        QosSubcommand::Prove(args) => prove::run(args, terminal),
        QosSubcommand::Clear(args) => clear::run(args, terminal),
    }
}
