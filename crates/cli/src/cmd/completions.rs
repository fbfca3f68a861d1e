//! `manycore completions`: tab completion, from the definition of the command line.

use crate::{
    cli::{Cli, Completions},
    failure::Outcome,
    output,
};
use clap::CommandFactory;

/// Prints the completions of a shell.
pub fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "manycore", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
