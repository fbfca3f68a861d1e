//! `manycore completions`: prints completion scripts.

use crate::{
    cli::{Cli, Completions},
    completion,
    failure::Outcome,
    output,
};
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the completion script of a shell. Those of bash, zsh and fish call this program for the words; the others are
/// generated from the command line's definition.
pub fn run(args: &Completions) -> Outcome {
    match args.shell {
        Shell::Bash => output::print(completion::BASH),
        Shell::Zsh => output::print(completion::ZSH),
        Shell::Fish => output::print(completion::FISH),
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "manycore", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
    }
}
