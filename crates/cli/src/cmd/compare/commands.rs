//! The variants that the command line of `compare` gives, and the line to type where it gives none or too few.

use crate::{
    cli::Compare,
    failure::{Failure, Outcome},
    program,
    shell::Shell,
};
use manycore_study::{format_command, split_command, variant::VariantText};

/// Stands in a suggested line for a command that only the user knows.
const OTHER: &str = "COMMAND B";

/// Returns the variants as they were written: quoted commands, or the forms of the one after `--`.
///
/// # Errors
/// [`Failure::Input`] with the line to type.
pub(super) fn texts(args: &Compare) -> Outcome<Vec<VariantText>> {
    let (vs, shell) = (args.variants.vs.as_deref(), &args.measuring.life.shell);
    if shell.words().is_some() && items(args).any(has_command) {
        return Err(Failure::input(
            "--shell is for quoted commands and the one after --, and cmd= splits its command: write \
             'cmd=sh -c \"...\"' without --shell",
        ));
    }
    match (args.commands.as_slice(), args.command.as_slice(), vs) {
        ([], [], None) if args.variants.is_varied() && commands_are_items(args) => Ok(forms(args, &[])),
        ([], [], None) => Err(wrong("a command is required", &["COMMAND A", OTHER])),
        ([], [], Some(vs)) => Err(wrong("--vs gives only one command", &["COMMAND A", vs])),
        ([], command, None) => {
            if shell.words().is_none() {
                check_single(args, command)?;
            }
            Ok(forms(args, &shell.plain_command(command)))
        }
        ([], command, Some(vs)) => several(args, vec![shell.plain_command(command), shell.command(vs)?]),
        ([a], [], Some(vs)) => Err(wrong("--vs is for a command after --", &[a, vs])),
        ([a], [], None) if !args.variants.parameter.is_empty() && !args.variants.is_varied() => {
            Ok(vec![VariantText { command: quoted(a, shell)?, ..VariantText::default() }])
        }
        ([a], [], None) => Err(only_one(args, a)),
        (commands, [], None) => {
            several(args, commands.iter().map(|command| quoted(command, shell)).collect::<Outcome<_>>()?)
        }
        ([a, ..], command, vs) => {
            let last =
                if command.is_empty() { vs.unwrap_or(OTHER).to_owned() } else { format_command(command) };
            Err(wrong("a command is given before -- and another after it", &[a, &last]))
        }
    }
}

/// Whether each variant has a command of its own, so that none is needed after `--`.
fn commands_are_items(args: &Compare) -> bool {
    (args.variants.a.is_some() == args.variants.b.is_some()) && items(args).all(has_command)
}

/// Returns the items of all variants.
fn items(args: &Compare) -> impl Iterator<Item = &str> {
    let sides = [&args.variants.a, &args.variants.b];
    let listed = args.variants.variant.iter().map(|text| text.items.as_str());
    sides.into_iter().flatten().map(String::as_str).chain(listed)
}

fn has_command(items: &str) -> bool {
    items.starts_with("cmd=") || items.contains(",cmd=")
}

/// Returns the variants of one command: A, B and the listed ones, or only these. One with parameters is multiplied by
/// them, and one that nothing distinguishes is compared with itself.
fn forms(args: &Compare, command: &[String]) -> Vec<VariantText> {
    let options = &args.variants;
    let side = |items: &Option<String>| VariantText {
        command: command.to_vec(),
        items: items.clone().unwrap_or_default(),
        ..VariantText::default()
    };
    let has_sides = options.a.is_some() || options.b.is_some();
    let mut texts = match (has_sides, options.is_varied(), options.parameter.is_empty()) {
        (true, ..) | (false, false, true) => vec![side(&options.a), side(&options.b)],
        (false, false, false) => vec![side(&None)],
        (false, true, _) => Vec::new(),
    };
    let listed = options.variant.iter().cloned();
    texts.extend(listed.map(|text| VariantText { command: command.to_vec(), ..text }));
    texts
}

/// Returns a variant for each command; options may say more of the first two.
fn several(args: &Compare, commands: Vec<Vec<String>>) -> Outcome<Vec<VariantText>> {
    let options = &args.variants;
    if !options.variant.is_empty() {
        let first = commands.first().map(|command| format_command(command)).unwrap_or_default();
        return Err(Failure::input(format!(
            "--variant is for one command after --, and {} are given\nType, for each other command: manycore compare \
             --variant base= --variant 'cmd=...' -- {first}",
            commands.len()
        )));
    }
    let mut items = [&options.a, &options.b].into_iter().map(|items| items.clone().unwrap_or_default());
    let text =
        |command| VariantText { command, items: items.next().unwrap_or_default(), ..VariantText::default() };
    Ok(commands.into_iter().map(text).collect())
}

