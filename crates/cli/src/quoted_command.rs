//! Commands that are one quoted word of the command line. They are split as a shell does, and started without one.

use crate::failure::{Failure, Outcome};
use manycore_study::{format_command, split_command};

/// Redirections at the end of a command that change nothing, as its output is not shown.
const DISCARDED: [&str; 9] = [
    "2>&1",
    "&>/dev/null",
    "&> /dev/null",
    "2>/dev/null",
    "2> /dev/null",
    "1>/dev/null",
    "1> /dev/null",
    ">/dev/null",
    "> /dev/null",
];

/// Splits a command into words.
///
/// # Errors
/// [`Failure::Input`] if it cannot be split, or needs a shell: with the word to type instead.
pub fn split(line: &str) -> Outcome<Vec<String>> {
    let words = split_command(line)?;
    // A shell reads the operators in its script.
    let is_script = words[0].ends_with("sh") && words.get(1).is_some_and(|option| option == "-c");
    let Some(operator) = shell_operator(line).filter(|_| !is_script) else { return Ok(words) };
    let (hint, meant) = match without_discarding(line) {
        Some(plain) => {
            let left_out = line[plain.len()..].trim();
            (format!("; its output is not shown, so leave out '{left_out}'"), plain.to_owned())
        }
        None => (String::new(), format_command(&["sh", "-c", line].map(str::to_owned))),
    };
    Err(Failure::input(format!(
        "'{operator}' in '{line}' needs a shell, and commands are started without one{hint}\n\
         Type the command as: {}",
        format_command(&[meant])
    )))
}

/// Returns the start of a command without redirections that change nothing, if it needs no shell then.
fn without_discarding(line: &str) -> Option<&str> {
    let mut plain = line.trim_end();
    while let Some(rest) = DISCARDED.iter().find_map(|end| plain.strip_suffix(end)) {
        plain = rest.trim_end();
    }
    (!plain.is_empty() && plain.len() < line.trim_end().len() && shell_operator(plain).is_none())
        .then_some(plain)
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

    #[test]
    fn operators_of_a_shell_are_found_outside_of_quotes() {
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
    }

    #[test]
    fn commands_that_need_a_shell_are_answered_with_one() {
        let said = |line: &str| split(line).unwrap_err().message().to_owned();
        assert!(
            said("true | cat").ends_with("Type the command as: \"sh -c 'true | cat'\""),
            "{}",
            said("true | cat")
        );
        assert!(split("sh -c \"echo $HOME\"").is_ok());
    }

    #[test]
    fn redirections_that_discard_output_are_left_out() {
        for (line, plain) in [
            ("gzip -c x >/dev/null", Some("gzip -c x")),
            ("gzip -c x > /dev/null 2>&1", Some("gzip -c x")),
            ("gzip -c x &> /dev/null", Some("gzip -c x")),
            ("gzip -c x > y", None),
            ("cat x | gzip > /dev/null", None),
            ("gzip -c x", None),
        ] {
            assert_eq!(without_discarding(line), plain, "{line}");
        }
        let said = split("gzip -c x > /dev/null 2>&1").unwrap_err().message().to_owned();
        assert!(said.contains("leave out '> /dev/null 2>&1'"), "{said}");
        assert!(said.ends_with("Type the command as: 'gzip -c x'"), "{said}");
    }
}
