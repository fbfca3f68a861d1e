//! One file per verb; each reads from top to bottom.

mod report;
mod topo;

use crate::{
    cli::{Cli, Verb},
    failure::Outcome,
};

/// Runs the verb of the command line.
pub fn run(cli: Cli) -> Outcome {
    match cli.verb {
        Verb::Topo(args) => topo::run(&args),
        Verb::Report(args) => report::run(&args),
    }
}
