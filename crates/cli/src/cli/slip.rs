//! The line that was probably meant, where a command line has an error.
//!
//! Each rule changes the words that were typed; the first change that the command line accepts is the answer.

use super::{Cli, help};
use crate::program;
use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use manycore_study::format_command;
use manycore_topology::CpuSet;
use std::ffi::OsString;

/// Subcommands whose command has to follow `--`.
const WITH_COMMAND: [&str; 4] = ["run", "scale", "tune", "falseshare"];

/// What a word that does not belong to an option is meant for: subcommand, and the words to put before it.
const BARE: [(&[&str], &[&str]); 13] = [
    (&["scale"], &["--workers"]),
    (&["pin"], &["--pid"]),
    (&["audit"], &["--pid"]),
    (&["plan"], &["--workers"]),
    (&["plan"], &["--place"]),
    (&["eval"], &["--only"]),
    (&["topo"], &["--machine"]),
    (&["spawn"], &["--runtime"]),
    (&["irq", "show"], &["--device"]),
    (&["irq"], &["show", "--device"]),
    (&["guard"], &["why"]),
    (&["qos", "watch"], &["--group"]),
    (&["qos", "show"], &["--group"]),
];

/// Words behind a subcommand that does that without them.
const NEEDLESS: [&str; 5] = ["show", "list", "print", "get", "status"];

/// Options of other programs of this kind, with the words for the same thing here.
const FOREIGN: [(&str, &str); 22] = [
    ("p50", "median"),
    ("--runs", "--pairs"),
    ("-r", "--pairs"),
    ("-n", "--pairs"),
    ("-n", "--workers"),
    ("-m", "--pairs"),
    ("-M", "--pairs"),
    ("--min-runs", "--pairs"),
    ("--max-runs", "--pairs"),
    ("-w", "--warmup"),
    ("-s", "--setup"),
    ("-p", "--prepare"),
    ("-C", "--conclude"),
    ("-S", "--shell"),
    ("-N", "--shell=none"),
    ("--seconds", "--budget"),
    ("--time", "--budget"),
    ("--duration", "--budget"),
    ("--json", "--format=json"),
    ("--ignore-failures", "--ignore-failure"),
    ("-i", "--ignore-failure"),
    ("-o", "--out"),
];

/// Returns the message for a wrong command line with the line to type; nothing if no rule has one, or if help is asked
/// for.
pub fn message(words: &[OsString], error: &clap::Error) -> Option<String> {
    let words: Vec<String> =
        words.iter().skip(1).map(|word| word.clone().into_string()).collect::<Result<_, _>>().ok()?;
    let what = error.to_string();
    let what = what.split("\n\n").next()?.strip_prefix("error: ")?.trim_end();
    let line = |words: &[String]| format!("manycore {}", format_command(words));
    if let Some(meant) = correction(&words, error) {
        return Some(format!("{what}\nType: {}", line(&meant)));
    }
    let is_command =
        error.kind() == ErrorKind::UnknownArgument && words.first().is_some_and(|word| word == "compare");
    if is_command && let Some(meant) = quoted_command(&words, error) {
        return Some(format!("{what}\nType, with your other command: {}", line(&meant)));
    }
    let example =
        (error.kind() == ErrorKind::MissingRequiredArgument).then(|| example(&words, error)).flatten()?;
    Some(format!("{what}\nFor example: {example}"))
}

/// Returns the words that were probably meant.
fn correction(words: &[String], error: &clap::Error) -> Option<Vec<String>> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let invalid = match error.kind() {
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand),
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => text(ContextKind::InvalidValue),
        _ => return None,
    };
    let invalid = invalid.first()?;
    let at = position(words, invalid)?;
    let suggested =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue]
            .into_iter()
            .flat_map(text)
            .filter(|suggested| !is_hidden(suggested) && keeps_value(words, at, suggested))
            .map(|suggested| replaced(words, at, invalid, &suggested));
    let foreign = FOREIGN.iter().filter(|(foreign, _)| foreign == invalid);
    let foreign = foreign.map(|(_, ours)| replaced(words, at, invalid, ours));
    let others = candidates(words, at, invalid, error.kind());
    foreign.chain(without_need(words, at)).chain(suggested).chain(others).find(|words| is_accepted(words))
}

/// Returns whether an option at `at` can be replaced by `option`: if a value follows, the other one takes one, too.
fn keeps_value(words: &[String], at: usize, option: &str) -> bool {
    let Some(name) = option.strip_prefix("--") else { return true };
    if words.get(at + 1).is_none_or(|next| next.starts_with('-')) {
        return true;
    }
    let program = Cli::command();
    let path = words.iter().map_while(|word| (!word.starts_with('-')).then_some(word));
    let mut definition = &program;
    for word in path {
        let Some(below) = definition.find_subcommand(word) else { break };
        definition = below;
    }
    let takes = |argument: &clap::Arg| argument.get_action().takes_values();
    definition.get_arguments().any(|argument| argument.get_long() == Some(name) && takes(argument))
}

