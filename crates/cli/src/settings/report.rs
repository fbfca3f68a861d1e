//! The settings in force, for people and programs.

use super::{FileState, Origin, Setting, Settings, table};
use clap::{Arg, Command};
use serde::Serialize;

/// Value of [`Config::schema`] that this version writes.
pub const CONFIG_SCHEMA: &str = "manycore/config/1";

/// The settings in force.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// Always [`CONFIG_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = CONFIG_SCHEMA)))]
    pub schema: String,
    /// Path of the user's file; absent where neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub file: Option<String>,
    /// `read`, `absent` or `ignored`.
    pub file_state: &'static str,
    /// Why the file is ignored.
    pub ignored_because: Option<String>,
    /// The settings: those for all subcommands, then those of single subcommands that are set.
    pub settings: Vec<SettingReport>,
}

/// One setting.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingReport {
    /// The subcommand; absent for all that have the option.
    pub subcommand: Option<String>,
    /// Name of the option, without dashes.
    pub name: String,
    /// The value; several where the option may be repeated; none where the option has no default.
    pub values: Vec<String>,
    /// `default`, `file` or `variable`.
    pub source: &'static str,
    /// File and line, or name of the variable, where it is set.
    pub place: Option<String>,
}

impl Settings {
    /// Returns the settings in force. `program` is the definition of the command line without settings.
    pub fn report(&self, program: &Command) -> Config {
        let global = table::GLOBAL.iter().map(|known| {
            let set = self.all.iter().rfind(|set| set.subcommand.is_empty() && set.name == known.name);
            match set {
                Some(set) => self.set(set),
                None => SettingReport {
                    subcommand: None,
                    name: known.name.to_owned(),
                    values: default(program, known).into_iter().collect(),
                    source: "default",
                    place: None,
                },
            }
        });
        let single = self.all.iter().filter(|set| !set.subcommand.is_empty()).map(|set| {
            let variable = self
                .all
                .iter()
                .find(|over| over.name == set.name && matches!(over.origin, Origin::Variable(_)));
            let subcommand = set.subcommand.clone();
            self.set(&variable.map_or_else(|| set.clone(), |over| Setting { subcommand, ..over.clone() }))
        });
        let (file_state, ignored_because) = match &self.file {
            FileState::NoHome | FileState::Absent(_) => ("absent", None),
            FileState::Ignored { reason, .. } => ("ignored", Some(reason.clone())),
            FileState::Read(_) => ("read", None),
        };
        Config {
            schema: CONFIG_SCHEMA.to_owned(),
            file: self.file.path().map(|path| path.display().to_string()),
            file_state,
            ignored_because,
            settings: global.chain(single).collect(),
        }
    }

    fn set(&self, set: &Setting) -> SettingReport {
        SettingReport {
            subcommand: (!set.subcommand.is_empty()).then(|| set.subcommand.join(" ")),
            name: set.name.clone(),
            values: set.values.clone(),
            source: match set.origin {
                Origin::Variable(_) => "variable",
                Origin::Line(_) => "file",
            },
            place: Some(self.place(&set.origin)),
        }
    }
}

/// Returns the default of an option that is the same in all subcommands.
fn default(program: &Command, known: &table::GlobalSetting) -> Option<String> {
    fn options<'a>(command: &'a Command, name: &str, all: &mut Vec<&'a Arg>) {
        all.extend(command.get_arguments().filter(|option| option.get_long() == Some(name)));
        command.get_subcommands().for_each(|nested| options(nested, name, all));
    }
    let mut all: Vec<&Arg> =
        program.get_arguments().filter(|option| option.get_long() == Some(known.name)).collect();
    for command in program.get_subcommands() {
        if super::are_used_by(command.get_name()) && known.is_for(command.get_name()) {
            options(command, known.name, &mut all);
        }
    }
    if all.iter().any(|option| super::apply::is_flag(option)) {
        return Some("false".to_owned());
    }
    let mut defaults = all
        .iter()
        .map(|option| option.get_default_values().first().map(|value| value.to_string_lossy().into_owned()));
    let first = defaults.next()??;
    defaults.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Returns the settings as text.
pub fn text(config: &Config) -> String {
    let name = |setting: &SettingReport| match &setting.subcommand {
        Some(subcommand) => format!("{subcommand} --{}", setting.name),
        None => format!("--{}", setting.name),
    };
    let value = |setting: &SettingReport| match setting.values.as_slice() {
        [] => "not set".to_owned(),
        values => values.join(" "),
    };
    let rows: Vec<[String; 3]> = config
        .settings
        .iter()
        .map(|setting| {
            [
                name(setting),
                value(setting),
                setting.place.clone().unwrap_or_else(|| setting.source.to_owned()),
            ]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0).max("Option".len()), width(1).max("Default".len())];
    let line =
        |row: [&str; 3]| format!("{:<2$}  {:<3$}  {4}\n", row[0], row[1], widths[0], widths[1], row[2]);
    let mut text = line(["Option", "Default", "From"]);
    text.extend(rows.iter().map(|row| line([&row[0], &row[1], &row[2]])));
    let file = config.file.as_deref().unwrap_or("none, because HOME is not set");
    text + &match (config.file_state, &config.ignored_because) {
        ("ignored", Some(reason)) => format!("\nFile: {file}\n      Not used: {reason}\n"),
        ("read", _) => format!("\nFile: {file}\n"),
        _ => format!("\nFile: {file}\n      There is none; 'manycore config --example' prints one.\n"),
    }
}
