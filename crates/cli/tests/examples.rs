//! Every command line that README, the book and the help texts show is accepted by the command line's definition, and
//! help fits a terminal.

use crate::common::markdown::documents;
use clap::{CommandFactory, Parser, error::ErrorKind};
use manycore::cli::{Cli, help};
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
            let line = [
                "$(pgrep -o qemu)",
                "$(pgrep -o beam.smp)",
                "$(pidof nginx | tr ' ' ,)",
                "$(pidof redis-server)",
            ]
            .iter()
            .fold(line, |line, process| line.replace(process, "812"));
            let ends = [" # ", "  ", " | ", " > ", " >", " && ", " & "];
            let (command, options) = line.split_at(line.find(' ').unwrap() + 1);
            let end = ends.iter().filter_map(|end| unquoted(options.trim_end(), end)).min();
            let end = end.unwrap_or(options.len());
            format!("{command}{}", options[..end].trim_end_matches(" &").trim())
        })
        .collect()
}

/// Returns where `end` begins outside of quotes: a gate such as 'slower > 3%' has no redirection.
fn unquoted(text: &str, end: &str) -> Option<usize> {
    let is_outside = |at: &usize| text[..*at].matches('\'').count().is_multiple_of(2);
    text.match_indices(end).map(|(at, _)| at).find(is_outside)
}

/// Returns the commands of folded blocks (`>-`) in a workflow, each as one line.
fn workflow_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = text.lines().peekable();
    let indent = |line: &str| line.len() - line.trim_start().len();
    while let Some(line) = lines.next() {
        if !line.ends_with(">-") {
            continue;
        }
        let depth = lines.peek().map_or(0, |line| indent(line));
        let mut words = Vec::new();
        while let Some(part) = lines.next_if(|part| indent(part) == depth) {
            words.push(part.trim());
        }
        commands.push(words.join(" "));
    }
    commands
}

#[test]
fn commands_of_documented_workflows_are_accepted() {
    let page = documents().into_iter().find(|file| file.ends_with("guide/ci.md")).unwrap();
    let commands = workflow_commands(&fs::read_to_string(page).unwrap());
    assert_eq!(commands.len(), 3, "{commands:#?}");
    for command in commands {
        let words = shlex::split(&command).unwrap();
        assert!(Cli::try_parse_from(words).is_ok() && command.contains("--fail-if"), "{command}");
    }
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

/// Returns the help of all subcommands, each with its name, as on a terminal of `width` columns.
fn all_help(width: usize) -> Vec<(String, String, String)> {
    fn collect(command: &mut clap::Command, path: &str, all: &mut Vec<(String, String, String)>) {
        for nested in command
            .get_subcommands_mut()
            .filter(|nested| !nested.is_hide_set() && nested.get_name() != "help")
        {
            let path = format!("{path} {}", nested.get_name());
            all.push((path.clone(), nested.render_long_help().to_string(), nested.render_help().to_string()));
            collect(nested, &path, all);
        }
    }
    let mut program = help::arrange(Cli::command(), width);
    program.build();
    let mut all = vec![(
        "manycore".to_owned(),
        program.render_long_help().to_string(),
        program.render_help().to_string(),
    )];
    collect(&mut program, "manycore", &mut all);
    all
}

#[test]
fn help_fits_80_columns() {
    for (name, long, short) in all_help(80) {
        for line in long.lines().chain(short.lines()) {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn examples_come_before_the_options_and_are_accepted() {
    for (name, long, _) in all_help(80) {
        let start = long.find("Examples:\n").unwrap_or_else(|| panic!("{name} has no examples"));
        let usage = long.find("Usage: ").unwrap();
        assert!(start < usage || name == "manycore", "{name}");
        let (count, wrong) = problems(&name, &long[start..]);
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(count >= 2 || name == "manycore vm plan", "{name}: {count} examples");
    }
}

#[test]
fn short_help_is_short() {
    for (name, long, short) in all_help(80) {
        // All subcommands, or a screen.
        let most = if name == "manycore" { 60 } else { 50 };
        assert!(short.lines().count() <= most, "{name}: {} lines", short.lines().count());
        assert!(short.lines().count() <= long.lines().count(), "{name}");
    }
}