/// Returns the words without one that is not needed, and those of an option that was typed as a subcommand.
fn without_need(words: &[String], at: usize) -> Vec<Vec<String>> {
    let word = words[at].as_str();
    let mut all = Vec::new();
    if at == 0 && word == "version" {
        all.push(replaced(words, at, word, "--version"));
    }
    if at > 0 && NEEDLESS.contains(&word) {
        all.push([&words[..at], &words[at + 1..]].concat());
    }
    if at == 1 && words[0] == "config" {
        all.push(owned(&["config", "--example"]));
    }
    all
}

/// Returns the words that rules make of a command line whose word at `at` is invalid, in the order of their likelihood.
fn candidates(words: &[String], at: usize, invalid: &str, kind: ErrorKind) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    if matches!(kind, ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        // A bare list of CPUs as a placement.
        if invalid.parse::<CpuSet>().is_ok_and(|cpus| !cpus.is_empty()) {
            all.push(replaced(words, at, invalid, &format!("cpus={invalid}")));
        }
        return all;
    }
    for (subcommand, before) in BARE {
        if starts_with(words, subcommand) && !invalid.starts_with('-') && at >= subcommand.len() {
            all.push(inserted(words, at, before));
            // A number of workers and then a command.
            let after: Vec<&str> = before.iter().copied().chain([invalid, "--"]).collect();
            all.push([&words[..at], &owned(&after), &words[at + 1..]].concat());
        }
    }
    if WITH_COMMAND.contains(&words[0].as_str()) && at > 0 && !words[at..].iter().any(|word| word == "--") {
        all.push(inserted(words, at, &["--"]));
    }
    if kind == ErrorKind::InvalidSubcommand && at == 0 && program::find(invalid).is_some() {
        all.push(inserted(words, 0, &["run", "--"]));
    }
    all
}

/// Returns the line of `compare` whose command was not quoted: from its first word on, all words are the command.
fn quoted_command(words: &[String], error: &clap::Error) -> Option<Vec<String>> {
    let Some(ContextValue::String(invalid)) = error.get(ContextKind::InvalidArg) else { return None };
    let at = position(words, invalid)?;
    let start = (1..at).find(|&start| program::find(&words[start]).is_some())?;
    let meant = [&words[..start], &[format_command(&words[start..]), "COMMAND B".to_owned()]].concat();
    is_accepted(&meant).then_some(meant)
}

/// Returns the first example of the subcommand that the words name, with the options that are missing.
fn example(words: &[String], error: &clap::Error) -> Option<String> {
    let program = Cli::command();
    let mut command = &program;
    for word in words {
        let Some(nested) = command.find_subcommand(word) else { break };
        command = nested;
    }
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.as_slice(),
        _ => &[],
    };
    let options: Vec<&str> = missing
        .iter()
        .filter_map(|argument| argument.split([' ', '=']).next())
        .filter(|name| name.starts_with("--"))
        .collect();
    let has_all = |example: &String| options.iter().all(|option| example.contains(option));
    help::examples(command).into_iter().find(has_all)
}

/// Returns whether the word is a subcommand that help does not show.
fn is_hidden(word: &str) -> bool {
    Cli::command().find_subcommand(word).is_some_and(clap::Command::is_hide_set)
}

fn is_accepted(words: &[String]) -> bool {
    let program = ["manycore".to_owned()];
    match Cli::try_parse_from(program.iter().chain(words)) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion),
    }
}

/// Returns where the word is that clap found invalid: the word itself, `--option=VALUE` for an option, or for a value.
fn position(words: &[String], invalid: &str) -> Option<usize> {
    let is_it = |word: &String| {
        word == invalid
            || word.split_once('=').is_some_and(|(option, value)| option == invalid || value == invalid)
            || attached_value(word, invalid).is_some()
    };
    words.iter().take_while(|word| *word != "--").position(is_it)
}

/// Returns the value in an option of one letter with its value, such as `-n10`.
fn attached_value<'a>(word: &'a str, option: &str) -> Option<&'a str> {
    let is_short = option.len() == 2 && option.starts_with('-') && !word.starts_with("--");
    word.strip_prefix(option).filter(|value| is_short && !value.is_empty() && !value.starts_with('='))
}

