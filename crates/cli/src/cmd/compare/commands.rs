//! The two commands of `compare`, and the line to type where the command line has not exactly two.

use crate::{
    cli::Compare,
    failure::{Failure, Outcome},
    program, quoted_command,
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
        ([], command, None) => {
            check_single(args, command)?;
            Ok([command.to_vec(), command.to_vec()])
        }
        ([], command, Some(vs)) => Ok([command.to_vec(), quoted_command::split(vs)?]),
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

/// Checks the one command after `--`: that it is not two commands, and not one word for all of its words.
fn check_single(args: &Compare, command: &[String]) -> Outcome {
    let mut parts = command.splitn(2, |word| word == "--");
    if let (Some(a), Some(b)) = (parts.next(), parts.next())
        && !is_varied(args)
        && b.first().is_some_and(|program| program::find(program).is_some())
    {
        let what = "a second -- is part of the command, and does not begin another one";
        return Err(wrong(what, &[&format_command(a), &format_command(b)]));
    }
    let [word] = command else { return Ok(()) };
    match split_command(word) {
        Ok(words)
            if words.len() > 1 && program::find(word).is_none() && program::find(&words[0]).is_some() =>
        {
            let options = if is_varied(args) { "... " } else { "" };
            let plain = format_command(&words);
            Err(Failure::input(format!(
                "there is no program '{word}': a command after -- is not quoted\n\
                 Type: manycore compare {options}-- {plain}"
            )))
        }
        _ => Ok(()),
    }
}

/// Whether options distinguish A from B.
fn is_varied(args: &Compare) -> bool {
    args.a.is_some()
        || args.b.is_some()
        || !args.a_env.is_empty()
        || !args.b_env.is_empty()
        || args.a_memory != args.b_memory
        || args.a_workers.is_some()
        || args.b_workers.is_some()
}

/// The failure of a single quoted command: its other variant is missing, unless options distinguish A from B.
fn only_one(args: &Compare, command: &str) -> Failure {
    let words = split_command(command).unwrap_or_else(|_| vec![command.to_owned()]);
    let plain = format_command(&words);
    if is_varied(args) {
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
    let words = quoted_command::split(line)?;
    program::check(&words[0]).map_err(|why| {
        Failure::input(format!(
            "{why}\nEach of the two commands is one quoted word: manycore compare 'COMMAND A' 'COMMAND B'"
        ))
    })?;
    Ok(words)
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
    fn a_second_escape_is_answered_with_two_commands() {
        let said = refused(&["--", "sh", "-c", "true", "--", "sh", "-c", ":"]);
        assert!(said.ends_with("Type: manycore compare 'sh -c true' 'sh -c :'"), "{said}");
        // Programs take -- themselves.
        assert!(of(&["--", "sh", "-c", "true", "--", "no-such-program"]).is_ok());
        assert!(of(&["--b", "close", "--", "sh", "-c", "true", "--", "sh"]).is_ok());
    }

    #[test]
    fn a_quoted_command_after_the_escape_is_answered_without_quotes() {
        assert!(refused(&["--", "sh -c true"]).ends_with("Type: manycore compare -- sh -c true"));
        assert!(of(&["--", "no such program"]).is_ok(), "the start fails");
    }
}
