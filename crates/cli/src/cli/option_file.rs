//! A TOML file with the options of a subcommand: `max = 32` is `--max 32`, `quiet = true` is `--quiet`, and each value of a
//! list is one option.

use crate::failure::{Failure, Outcome};
use clap::Command;
use manycore_linux::input_file;
use manycore_text::names::{instead, printable};
use std::{
    ffi::{OsStr, OsString},
    ops::Range,
    path::Path,
};
use toml::{Table, Value};

/// Size limit in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The options of a preset, by its name.
pub const PRESETS: [(&str, &str); 1] = [("redis-document", include_str!("presets/redis-document.toml"))];

/// Returns the words of a command line in which the options of the file take the place of its path. They come first, so
/// that those of the command line have precedence.
///
/// # Errors
/// [`Failure::Input`] for a file that cannot be read, and for keys that are no options of the subcommand.
pub fn expand(words: &[OsString], subcommand: &Command, path: &Path) -> Outcome<Vec<OsString>> {
    let wrong = |why: String| Failure::input(format!("{}: {why}", path.display()));
    let bytes = input_file::read(path, MAX_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8 text".to_owned()))?;
    let options = parse(&text, subcommand).map_err(wrong)?;
    // The path is the last word that is equal to it: an earlier one may be the value of an option.
    let at = words.iter().rposition(|word| word.as_os_str() == OsStr::new(path));
    Ok(replaced(words, subcommand, &options, at.map_or(0..0, |at| at..at + 1)))
}

/// Returns the words of a command line with the options of a preset in place of `--preset NAME`.
///
/// # Errors
/// [`Failure::Input`] for a preset that does not exist.
pub fn expand_preset(words: &[OsString], subcommand: &Command, name: &str) -> Outcome<Vec<OsString>> {
    let preset = PRESETS.iter().find(|(known, _)| *known == name);
    let (_, text) = preset.ok_or_else(|| Failure::input(format!("there is no preset '{name}'")))?;
    let options = parse(text, subcommand).map_err(Failure::input)?;
    let joined = format!("--preset={name}");
    let at = words.iter().position(|word| word == "--preset" || *word == *joined);
    let range = at.map_or(0..0, |at| at..at + if words[at] == "--preset" { 2 } else { 1 });
    Ok(replaced(words, subcommand, &options, range))
}

/// Returns words with options behind the name of the subcommand, and without those at `left_out`.
fn replaced(
    words: &[OsString],
    subcommand: &Command,
    options: &[OsString],
    left_out: Range<usize>,
) -> Vec<OsString> {
    let begin = words.iter().position(|word| word == subcommand.get_name()).map_or(words.len(), |at| at + 1);
    let rest = words.iter().enumerate().skip(begin).filter(|(at, _)| !left_out.contains(at));
    words[..begin].iter().chain(options).chain(rest.map(|(_, word)| word)).cloned().collect()
}

fn parse(text: &str, subcommand: &Command) -> Result<Vec<OsString>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        format!("line {line}: {}", printable(error.message()))
    })?;
    options(&table, subcommand)
}

fn options(table: &Table, subcommand: &Command) -> Result<Vec<OsString>, String> {
    let known: Vec<&str> = subcommand.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let mut words = Vec::new();
    for (key, value) in table {
        let name = key.replace('_', "-");
        if !known.contains(&name.as_str()) {
            let key = printable(key);
            return Err(format!(
                "'{key}' is no option of {}: {}",
                subcommand.get_name(),
                instead(known, &name)
            ));
        }
        let all = if let Value::Array(all) = value { all.as_slice() } else { std::slice::from_ref(value) };
        for one in all {
            let text = match one {
                Value::Boolean(true) => {
                    words.push(format!("--{name}").into());
                    continue;
                }
                Value::Boolean(false) => continue,
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                _ => return Err(format!("{name}: expected text, a number, true, false or a list of these")),
            };
            words.push(format!("--{name}={text}").into());
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn expanded(file: &str, line: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spec.toml");
        std::fs::write(&path, file).unwrap();
        let words: Vec<OsString> = line
            .split(' ')
            .map(|word| if word == "FILE" { path.clone().into() } else { word.into() })
            .collect();
        let program = Cli::command();
        let subcommand = program.find_subcommand("density").unwrap();
        let words = expand(&words, subcommand, &path).map_err(|error| error.message().to_owned())?;
        Ok(words.join(OsStr::new(" ")).to_string_lossy().into_owned())
    }

    #[test]
    fn options_of_the_file_come_before_those_of_the_line() {
        let file = "max = 8\ncpu_limit = 0.5\nquiet = true\nverbose = false\nvariant = ['free', 'close']\n";
        let line = expanded(file, "manycore --color never density --max 4 FILE --quiet").unwrap();
        assert_eq!(
            line,
            "manycore --color never density --cpu-limit=0.5 --max=8 --quiet --variant=free --variant=close --max 4 --quiet"
        );
    }

    #[test]
    fn presets_are_valid_and_come_before_the_line() {
        let program = Cli::command();
        let subcommand = program.find_subcommand("density").unwrap();
        for (name, _) in PRESETS {
            for line in [
                format!("manycore density --preset {name} --max 4"),
                format!("manycore density --preset={name} --max 4"),
            ] {
                let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
                let words = expand_preset(&words, subcommand, name).unwrap();
                assert!(words.ends_with(&["--max".into(), "4".into()]) && words.len() > 5, "{words:?}");
                assert!(Cli::from_words(&words).is_ok(), "{words:?}");
            }
        }
    }

    #[test]
    fn what_is_no_option_is_named() {
        let said = |file: &str| expanded(file, "manycore density FILE").unwrap_err();
        assert!(said("mx = 3").contains("'mx' is no option of density"), "{}", said("mx = 3"));
        assert!(said("max = ").contains("spec.toml: line 1"), "{}", said("max = "));
        assert!(said("[max]\na = 1").contains("max: expected text"));
    }
}
