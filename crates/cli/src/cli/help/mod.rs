//! The layout of help texts: groups of subcommands, examples first, groups of options, and lines that fit the terminal.
//!
//! The definitions of the command line hold the words: a short line and a paragraph for each subcommand, and below
//! them examples and notes (`after_help`), as the man pages show them. [`arrange`] lays them out for a terminal.

mod example;
mod overview;
mod wrap;

pub use wrap::wrap;

use crate::terminal;
use clap::{Arg, Command, builder::StyledStr};
use example::Example;

/// Number of examples before the options; further ones follow after them.
const FIRST_EXAMPLES: usize = 3;

/// Narrowest and widest layout in columns of a terminal, and the layout where the width is unknown.
const WIDTHS: (usize, usize, usize) = (40, 100, 80);

/// Width of examples and notes on man pages, whose lines begin with an indentation.
const MAN_WIDTH: usize = 73;

/// Indentation of the help of an option below its name.
const LONG_HELP_INDENT: usize = 10;

/// Help with examples before the options.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// Headings of options, which are the same in all subcommands, with the ids of the options. The others are under
/// "Options", first.
const HEADINGS: [(&str, &[&str]); 9] = [
    ("Variants", &["a", "b", "variant", "vs", "parameter", "reference"]),
    ("How long", &["budget", "quick", "standard", "full", "pairs", "count", "interval", "work_time", "once"]),
    ("Method", &["by", "precision", "equivalent", "primary", "sharing", "seed", "settle", "hold", "check"]),
    (
        "Life of a run",
        &[
            "setup",
            "prepare",
            "conclude",
            "cleanup",
            "warmup",
            "input",
            "drop_caches",
            "shell",
            "timeout",
            "ignore_failure",
        ],
    ),
    (
        "Service",
        &[
            "service",
            "service_pid",
            "preset",
            "container_engine",
            "run_options",
            "publish",
            "domain_xml",
            "domain_connect",
            "address",
            "ports",
            "ready",
            "ready_port",
            "ready_limit",
        ],
    ),
    (
        "Load",
        &[
            "connections",
            "pipeline",
            "arrivals",
            "random",
            "load_cpus",
            "load_host",
            "load_program",
            "load_ssh",
        ],
    ),
    ("Input", &["root", "machine", "resctrl", "connect", "mount"]),
    (
        "Output",
        &[
            "format", "color", "verbose", "out", "results", "force", "html", "csv", "svg", "save", "xml",
            "trace", "history", "events", "metrics", "export", "quiet",
        ],
    ),
    ("Help", &["help", "version"]),
];

/// Options under these headings are not in the short help.
const LONG_ONLY: [&str; 5] = ["Method", "Life of a run", "Service", "Load", "Input"];

/// The option of such a heading that is in the short help, as it shows that the others exist.
const SHORT_OPTION: &str = "service";

/// Options of other headings that are not in the short help either, because few users need them.
const LONG_ONLY_OPTIONS: [&str; 18] = [
    "live",
    "results",
    "force",
    "schedulers",
    "settings",
    "memory",
    "unixbench_dir",
    "vs",
    "reference",
    "baseline",
    "fail_if",
    "inconclusive",
    "export",
    "false_discoveries",
    "kinds_by",
    "program",
    "time",
    "wait",
];

/// Returns the width of help in columns: that of the terminal, within limits.
pub fn width() -> usize {
    let (least, most, unknown) = WIDTHS;
    terminal::stdout_columns(unknown).clamp(least, most)
}

/// Lays out the help of the program and of all its subcommands for a terminal of `width` columns.
pub fn arrange(program: Command, width: usize) -> Command {
    let overview = overview::overview(&program, width);
    program.mut_subcommands(|command| arrange_subcommand(command, "manycore", width)).override_help(overview)
}

fn arrange_subcommand(command: Command, parent: &str, width: usize) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = split(&text);
    let (first, more) = examples.split_at(examples.len().min(FIRST_EXAMPLES));
    let mut after = String::new();
    if !more.is_empty() {
        after = format!("{}\n", example::section("More examples:", more, width));
    }
    after += &wrap(notes, width);
    let is_shortened = command.get_arguments().any(|argument| is_long_only(argument.get_id().as_str()));
    let hint =
        if is_shortened { format!("'{path} --help' has examples and more options.") } else { String::new() };
    let hint =
        if hint.is_empty() && !first.is_empty() { format!("'{path} --help' has examples.") } else { hint };
    let command = command
        .mut_args(|option| arrange_option(option, width))
        .mut_subcommands(|nested| arrange_subcommand(nested, &path, width))
        .help_template(TEMPLATE)
        .after_help(wrap(&hint, width).trim_end().to_owned())
        .term_width(width);
    let command = if first.is_empty() {
        command
    } else {
        let examples = example::section("Examples:", first, width);
        command.before_long_help(headed(examples.trim_end()))
    };
    match after.trim_end() {
        // Without a text of its own, the hint of the short help would be shown.
        "" => command.after_long_help(""),
        after => command.after_long_help(headed(after)),
    }
}

