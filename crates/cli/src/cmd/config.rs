//! `manycore config`: shows the user's defaults and where they come from.

use crate::{
    cli::{Cli, Config, Format},
    failure::Outcome,
    output,
    settings::{self, Settings},
};
use clap::CommandFactory;

/// Prints the settings in force, or a file with all of them.
///
/// # Errors
/// [`crate::failure::Failure::Input`] if a setting is wrong.
pub fn run(args: &Config) -> Outcome {
    if args.example {
        return output::print(settings::EXAMPLE);
    }
    let program = Cli::command();
    let config = Settings::load(&program)?.report(&program);
    output::print(&match args.format {
        Format::Text => settings::text(&config),
        Format::Json => output::json(&config)?,
    })
}
