//! `manycore config`: shows the user's defaults and where they come from.

use crate::{
    cli::{Cli, Config, Format},
    failure::{Failure, Outcome},
    output,
    settings::{self, Settings},
};
use clap::{Command, CommandFactory};
use std::cell::LazyCell;

/// Prints the settings in force, or a file with all of them.
///
/// # Errors
/// [`Failure::Input`] if a setting is wrong.
pub fn run(args: &Config) -> Outcome {
    if args.example {
        return output::print(settings::EXAMPLE);
    }
    let program: LazyCell<Command> = LazyCell::new(Cli::command);
    let config = Settings::load(&program)?.report(&program);
    match args.format {
        Format::Text => output::print(&settings::text(&config)),
        Format::Json => output::print(&output::json(&config)?),
        Format::Csv | Format::Markdown => {
            Err(Failure::input("config prints text or JSON: use --format text or --format json"))
        }
    }
}