/// Lays out the examples and notes of a command and of its subcommands for a man page.
pub fn for_man_page(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = split(&text);
    let command = command.mut_subcommands(for_man_page);
    if examples.is_empty() {
        return command.after_help(wrap(notes, MAN_WIDTH));
    }
    let examples = example::section("Examples:", &examples, MAN_WIDTH);
    command.after_help(format!("{examples}\n{}", wrap(notes, MAN_WIDTH)).trim_end().to_owned())
}

/// Returns the first example in the help of a command.
pub fn examples(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    split(&text).0.iter().map(|example| example.command.clone()).collect()
}

/// Splits the text below the options into examples and notes.
fn split(text: &str) -> (Vec<Example<'_>>, &str) {
    match text.strip_prefix("Examples:\n") {
        Some(rest) => {
            let (examples, notes) = rest.split_once("\n\n").unwrap_or((rest, ""));
            (example::parse(examples), notes)
        }
        None => (Vec::new(), text),
    }
}

fn arrange_option(option: Arg, width: usize) -> Arg {
    let id = option.get_id().as_str().to_owned();
    let text = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let has_summary = option.get_long_help().is_some();
    let option = match first_sentence(&text) {
        Some(short) if !has_summary => option.help(short).long_help(text),
        _ if has_summary => option.long_help(wrap(&text, width - LONG_HELP_INDENT).trim_end().to_owned()),
        _ => option,
    };
    let heading = if option.is_positional() { None } else { heading(&id) };
    let option = match heading {
        Some(heading) => option.help_heading(heading),
        None => option,
    };
    option.hide_short_help(is_long_only(&id))
}

fn heading(id: &str) -> Option<&'static str> {
    HEADINGS.iter().find(|(_, ids)| ids.contains(&id)).map(|(heading, _)| *heading)
}

fn is_long_only(id: &str) -> bool {
    let is_rare = || heading(id).is_some_and(|heading| LONG_ONLY.contains(&heading));
    id != SHORT_OPTION && (LONG_ONLY_OPTIONS.contains(&id) || is_rare())
}

/// Returns the first sentence of a help text of several, with the default at its end.
fn first_sentence(text: &str) -> Option<String> {
    let mut depth = 0;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            '\n' if depth == 0 => return Some(text[..at].trim_end_matches('.').to_owned()),
            ' ' if depth == 0 && before == '.' && starts_sentence(&text[at..]) => {
                let default = text[at..].rfind("[default").map(|start| format!(" {}", &text[at + start..]));
                return Some(text[..at - 1].to_owned() + &default.unwrap_or_default());
            }
            _ => {}
        }
        before = letter;
    }
    None
}

fn starts_sentence(text: &str) -> bool {
    text.trim_start().starts_with(|letter: char| letter.is_uppercase() || letter == '-')
}

/// Sets the headings of a text (lines without indentation that end with a colon) as clap sets its own.
fn headed(text: &str) -> StyledStr {
    let header = clap::builder::Styles::default();
    let header = header.get_header();
    let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ') && !line.contains(". ");
    let line = |line: &str| {
        if is_heading(line) { format!("{header}{line}{header:#}\n") } else { format!("{line}\n") }
    };
    let text: String = text.lines().map(line).collect();
    text.trim_end().to_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn short_help_has_the_first_sentence_and_the_default() {
        let short = |text: &str| first_sentence(text).unwrap();
        assert_eq!(short("Numbers (of a. B) workers. More about it"), "Numbers (of a. B) workers");
        assert_eq!(
            short("Number of workers. More [default: 1, 2, ... All]"),
            "Number of workers [default: 1, 2, ... All]"
        );
        assert_eq!(first_sentence("One sentence, 1, 2, ... and so on"), None);
        assert_eq!(short("First line\n\n  table"), "First line");
    }

    #[test]
    fn every_option_of_a_heading_exists() {
        fn ids(command: &Command, all: &mut Vec<String>) {
            all.extend(command.get_arguments().map(|argument| argument.get_id().to_string()));
            command.get_subcommands().for_each(|command| ids(command, all));
        }
        let mut all = Vec::new();
        let mut program = Cli::command();
        program.build();
        ids(&program, &mut all);
        let expected = HEADINGS.iter().flat_map(|(_, ids)| ids.iter()).chain(&LONG_ONLY_OPTIONS);
        let planned = ["color", "verbose"];
        for id in expected.filter(|id| !planned.contains(id)) {
            assert!(all.iter().any(|known| known == id), "no option has the id {id}");
        }
    }
}