fn replaced(words: &[String], at: usize, invalid: &str, with: &str) -> Vec<String> {
    let word = if words[at] == invalid {
        with.to_owned()
    } else if let Some(value) = attached_value(&words[at], invalid) {
        format!("{with}={value}")
    } else {
        // Only the part that is invalid of --option=VALUE.
        words[at].replacen(invalid, with, 1)
    };
    [&words[..at], &[word], &words[at + 1..]].concat()
}

fn inserted(words: &[String], at: usize, before: &[&str]) -> Vec<String> {
    [&words[..at], &owned(before), &words[at..]].concat()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn starts_with(words: &[String], start: &[&str]) -> bool {
    words.iter().zip(start).filter(|(word, expected)| word == *expected).count() == start.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Option<String> {
        let words: Vec<OsString> = shlex::split(line).unwrap().into_iter().map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).unwrap_err();
        message(&words, &error).and_then(|message| Some(message.lines().last()?.to_owned()))
    }

    #[test]
    fn slips_are_answered_with_the_line_to_type() {
        for (typed, meant) in [
            ("run ./x -p 8", "run -- ./x -p 8"),
            ("run --place close make -j 8", "run --place close -- make -j 8"),
            ("tune ls", "tune -- ls"),
            ("falseshare ./x", "falseshare -- ./x"),
            ("scale 4 ./x", "scale --workers 4 -- ./x"),
            ("scale 1,2,4 ./x --fast", "scale --workers 1,2,4 -- ./x --fast"),
            ("scale ./x", "scale -- ./x"),
            ("pin 812", "pin --pid 812"),
            ("pin 812,813 --place close", "pin --pid 812,813 --place close"),
            ("audit 812", "audit --pid 812"),
            ("plan 8", "plan --workers 8"),
            ("plan spread", "plan --place spread"),
            ("eval noise", "eval --only noise"),
            ("topo build7.machine", "topo --machine build7.machine"),
            ("spawn beam", "spawn --runtime beam"),
            ("irq eth0", "irq show --device eth0"),
            ("irq show eth0", "irq show --device eth0"),
            ("guard 812", "guard why 812"),
            ("qos watch batch", "qos watch --group batch"),
            ("evall --quick", "eval --quick"),
            ("eval --onyl noise", "eval --only noise"),
            ("eval --only nosie", "eval --only noise"),
            ("compare --pair 3 'a' 'b'", "compare --pairs 3 a b"),
            ("compare --runs 3 'a x' 'b'", "compare --pairs 3 'a x' b"),
            ("falseshare --json -- ./x", "falseshare --format=json -- ./x"),
            ("bench lock --seconds 5", "bench lock --budget 5"),
            ("run --place 0-3 -- ./x", "run --place cpus=0-3 -- ./x"),
            ("compare --b=0,2 -- ./x", "compare --b=cpus=0,2 -- ./x"),
            ("qos shwo", "qos show"),
            ("sh -c true", "run -- sh -c true"),
            ("compare -n 10 'a' 'b'", "compare --pairs 10 a b"),
            ("compare -n10 'a' 'b'", "compare --pairs=10 a b"),
            ("run -n 4 -- ./x", "run --workers 4 -- ./x"),
            ("config show", "config"),
            ("config set budget 5m", "config --example"),
            ("topo show", "topo"),
            ("doctor status", "doctor"),
            ("version", "--version"),
        ] {
            let found = answer(&format!("manycore {typed}"));
            assert_eq!(found, Some(format!("Type: manycore {meant}")), "{typed}");
        }
    }

    #[test]
    fn a_command_of_compare_is_quoted() {
        let found = answer("manycore compare --budget 5 sh -c 'exit 1'").unwrap();
        assert_eq!(
            found,
            "Type, with your other command: manycore compare --budget 5 \"sh -c 'exit 1'\" 'COMMAND B'"
        );
    }

    #[test]
    fn what_is_missing_is_answered_with_an_example() {
        assert!(answer("manycore run").unwrap().starts_with("For example: manycore run -- "));
        assert!(
            answer("manycore irq place")
                .unwrap()
                .starts_with("For example: manycore irq place --device eth0")
        );
        assert!(answer("manycore top --per-cpu").unwrap().contains("--serve"));
    }

    #[test]
    fn an_option_with_a_value_is_not_answered_with_one_that_has_none() {
        let found = answer("manycore density --service x --budget 60s");
        assert!(found.as_ref().is_none_or(|line| !line.contains("--quiet")), "{found:?}");
    }

    #[test]
    fn other_errors_are_left_to_clap() {
        for line in
            ["manycore --help", "manycore eval --quick --full", "manycore no-such-subcommand-or-program"]
        {
            assert_eq!(answer(line), None, "{line}");
        }
    }
}
