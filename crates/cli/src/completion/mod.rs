//! Shell completion: what can stand at the end of a command line.
//!
//! The scripts of `manycore completions` call the hidden subcommand `complete` with the words before the cursor. The
//! answer has a line for each word that can follow, or says that the shell itself completes: files, directories, or the
//! command after `--`. The shell knows how to quote names of files; we do not offer them.
//!
//! Names from the machine (devices, domains, groups) are chosen by others. A shell inserts a completed word as it is,
//! so only names of harmless characters are offered ([`is_safe`]).

mod line;
mod names;
mod values;

pub use line::split;
pub use names::{MachineNames, Names};

use clap::{Arg, ArgAction, Command};

/// Scripts that register the completion with a shell.
pub const BASH: &str = include_str!("manycore.bash");
/// For zsh.
pub const ZSH: &str = include_str!("manycore.zsh");
/// For fish.
pub const FISH: &str = include_str!("manycore.fish");

/// What can stand at the cursor.
#[derive(Debug, PartialEq, Eq)]
pub enum Completion {
    /// These words, each with a description.
    Words(Vec<Word>),
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A command of the shell, with its arguments.
    Command,
}

/// A word with its description, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The whole word.
    pub text: String,
    /// What it means, in one line.
    pub about: String,
}

impl Word {
    fn new(text: impl Into<String>, about: impl Into<String>) -> Self {
        Self { text: text.into(), about: about.into() }
    }
}

/// Whether a shell takes a word literally: letters, digits, and punctuation without a meaning.
pub fn is_safe(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    !word.is_empty() && word.chars().all(is_plain)
}

/// Returns what can stand at the end of a command line. `words` begins with the program; the last one is the word at
/// the cursor, which may be empty.
pub fn complete(program: &Command, words: &[String], names: &dyn Names) -> Completion {
    let (current, before) = words.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let position = Position::after(program, before.get(1..).unwrap_or_default());
    match position.at(current, names) {
        Completion::Words(mut words) => {
            // A word that goes on is no completion of itself: a shell would put a space behind it.
            let is_more = |word: &Word| word.text != current || !current.ends_with('=');
            words.retain(|word| word.text.starts_with(current) && is_safe(&word.text) && is_more(word));
            Completion::Words(words)
        }
        other => other,
    }
}

/// The place in the definition of the command line after some words.
struct Position<'a> {
    command: &'a Command,
    /// Names of the subcommand and those above it.
    path: Vec<&'a str>,
    /// The option whose value follows.
    option: Option<&'a Arg>,
    /// Number of arguments that are not options.
    positional: usize,
    /// Whether `--` was given.
    is_escaped: bool,
}

impl<'a> Position<'a> {
    fn after(program: &'a Command, words: &[String]) -> Self {
        let mut position =
            Self { command: program, path: Vec::new(), option: None, positional: 0, is_escaped: false };
        for word in words {
            position.take(word);
        }
        position
    }

    fn take(&mut self, word: &str) {
        if self.is_escaped {
            return;
        }
        if let Some(option) = self.option.filter(|_| !word.starts_with('-')) {
            // An option with several values, such as `--place close spread`.
            self.option = Some(option).filter(|option| has_several_values(option));
            return;
        }
        self.option = None;
        if word == "--" {
            self.is_escaped = true;
        } else if let Some(name) = word.strip_prefix("--") {
            self.option = find_option(self.command, name)
                .filter(|option| needs_value(option) || has_several_values(option));
        } else if word.starts_with('-') {
            // Options of one letter take no values.
        } else if let Some(nested) = self.command.find_subcommand(word) {
            self.command = nested;
            self.path.push(nested.get_name());
            self.positional = 0;
        } else {
            self.positional += 1;
        }
    }

    fn at(&self, current: &str, names: &dyn Names) -> Completion {
        if self.is_escaped {
            return Completion::Command;
        }
        if let Some(option) = self.option.filter(|_| !current.starts_with('-')) {
            return values::values(&self.path, option, current, names);
        }
        if let Some((name, value)) = current.strip_prefix("--").and_then(|option| option.split_once('=')) {
            let found = find_option(self.command, name).filter(|option| takes_value(option));
            let values = found.map(|option| values::values(&self.path, option, value, names));
            return match values {
                Some(Completion::Words(words)) => Completion::Words(prefixed(words, &format!("--{name}="))),
                Some(other) => other,
                None => Completion::Words(Vec::new()),
            };
        }
        if current.starts_with('-') {
            return Completion::Words(self.options());
        }
        let mut words = self.subcommands();
        if let Some(argument) = self.argument() {
            match values::values(&self.path, argument, current, names) {
                Completion::Words(values) => words.extend(values),
                other if words.is_empty() => return other,
                _ => {}
            }
        }
        if words.is_empty() { Completion::Words(self.options()) } else { Completion::Words(words) }
    }

    fn subcommands(&self) -> Vec<Word> {
        let visible = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        visible
            .filter(|_| self.positional == 0)
            .map(|command| Word::new(command.get_name(), first_line(command.get_about())))
            .collect()
    }

    fn options(&self) -> Vec<Word> {
        let visible = self.command.get_arguments().filter(|option| !option.is_hide_set());
        let option = |option: &Arg| {
            Some(Word::new(format!("--{}", option.get_long()?), first_line(option.get_help())))
        };
        let takes_command = self.command.get_positionals().any(Arg::is_last_set);
        let escape = takes_command.then(|| Word::new("--", "the command follows"));
        visible.filter_map(option).chain(escape).collect()
    }

