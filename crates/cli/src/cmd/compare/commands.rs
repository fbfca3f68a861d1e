//! The two commands of `compare`, and the line to type where the command line has not exactly two.

use crate::{
    cli::Compare,
    failure::{Failure, Outcome},
    program,
};
use manycore_study::{format_command, split_command};

/// Stands in a suggested line for a command that only the user knows.
const OTHER: &str = "COMMAND B";

/// Returns commands A and B: two quoted ones, or the one after `--` with that of `--vs` or itself.
///
/// # Errors
/// [`Failure::Input`] with the line to type.
pub(super) fn commands(args: &Compare) -> Outcome<[Vec<String>; 2]> {
    match (args.commands.as_slice(), args.command.as_slice(), args.vs.as_deref()) {
        ([a, b], [], None) => Ok([quoted(a)?, quoted(b)?]),
        ([], [], None) => Err(wrong("a command is required", &["COMMAND A", OTHER])),
        ([], [], Some(vs)) => Err(wrong("--vs gives only one command", &["COMMAND A", vs])),
        ([], command, None) => Ok([command.to_vec(), command.to_vec()]),
        ([], command, Some(vs)) => Ok([command.to_vec(), split_command(vs)?]),
        ([a], [], Some(vs)) => Err(wrong("--vs is for a command after --", &[a, vs])),
        ([a], [], None) => Err(only_one(args, a)),
        ([a], command, None) => {
            Err(wrong("a command is given before -- and another after it", &[a, &format_command(command)]))
        }
        ([a, b, ..], command, vs) => {
            let count = args.commands.len() + usize::from(!command.is_empty()) + usize::from(vs.is_some());
            Err(wrong(&format!("{count} commands are given, and two are compared"), &[a, b]))
        }
        ([a], command, Some(_)) => {
            Err(wrong("three commands are given, and two are compared", &[a, &format_command(command)]))
        }
    }
}

/// The failure of a single quoted command: its other variant is missing, unless options distinguish A from B.
fn only_one(args: &Compare, command: &str) -> Failure {
    let is_varied = args.a.is_some()
        || args.b.is_some()
        || !args.a_env.is_empty()
        || !args.b_env.is_empty()
        || args.a_memory != args.b_memory;
    let words = split_command(command).unwrap_or_else(|_| vec![command.to_owned()]);
    let plain = format_command(&words);
    if is_varied {
        return Failure::input(format!(
            "one command that is compared with itself follows --\nType the same options with: manycore compare ... -- \
             {plain}"
        ));
    }
    let with_other = format_command(&["manycore", "compare", command, OTHER].map(str::to_owned));
    Failure::input(format!(
        "only one command is given\nType, with your other command: {with_other}\nOr, for two placements of this one: \
         manycore compare --a free --b close -- {plain}"
    ))
}

fn wrong(what: &str, commands: &[&str]) -> Failure {
    let words: Vec<String> =
        ["manycore", "compare"].iter().chain(commands).map(|word| (*word).to_owned()).collect();
    Failure::input(format!("{what}\nType: {}", format_command(&words)))
}

/// Splits a quoted command, and checks that it can be started.
fn quoted(line: &str) -> Outcome<Vec<String>> {
    let words = split_command(line)?;
    if let Some(operator) = shell_operator(line) {
        let in_shell = format_command(&["sh", "-c", line].map(str::to_owned));
        return Err(Failure::input(format!(
            "'{operator}' in '{line}' needs a shell, and commands are started without one\nType the command as: {}",
            format_command(&[in_shell])
        )));
    }
    program::check(&words[0]).map_err(|why| {
        Failure::input(format!(
            "{why}\nEach of the two commands is one quoted word: manycore compare 'COMMAND A' 'COMMAND B'"
        ))
    })?;
    Ok(words)
}

/// Returns the first character with a meaning in a shell that only a shell gives it: a pipe, a redirection, a list, a
/// variable or a pattern outside of quotes.
fn shell_operator(line: &str) -> Option<char> {
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => drop(letters.next()),
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('$' | '`', None | Some('"')) | ('|' | '&' | ';' | '<' | '>' | '(' | ')' | '*', None) => {
                return Some(letter);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn of(words: &[&str]) -> Outcome<[Vec<String>; 2]> {
        use crate::cli::{Cli, Subcommand};
        let all = ["manycore", "compare"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().subcommand {
            Subcommand::Compare(args) => commands(&args),
            other => unreachable!("{other:?}"),
        }
    }

    fn refused(words: &[&str]) -> String {
        of(words).unwrap_err().message().to_owned()
    }

    #[test]
    fn two_quoted_commands_are_a_and_b() {
        let [a, b] = of(&["sh -c 'exit 0'", "sh -c true"]).unwrap();
        assert_eq!(
            (a, b),
            (
                vec!["sh", "-c", "exit 0"].into_iter().map(str::to_owned).collect(),
                ["sh", "-c", "true"].map(str::to_owned).to_vec()
            )
        );
        let [a, b] = of(&["--vs", "false", "--", "true"]).unwrap();
        assert_eq!((a[0].as_str(), b[0].as_str()), ("true", "false"));
        let [a, b] = of(&["--b", "close", "--", "true", "-x"]).unwrap();
        assert_eq!((&a, a.len()), (&b, 2));
    }

    #[test]
    fn other_numbers_of_commands_are_answered_with_the_line_to_type() {
        assert!(refused(&[]).ends_with("Type: manycore compare 'COMMAND A' 'COMMAND B'"));
        let one = refused(&["ls -l"]);
        assert!(one.contains("manycore compare 'ls -l' 'COMMAND B'"), "{one}");
        assert!(one.ends_with("manycore compare --a free --b close -- ls -l"), "{one}");
        assert!(refused(&["--b", "close", "ls -l"]).ends_with("manycore compare ... -- ls -l"));
        assert_eq!(
            refused(&["a", "b x", "c"]),
            "3 commands are given, and two are compared\nType: manycore compare a 'b x'"
        );
        assert!(refused(&["a", "--", "b", "x"]).ends_with("Type: manycore compare a 'b x'"));
        assert!(refused(&["a", "--vs", "b x"]).ends_with("Type: manycore compare a 'b x'"));
    }

    #[test]
    fn commands_that_need_a_shell_are_answered_with_one() {
        for (line, operator) in [
            ("ls > /dev/null", Some('>')),
            ("a | b", Some('|')),
            ("echo \"$HOME\"", Some('$')),
            ("ls *.c", Some('*')),
            ("sh -c 'a | b'", None),
            ("grep \\$x", None),
            ("make -j{workers} 'a;b'", None),
        ] {
            assert_eq!(shell_operator(line), operator, "{line}");
        }
        let said = refused(&["true | cat", "true"]);
        assert!(said.ends_with("Type the command as: \"sh -c 'true | cat'\""), "{said}");
    }
}
