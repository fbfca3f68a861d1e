//! The shell that runs commands, if any.

use crate::{
    failure::{Failure, Outcome},
    program, quoted_command,
};
use manycore_study::{format_command, split_command};
use std::str::FromStr;

/// A shell, as program and arguments; none starts commands directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shell(Option<Vec<String>>);

impl Shell {
    /// Returns its program and arguments; nothing if commands are started directly.
    pub fn words(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    /// Returns a command that was typed as one word: split as a shell does, or for the shell to read.
    ///
    /// # Errors
    /// [`Failure::Input`] if it cannot be split, or needs a shell and there is none.
    pub fn command(&self, line: &str) -> Outcome<Vec<String>> {
        match &self.0 {
            None => quoted_command::split(line),
            Some(_) if line.trim().is_empty() => Err(manycore_study::Error::EmptyCommand.into()),
            Some(shell) => Ok(with_script(shell, line)),
        }
    }

    /// Returns a command that was typed as several words. With a shell, one word is its script.
    pub fn plain_command(&self, words: &[String]) -> Vec<String> {
        match (&self.0, words) {
            (None, words) => words.to_vec(),
            (Some(shell), [script]) => with_script(shell, script),
            (Some(shell), words) => with_script(shell, &format_command(words)),
        }
    }
}

fn with_script(shell: &[String], script: &str) -> Vec<String> {
    shell.iter().cloned().chain(["-c".to_owned(), script.to_owned()]).collect()
}

impl FromStr for Shell {
    type Err = String;

    /// Parses `none`, or the program of a shell with its options.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let words = split_command(text).map_err(|error| error.to_string())?;
        program::check(&words[0])?;
        Ok(Self(Some(words)))
    }
}

/// Returns the command for each of `variants` variants of an option that may be given once for all, or once for each.
///
/// # Errors
/// [`Failure::Input`] for another number, or a command that cannot be split.
pub fn for_each_variant(
    option: &str,
    lines: &[String],
    variants: usize,
    shell: &Shell,
) -> Outcome<Vec<Option<Vec<String>>>> {
    let commands: Vec<Vec<String>> = lines.iter().map(|line| shell.command(line)).collect::<Outcome<_>>()?;
    match commands.as_slice() {
        [] => Ok(vec![None; variants]),
        [one] => Ok(vec![Some(one.clone()); variants]),
        all if all.len() == variants => Ok(all.iter().cloned().map(Some).collect()),
        all => {
            let each = if variants == 1 {
                String::new()
            } else {
                format!(", or {variants} times, once for each variant")
            };
            Err(Failure::input(format!("{option} is given {} times: give it once{each}", all.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_shell_reads_its_script() {
        let none: Shell = "none".parse().unwrap();
        assert_eq!(none.command("ls -l").unwrap(), words("ls -l"));
        assert!(none.command("ls | wc").is_err() && none.words().is_none());
        let shell: Shell = "sh -e".parse().unwrap();
        assert_eq!(shell.command("ls | wc").unwrap(), ["sh", "-e", "-c", "ls | wc"]);
        assert_eq!(shell.plain_command(&["ls | wc".to_owned()]), ["sh", "-e", "-c", "ls | wc"]);
        assert_eq!(shell.plain_command(&["ls".to_owned(), "a b".to_owned()]), ["sh", "-e", "-c", "ls 'a b'"]);
        assert!(shell.command(" ").is_err());
        assert!("no-such-shell".parse::<Shell>().unwrap_err().contains("there is no program"));
    }

    #[test]
    fn an_option_given_once_holds_for_all_variants() {
        let of = |lines: &[&str], variants| {
            let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            for_each_variant("--prepare", &lines, variants, &Shell::default())
        };
        assert_eq!(of(&[], 2).unwrap(), [None, None]);
        assert_eq!(of(&["sync"], 2).unwrap(), [Some(words("sync")), Some(words("sync"))]);
        assert_eq!(of(&["a 1", "b 2"], 2).unwrap(), [Some(words("a 1")), Some(words("b 2"))]);
        let refused = of(&["a", "b", "c"], 2).unwrap_err().message().to_owned();
        assert_eq!(refused, "--prepare is given 3 times: give it once, or 2 times, once for each variant");
        let refused = of(&["a", "b"], 1).unwrap_err().message().to_owned();
        assert_eq!(refused, "--prepare is given 2 times: give it once");
    }
}