    /// Returns the next argument that is not an option; the last one may repeat.
    fn argument(&self) -> Option<&'a Arg> {
        let arguments: Vec<&Arg> =
            self.command.get_positionals().filter(|argument| !argument.is_last_set()).collect();
        let repeats = |argument: &&Arg| matches!(argument.get_action(), ArgAction::Append);
        arguments.get(self.positional).copied().or_else(|| arguments.last().copied().filter(repeats))
    }
}

fn find_option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|option| option.get_long() == Some(name))
}

fn takes_value(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append)
}

fn needs_value(option: &Arg) -> bool {
    takes_value(option) && option.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn has_several_values(option: &Arg) -> bool {
    takes_value(option) && option.get_num_args().is_some_and(|count| count.max_values() > 1)
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split(['\n', '\t']).next().unwrap_or_default().trim_end_matches('.').to_owned()
}

fn prefixed(words: Vec<Word>, prefix: &str) -> Vec<Word> {
    words.into_iter().map(|word| Word { text: format!("{prefix}{}", word.text), ..word }).collect()
}

#[cfg(test)]
mod tests {
    use super::{names::test::FixedNames, *};
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn at(line: &str) -> Completion {
        let mut program = Cli::command();
        program.build();
        complete(&program, &split(line), &FixedNames)
    }

    fn words(line: &str) -> Vec<String> {
        match at(line) {
            Completion::Words(words) => words.into_iter().map(|word| word.text).collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn subcommands_options_and_values() {
        assert_eq!(words("manycore ev"), ["eval"]);
        assert_eq!(words("manycore qos pr"), ["prove"]);
        assert_eq!(words("manycore eval --st"), ["--standard"]);
        assert_eq!(words("manycore eval --only no"), ["noise"]);
        assert_eq!(words("manycore eval --only noise,la"), ["noise,latency"]);
        assert_eq!(words("manycore bench lo"), ["lock"]);
        assert_eq!(words("manycore schema pl"), ["placement-trace", "plan"]);
        assert_eq!(words("manycore spawn --runtime=be"), ["--runtime=beam"]);
        assert_eq!(words("manycore plan --as dock"), ["docker"]);
        assert!(words("manycore compare --metric red").contains(&"redis-benchmark".to_owned()));
        assert!(words("manycore run -").contains(&"--".to_owned()));
        assert!(
            !words("manycore ").iter().any(|word| ["worker", "man", "complete"].contains(&word.as_str()))
        );
    }

    #[test]
    fn placements_with_the_devices_and_nodes_of_the_machine() {
        assert_eq!(words("manycore run --place cl"), ["close"]);
        assert_eq!(words("manycore compare --a near=e"), ["near=eth0"]);
        assert_eq!(words("manycore compare --b=near=no"), ["--b=near=node0", "--b=near=node1"]);
        assert!(words("manycore tune --place close spread@l").contains(&"spread@llc".to_owned()));
        assert!(words("manycore run --place close").contains(&"close+nosmt".to_owned()));
        assert_eq!(words("manycore scale --memory bind="), ["bind=0", "bind=1"]);
    }

    #[test]
    fn schedulers_of_variants_and_those_that_are_installed() {
        let own = ["sched=kernel", "sched=cluster:spread", "sched=cluster:pack", "sched=scx_lavd"];
        assert_eq!(words("manycore compare --b sched="), own);
        assert_eq!(
            words("manycore compare --variant sched=cl"),
            ["sched=cluster:spread", "sched=cluster:pack"]
        );
        assert_eq!(words("manycore tune --schedulers scx"), ["scx_lavd"]);
    }

    /// Regression test: the shell put a space behind `cpus=`.
    #[test]
    fn a_word_that_goes_on_is_no_completion_of_itself() {
        assert_eq!(words("manycore compare --a cp"), ["cpus="]);
        assert_eq!(words("manycore compare --a cpus="), [""; 0]);
        assert_eq!(words("manycore compare --b=cpus="), [""; 0]);
    }

    #[test]
    fn results_are_named_and_other_files_follow() {
        assert_eq!(words("manycore report "), ["latest", "compare-2", "eval-1"]);
        assert_eq!(words("manycore report eval-1 co"), ["compare-2"]);
        assert_eq!(at("manycore report ../"), Completion::File);
        assert_eq!(at("manycore report host7/re"), Completion::File);
    }

    #[test]
    fn names_of_the_machine() {
        assert_eq!(words("manycore irq show --device e"), ["eth0"]);
        assert_eq!(words("manycore qos set --domain "), ["web1"]);
        assert_eq!(words("manycore vm check "), ["web1"]);
        assert_eq!(words("manycore qos watch --group "), ["/", "batch"]);
        assert_eq!(words("manycore qos set --unit ng"), ["nginx.service"]);
    }

    #[test]
    fn files_directories_and_commands_are_completed_by_the_shell() {
        assert_eq!(at("manycore topo --machine x"), Completion::File);
        assert_eq!(at("manycore topo --machine=x"), Completion::File);
        assert_eq!(at("manycore eval --out "), Completion::Directory);
        assert_eq!(at("manycore topo --save "), Completion::File);
        assert_eq!(at("manycore run --place close -- "), Completion::Command);
        assert_eq!(at("manycore run -- ls --co"), Completion::Command);
    }

    #[test]
    fn names_with_a_meaning_in_a_shell_are_not_offered() {
        for name in ["$(reboot)", "a b", "a;b", "`x`", "a'b", "a\nb", "", "é", "a*", "~root"] {
            assert!(!is_safe(name), "{name}");
        }
        assert!(is_safe("0000:03:00.0") && is_safe("near=eth0+nosmt") && is_safe("/"));
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,60}") {
            let _ = at(&line);
            let _ = at(&format!("manycore {line}"));
        }
    }
}
