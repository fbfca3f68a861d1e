//! Splits command lines.

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
    fn every_placeholder_is_replaced() {
        let command: Vec<String> = ["make", "-j{workers}", "{workers}"].map(str::to_owned).to_vec();
        assert_eq!(with_workers(&command, 8), (["make", "-j8", "8"].map(str::to_owned).to_vec(), true));
        assert!(!with_workers(&command[..1], 8).1);
    }
}
