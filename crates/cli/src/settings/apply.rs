//! From settings to defaults in the definition of the command line.

use super::{Setting, table};
use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::ffi::OsString;

/// Checks that a subcommand has the option and that the option accepts the value.
///
/// # Errors
/// What is expected instead.
pub(super) fn check(program: &Command, setting: &Setting) -> Result<(), String> {
    let mut refused = None;
    for path in targets(program, setting) {
        match parse(program, &path, setting) {
            Ok(()) => return Ok(()),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    // A setting for options that no subcommand has yet is without effect.
    refused.map_or(Ok(()), Err)
}

/// Makes a setting the default of the options that it is for and that accept it.
pub(super) fn apply(program: Command, setting: &Setting) -> Command {
    targets(&program, setting).iter().fold(program, |program, path| {
        if parse(&program, path, setting).is_ok() { with_default(program, path, setting) } else { program }
    })
}

/// Returns the paths of the subcommands that a setting is for; that of the program is empty.
fn targets(program: &Command, setting: &Setting) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    // An option of the program is one of all subcommands.
    if program.get_arguments().any(|option| option.get_long() == Some(setting.name.as_str())) {
        paths.push(Vec::new());
    }
    collect(program, &[], &setting.name, &mut paths);
    let global = table::GLOBAL.iter().find(|known| known.name == setting.name);
    paths.retain(|path| {
        let is_below = path.starts_with(&setting.subcommand);
        let is_for = !setting.subcommand.is_empty()
            || path.first().is_none_or(|name| global.is_none_or(|known| known.is_for(name)));
        is_below && is_for
    });
    paths
}

fn collect(command: &Command, path: &[String], name: &str, paths: &mut Vec<Vec<String>>) {
    for nested in command.get_subcommands() {
        let path = [path, &[nested.get_name().to_owned()]].concat();
        if !table::SUBCOMMANDS.contains(&path[0].as_str()) {
            continue;
        }
        if nested.get_arguments().any(|option| option.get_long() == Some(name)) {
            paths.push(path.clone());
        }
        collect(nested, &path, name, paths);
    }
}

/// Parses a command line with the option and the values; it need not be complete.
fn parse(program: &Command, path: &[String], setting: &Setting) -> Result<(), String> {
    let words = ["manycore"].into_iter().map(OsString::from).chain(path.iter().map(OsString::from));
    let is_flag = option(program, path, &setting.name).is_some_and(is_flag);
    let words: Vec<OsString> = if is_flag {
        match setting.values.as_slice() {
            [value] if switch(value).is_some() => return Ok(()),
            _ => return Err("expected true or false".to_owned()),
        }
    } else {
        words.chain(setting.values.iter().map(|value| format!("--{}={value}", setting.name).into())).collect()
    };
    match program.clone().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::ArgumentConflict => {
                Err(reason(&error))
            }
            _ => Ok(()),
        },
    }
}

/// Returns the reason for which a value is refused, in one line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or(text);
    let mut reason = first.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !reason.contains("possible values")
    {
        reason += &format!("; expected one of {}", values.join(", "));
    }
    reason
}

fn option<'a>(program: &'a Command, path: &[String], name: &str) -> Option<&'a Arg> {
    let command = path.iter().try_fold(program, |command, name| command.find_subcommand(name))?;
    command.get_arguments().find(|option| option.get_long() == Some(name))
}

/// Whether an option takes no value.
pub(super) fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// Returns the value of an option without values.
fn switch(text: &str) -> Option<&'static str> {
    match text {
        "true" | "1" | "yes" | "on" => Some("true"),
        "false" | "0" | "no" | "off" | "" => Some("false"),
        _ => None,
    }
}

fn with_default(command: Command, path: &[String], setting: &Setting) -> Command {
    match path.split_first() {
        Some((first, rest)) => command.mut_subcommand(first, |nested| with_default(nested, rest, setting)),
        None => command.mut_args(|option| {
            if option.get_long() == Some(setting.name.as_str()) {
                if is_flag(&option) {
                    return option.default_value(setting.values.first().and_then(|value| switch(value)));
                }
                // The definition of the command line holds texts that live as long as the program.
                option.default_values(
                    setting.values.iter().map(|value| &*value.clone().leak()).collect::<Vec<_>>(),
                )
            } else {
                option
            }
        }),
    }
}
