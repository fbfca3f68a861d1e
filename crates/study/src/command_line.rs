//! Splits and formats command lines.

use crate::error::{Error, Result};

/// Splits a command line into words as a shell does, without running a shell.
///
/// # Errors
/// [`Error::OpenQuote`], [`Error::EmptyCommand`].
pub fn split_command(line: &str) -> Result<Vec<String>> {
    match shlex::split(line) {
        Some(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(words),
        Some(_) => Err(Error::EmptyCommand),
        None => Err(Error::OpenQuote(line.to_owned())),
    }
}

/// Formats a command so that it can be typed into a shell. Only words that a shell would change are quoted.
pub fn format_command(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./{}-".contains(c))
    };
    let quoted = |word: &String| {
        if plain(word) {
            word.clone()
        } else {
            shlex::try_quote(word).map_or_else(|_| word.clone(), Into::into)
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Replaces every `{workers}` in `command`. Also returns whether there was one.
pub fn with_workers(command: &[String], workers: usize) -> (Vec<String>, bool) {
    const PLACEHOLDER: &str = "{workers}";
    let filled = command.iter().map(|word| word.replace(PLACEHOLDER, &workers.to_string())).collect();
    (filled, command.iter().any(|word| word.contains(PLACEHOLDER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_does() {
        assert_eq!(split_command("sh -c 'echo \"a b\"'").unwrap(), ["sh", "-c", "echo \"a b\""]);
        assert!(
            split_command("sh -c 'open").is_err()
                && split_command(" ").is_err()
                && split_command("''").is_err()
        );
    }

    #[test]
    fn lines_are_quoted_only_where_it_matters() {
        let words = ["sh", "-c", "a b", "--x=1", "", "it's"].map(str::to_owned);
        assert_eq!(format_command(&words), "sh -c 'a b' --x=1 '' \"it's\"");
    }

    #[test]
    fn every_placeholder_is_replaced() {
        let command: Vec<String> = ["make", "-j{workers}", "{workers}"].map(str::to_owned).to_vec();
        assert_eq!(with_workers(&command, 8), (["make", "-j8", "8"].map(str::to_owned).to_vec(), true));
        assert!(!with_workers(&command[..1], 8).1);
    }
}