/// Checks the one command after `--`: that it is not two commands, and not one word for all of its words.
fn check_single(args: &Compare, command: &[String]) -> Outcome {
    let mut parts = command.splitn(2, |word| word == "--");
    if let (Some(a), Some(b)) = (parts.next(), parts.next())
        && !args.variants.is_varied()
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
            let options = if args.variants.is_varied() { "... " } else { "" };
            let plain = format_command(&words);
            Err(Failure::input(format!(
                "there is no program '{word}': a command after -- is not quoted\n\
                 Type: manycore compare {options}-- {plain}"
            )))
        }
        _ => Ok(()),
    }
}

/// The failure of a single quoted command: its other variant is missing, unless options distinguish A from B.
fn only_one(args: &Compare, command: &str) -> Failure {
    let words = split_command(command).unwrap_or_else(|_| vec![command.to_owned()]);
    let plain = format_command(&words);
    if args.variants.is_varied() {
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
fn quoted(line: &str, shell: &Shell) -> Outcome<Vec<String>> {
    let words = shell.command(line)?;
    // The value of a parameter may be the program.
    if !words[0].contains('{') {
        program::check(&words[0]).map_err(|why| {
            Failure::input(format!(
                "{why}\nEach of the commands is one quoted word: manycore compare 'COMMAND A' 'COMMAND B'"
            ))
        })?;
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn of(words: &[&str]) -> Outcome<Vec<VariantText>> {
        use crate::cli::{Cli, Subcommand};
        let all = ["manycore", "compare"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().subcommand {
            Subcommand::Compare(args) => texts(&args),
            other => unreachable!("{other:?}"),
        }
    }

    fn refused(words: &[&str]) -> String {
        of(words).unwrap_err().message().to_owned()
    }

    #[test]
    fn two_quoted_commands_are_a_and_b() {
        let words = |words: &[&str]| -> Vec<Vec<String>> {
            of(words).unwrap().into_iter().map(|text| text.command).collect()
        };
        assert_eq!(words(&["sh -c 'exit 0'", "sh -c true"]), [["sh", "-c", "exit 0"], ["sh", "-c", "true"]]);
        assert_eq!(words(&["--vs", "false", "--", "true"]), [["true"], ["false"]]);
        assert_eq!(words(&["--b", "close", "--", "true", "-x"]), [["true", "-x"]; 2]);
        assert_eq!(words(&["sh -c 1", "sh -c 2", "sh -c 3"]).len(), 3);
    }

    #[test]
    fn one_command_has_the_forms_that_options_give() {
        let items = |words: &[&str]| -> Vec<String> {
            of(words).unwrap().into_iter().map(|text| text.items).collect()
        };
        assert_eq!(items(&["--a", "free", "--variant", "nice=5", "--", "true"]), ["free", "", "nice=5"]);
        assert_eq!(items(&["--variant", "base=", "--variant", "x=close", "--", "true"]), ["", "close"]);
        assert_eq!(items(&["--parameter", "n=1,2", "--", "sleep", "{n}"]), [""]);
        assert_eq!(items(&["--parameter", "n=1,2", "sleep {n}"]), [""]);
        assert_eq!(items(&["--a", "cmd=true", "--b", "cmd=false"]), ["cmd=true", "cmd=false"]);
        assert_eq!(items(&["--b", "nice=5", "sh -c 1", "sh -c 2", "sh -c 3"]), ["", "nice=5", ""]);
        assert!(
            refused(&["--variant", "close", "sh -c 1", "sh -c 2"]).contains("--variant is for one command")
        );
    }

    #[test]
    fn other_numbers_of_commands_are_answered_with_the_line_to_type() {
        assert!(refused(&[]).ends_with("Type: manycore compare 'COMMAND A' 'COMMAND B'"));
        let one = refused(&["ls -l"]);
        assert!(one.contains("manycore compare 'ls -l' 'COMMAND B'"), "{one}");
        assert!(one.ends_with("manycore compare --a free --b close -- ls -l"), "{one}");
        assert!(refused(&["--b", "close", "ls -l"]).ends_with("manycore compare ... -- ls -l"));
        assert!(
            refused(&["sh -c 1", "no-such x", "sh"]).ends_with("manycore compare 'COMMAND A' 'COMMAND B'")
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
