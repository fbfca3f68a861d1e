//! `manycore completions`: prints completion scripts, generated from the command line's definition.

use crate::{
    cli::{Cli, Completions},
    failure::Outcome,
    output,
};
use clap::CommandFactory;

/// Prints the completion script of a shell.
pub fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "manycore", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
