//! A user's defaults: variables of the environment and `~/.config/manycore/config.toml`.
//!
//! A setting is the default of an option. [`Settings::load`] reads and checks all of them against the definition of the
//! command line, so a value that the option refuses is refused with the file and line that it comes from.
//! [`Settings::apply`] puts them into that definition before a command line is parsed; options are then read as if the
//! defaults had always been there.
//!
//! A setting can only be the default of an option of [`table`]: none of these names a command or a file to write, apart
//! from the directory of all results. Files that other users can change are not read.

mod apply;
mod file;
mod report;
pub mod table;

pub use file::{EXAMPLE, FileState};
pub use report::{CONFIG_SCHEMA, Config, SettingReport, text};

use crate::failure::{Failure, Outcome};
use clap::Command;
use std::{cell::LazyCell, env};

/// The default of an option that a user has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The subcommand, with those above it; empty for all subcommands.
    pub subcommand: Vec<String>,
    /// Name of the option, without dashes.
    pub name: String,
    /// The values as they would follow the option.
    pub values: Vec<String>,
    /// Where it was set.
    pub origin: Origin,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A variable of the environment.
    Variable(String),
    /// The line of the file.
    Line(usize),
}

/// All settings of the user.
#[derive(Debug)]
pub struct Settings {
    /// Whether the file was read.
    pub file: FileState,
    /// In increasing order of precedence.
    pub all: Vec<Setting>,
}

impl Settings {
    /// Reads the file and the variables, and checks them against the definition of the command line, which is built
    /// only if there are any.
    ///
    /// # Errors
    /// [`Failure::Input`] with the place of an unknown setting or a refused value.
    pub fn load(program: &LazyCell<Command>) -> Outcome<Self> {
        let (file, mut all) = file::load(program)?;
        let variables = table::GLOBAL.iter().filter_map(|known| {
            let variable = known.variable();
            let value = env::var(&variable).ok()?;
            let values = vec![value];
            let origin = Origin::Variable(variable);
            Some(Setting { subcommand: Vec::new(), name: known.name.to_owned(), values, origin })
        });
        all.extend(variables);
        let settings = Self { file, all };
        for setting in &settings.all {
            apply::check(program, setting)
                .map_err(|why| Failure::input(format!("{}: {why}", settings.place(&setting.origin))))?;
        }
        Ok(settings)
    }

    /// Returns the definition with the settings as defaults.
    pub fn apply(&self, program: Command) -> Command {
        self.all.iter().fold(program, apply::apply)
    }

    /// Returns the note for a file that is not used.
    pub fn note(&self) -> Option<String> {
        match &self.file {
            FileState::Ignored { path, reason } => {
                Some(format!("manycore: the settings in {} are not used: {reason}", path.display()))
            }
            _ => None,
        }
    }

    /// Returns where a setting was set: the file and its line, or the variable.
    pub fn place(&self, origin: &Origin) -> String {
        match (origin, &self.file) {
            (Origin::Line(line), FileState::Read(path)) => format!("{}:{line}", path.display()),
            (Origin::Line(line), _) => format!("line {line}"),
            (Origin::Variable(name), _) => name.clone(),
        }
    }
}

/// Whether a subcommand has settings. The others work without: what undoes changes, protects the machine or is started
/// by manycore itself does not depend on a user's file.
pub fn are_used_by(subcommand: &str) -> bool {
    table::SUBCOMMANDS.contains(&subcommand)
}
