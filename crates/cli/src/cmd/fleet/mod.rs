//! `manycore fleet`: the same on many hosts.

mod audit;
mod check;
mod collecting;
mod eval;
mod hosts;
mod outputs;
mod report;
mod topo;

use crate::{
    cli::{Fleet, FleetSubcommand},
    failure::{Failure, Outcome},
};
use manycore_fleet::Error;
use manycore_render::terminal::Terminal;

/// Runs manycore on the hosts, or reports what they sent.
pub fn run(args: &Fleet, terminal: Terminal) -> Outcome {
    match &args.subcommand {
        FleetSubcommand::Eval(args) => eval::run(args, terminal),
        FleetSubcommand::Report(args) => report::run(args, terminal),
        FleetSubcommand::Check(args) => check::run(args),
        FleetSubcommand::Topo(args) => topo::run(args, terminal),
        FleetSubcommand::Audit(args) => audit::run(args, terminal),
        FleetSubcommand::Run(args) => outputs::run(args, terminal),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Manifest(error) => error.into(),
            Error::NoFolder { .. } | Error::OtherRun { .. } | Error::UnknownProperty { .. } => {
                Self::input(error)
            }
            Error::InUse { .. } | Error::File { .. } | Error::Remote(_) => Self::missing(error),
        }
    }
}
