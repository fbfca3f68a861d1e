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

/// Shows, sets, measures or clears limits, or watches the usage of groups.
pub fn run(args: &Qos) -> Outcome {
    match &args.subcommand {
        QosSubcommand::Show(args) => show::run(args),
        QosSubcommand::Set(args) => set::run(args),
        QosSubcommand::Watch(args) => watch::run(args),
        QosSubcommand::Prove(args) => prove::run(args),
        QosSubcommand::Clear(args) => clear::run(args),
    }
}
