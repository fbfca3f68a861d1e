//! The hidden subcommand that answers the completion scripts of shells. It never fails and prints no errors: those would
//! appear in the middle of the line that is being typed.

use crate::{
    cli::{Cli, Complete},
    completion::{self, Completion, MachineNames},
    output,
    settings::Settings,
};
use clap::CommandFactory;
use std::{
    cell::LazyCell,
    path::{Path, PathBuf},
};

/// Prints what can stand at the cursor: a line for each word with its description, or what the shell completes.
pub fn run(args: &Complete) {
    let words = match &args.line {
        Some(line) => completion::split(&line.to_string_lossy()),
        None => args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let mut program = Cli::command();
    program.build();
    let names = MachineNames::new(Path::new("/"), &results_directory());
    let answer = match completion::complete(&program, &words, &names) {
        Completion::File => ":file\n".to_owned(),
        Completion::Directory => ":directory\n".to_owned(),
        Completion::Command => ":command\n".to_owned(),
        Completion::Words(found) => {
            let part = args.word.as_ref().map(|word| word.to_string_lossy().into_owned());
            let skip = replaced_from(words.last().map_or("", String::as_str), part.as_deref());
            let lines: Vec<String> =
                found.iter().map(|word| format!("{}\t{}\n", &word.text[skip..], word.about)).collect();
            lines.concat()
        }
    };
    // A shell that has gone away needs no answer.
    let _ = output::print(&answer);
}

/// Returns the directory of all results, as the user's settings have it.
fn results_directory() -> PathBuf {
    let program = match Settings::load(&LazyCell::new(Cli::command)) {
        Ok(settings) => settings.apply(Cli::command()),
        Err(_) => Cli::command(),
    };
    let report = program.find_subcommand("report");
    let option = report.and_then(|report| report.get_arguments().find(|option| option.get_id() == "results"));
    let directory = option.and_then(|option| Some(PathBuf::from(option.get_default_values().first()?)));
    directory.unwrap_or_default()
}

/// Returns the length of the part of the current word that the shell does not replace: bash splits words at `=` and `:`.
fn replaced_from(current: &str, part: Option<&str>) -> usize {
    match part {
        Some(part) if current.ends_with(part) => current.len() - part.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_that_bash_replaces_is_printed() {
        assert_eq!(replaced_from("near=et", Some("et")), 5);
        assert_eq!(replaced_from("near=", Some("")), 5);
        assert_eq!(replaced_from("clo", Some("clo")), 0);
        assert_eq!(replaced_from("clo", None), 0);
    }
}
