//! Every command line that README, the book and the help texts show is accepted by the command line's definition.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod common;

use clap::{CommandFactory, Parser, error::ErrorKind};
use common::markdown::documents;
use manycore::cli::Cli;
use std::fs;

/// Returns the command lines of `manycore` in a text, without prompts, shell syntax and trailing comments.
fn command_lines(text: &str) -> Vec<String> {
    let joined =
        text.split("\\\n").enumerate().map(|(at, part)| if at == 0 { part } else { part.trim_start() });
    let joined = joined.collect::<Vec<_>>().concat();
    let lines = joined.lines().filter_map(|line| {
        let indented = line.strip_prefix("    ").or_else(|| line.strip_prefix("  "));
        let command = indented.or_else(|| line.starts_with("$ ").then_some(line))?;
        let command = command.strip_prefix("$ ").unwrap_or(command);
        // In `docker run $(manycore plan ...) IMAGE` the inner command is the example.
        let inner = command.split_once("$(manycore ").and_then(|(_, rest)| rest.split_once(')'));
        match inner {
            Some((inner, _)) => Some(format!("manycore {inner}")),
            None => Some(command.strip_prefix("sudo ").unwrap_or(command).to_owned()),
        }
    });
    lines
        .filter(|line| line.starts_with("manycore ") && !line.contains(" tasks, placement "))
        .map(|line| {
            let line = ["$(pgrep -o qemu)", "$(pgrep -o beam.smp)", "$(pidof nginx | tr ' ' ,)", "$$"]
                .iter()
                .fold(line, |line, process| line.replace(process, "812"));
            let ends = [" # ", "  ", " | ", " > ", " >", " && ", " & "];
            let (command, options) = line.split_at(line.find(' ').unwrap() + 1);
            let end =
                ends.iter().filter_map(|end| options.trim_end().find(end)).min().unwrap_or(options.len());
            format!("{command}{}", options[..end].trim_end_matches(" &").trim())
        })
        .collect()
}

fn problems(source: &str, text: &str) -> (usize, Vec<String>) {
    let lines = command_lines(text);
    let wrong = lines.iter().filter_map(|line| {
        let words = shlex::split(line).unwrap();
        match Cli::try_parse_from(words).map_err(|error| error.kind()) {
            Ok(_) | Err(ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
            Err(kind) => Some(format!("{source}: {line}: {kind}")),
        }
    });
    (lines.len(), wrong.collect())
}

#[test]
fn examples_of_readme_and_book_are_accepted() {
    let (mut count, mut wrong) = (0, Vec::new());
    // The pages below `commands` are help texts, which the other test reads.
    for file in documents().into_iter().filter(|file| !file.to_string_lossy().contains("/commands/")) {
        let (more, found) = problems(&file.to_string_lossy(), &fs::read_to_string(&file).unwrap());
        count += more;
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 60, "{count}");
}

#[test]
fn examples_of_help_texts_are_accepted() {
    fn check(command: &clap::Command, count: &mut usize, wrong: &mut Vec<String>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (more, found) = problems(command.get_name(), &text);
        *count += more;
        wrong.extend(found);
        command.get_subcommands().for_each(|command| check(command, count, wrong));
    }
    let (mut count, mut wrong) = (0, Vec::new());
    check(&Cli::command(), &mut count, &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 100, "{count}");
}
