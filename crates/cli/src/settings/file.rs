//! `~/.config/manycore/config.toml`.

use super::{Origin, Setting, table};
use crate::failure::{Failure, Outcome};
use clap::Command;
use manycore_linux::trusted_file;
use manycore_text::names::{printable, similar};
use rustix::fs::{Mode, OFlags, open};
use std::{
    cell::LazyCell,
    env,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Size limit in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A file with all settings, as comments.
pub const EXAMPLE: &str = include_str!("example.toml");

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    NoHome,
    /// There is none at this path.
    Absent(PathBuf),
    /// It cannot be read, or other users can change it.
    Ignored {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It was read.
    Read(PathBuf),
}

impl FileState {
    /// Returns the path of the file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::NoHome => None,
            Self::Absent(path) | Self::Ignored { path, .. } | Self::Read(path) => Some(path),
        }
    }
}

/// Reads the file of this user.
///
/// # Errors
/// [`Failure::Input`] with the line that is wrong.
pub(super) fn load(program: &LazyCell<Command>) -> Outcome<(FileState, Vec<Setting>)> {
    let Some(path) = path(|name| env::var_os(name).map(PathBuf::from)) else {
        return Ok((FileState::NoHome, Vec::new()));
    };
    let text = match read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok((FileState::Absent(path), Vec::new())),
        Err(reason) => return Ok((FileState::Ignored { path, reason }, Vec::new())),
    };
    let home = env::var("HOME").ok();
    let settings = parse(&text, program, home.as_deref())
        .map_err(|(line, why)| Failure::input(format!("{}:{line}: {why}", path.display())))?;
    Ok((FileState::Read(path), settings))
}

/// Returns the path of the file. As the specification of XDG says, relative paths are not valid.
fn path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("manycore/config.toml"))
}

/// Reads the file if no other user can change it. As root with the home of another user, it is that user's file.
fn read(path: &Path) -> Result<Option<String>, String> {
    // Opening a FIFO must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(file) => File::from(file),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    trusted_file::check(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|status| status.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let mut text = String::new();
    match file.take(MAX_BYTES + 1).read_to_string(&mut text) {
        Err(error) => Err(error.to_string()),
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(format!("it is larger than {} KiB", MAX_BYTES >> 10)),
        Ok(_) => Ok(Some(text)),
    }
}

/// A line, and what is wrong with it.
type Wrong = (usize, String);

/// Parses a file: settings for all subcommands, and tables of subcommands.
fn parse(text: &str, program: &Command, home: Option<&str>) -> Result<Vec<Setting>, Wrong> {
    let line_of = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
    let parsed = DeTable::parse(text)
        .map_err(|error| (line_of(error.span().map_or(0, |span| span.start)), printable(error.message())))?;
    let mut settings = Vec::new();
    let reader = TableReader { line_of: &line_of, home };
    reader.read(parsed.get_ref(), program, &[], &mut settings)?;
    // Those of a nested table have precedence over those of the tables around it.
    settings.sort_by_key(|setting: &Setting| setting.subcommand.len());
    Ok(settings)
}

struct TableReader<'a> {
    line_of: &'a dyn Fn(usize) -> usize,
    home: Option<&'a str>,
}

impl TableReader<'_> {
    fn read(
        &self,
        table: &DeTable,
        command: &Command,
        path: &[String],
        out: &mut Vec<Setting>,
    ) -> Result<(), Wrong> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let line = (self.line_of)(key.span().start);
            if let DeValue::Table(nested) = value.get_ref() {
                let known =
                    command.find_subcommand(name).filter(|_| !path.is_empty() || super::are_used_by(name));
                let known = known.ok_or_else(|| (line, unknown_table(command, name, path)))?;
                self.read(nested, known, &[path, &[name.to_owned()]].concat(), out)?;
                continue;
            }
            if !is_known(command, name, path.is_empty()) {
                return Err((line, unknown_setting(command, name, path)));
            }
            let values = self.values(value).map_err(|why| (line, format!("{}: {why}", printable(name))))?;
            let subcommand = path.to_vec();
            out.push(Setting { subcommand, name: name.to_owned(), values, origin: Origin::Line(line) });
        }
        Ok(())
    }

    fn values(&self, value: &Spanned<DeValue>) -> Result<Vec<String>, String> {
        let one = |value: &DeValue| match value {
            DeValue::String(text) => Ok(self.with_home(text)),
            DeValue::Integer(number) => Ok(number.as_str().to_owned()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(switch) => Ok(switch.to_string()),
            other => Err(format!("expected a text, a number, or true or false, not {}", other.type_str())),
        };
        match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| one(value.get_ref())).collect(),
            value => Ok(vec![one(value)?]),
        }
    }

    /// Returns a text with `~/` at its start replaced by the home directory.
    fn with_home(&self, text: &str) -> String {
        match (text.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => format!("{home}/{rest}"),
            _ => text.to_owned(),
        }
    }
}

/// Whether a setting exists: for all subcommands, or as an option of one.
fn is_known(command: &Command, name: &str, for_all: bool) -> bool {
    if for_all {
        return table::GLOBAL.iter().any(|known| known.name == name);
    }
    table::may_be_set(name) && has_option(command, name)
}

fn has_option(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|option| option.get_long() == Some(name))
        || command.get_subcommands().any(|nested| has_option(nested, name))
}

fn unknown_setting(command: &Command, name: &str, path: &[String]) -> String {
    let all = table::GLOBAL.iter().map(|known| known.name).chain(table::OF_SUBCOMMANDS);
    let known: Vec<&str> = all.filter(|known| is_known(command, known, path.is_empty())).collect();
    let place = if path.is_empty() { String::new() } else { format!(" of [{}]", path.join(".")) };
    let (name, nearest) = (printable(name), similar(known.iter().copied(), name));
    format!("unknown setting '{name}'{place}; similar: {}; all: {}", nearest.join(", "), known.join(", "))
}

fn unknown_table(command: &Command, name: &str, path: &[String]) -> String {
    let known = command.get_subcommands().map(Command::get_name);
    let known: Vec<&str> = known.filter(|name| !path.is_empty() || super::are_used_by(name)).collect();
    let nearest = similar(known.iter().copied(), name);
    format!(
        "unknown table [{}]: expected the name of a subcommand, such as {}",
        printable(name),
        nearest.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn parsed(text: &str) -> Result<Vec<Setting>, Wrong> {
        parse(text, &Cli::command(), Some("/home/u"))
    }

    #[test]
    fn settings_have_their_subcommand_values_and_line() {
        let text = "budget = \"5m\"\n\n[qos.prove]\nbudget = 30\n[compare]\nmetric = [\"a=1\", \"b=2\"]\nquiet = true\n";
        let all = parsed(text).unwrap();
        let short: Vec<String> = all
            .iter()
            .map(|one| {
                format!("{}|{}|{}|{:?}", one.subcommand.join(" "), one.name, one.values.join(" "), one.origin)
            })
            .collect();
        assert_eq!(
            short,
            [
                "|budget|5m|Line(1)",
                "compare|metric|a=1 b=2|Line(6)",
                "compare|quiet|true|Line(7)",
                "qos prove|budget|30|Line(4)",
            ]
        );
        assert_eq!(parsed("results = \"~/r\"").unwrap()[0].values, ["/home/u/r"]);
        assert!(parsed("").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, line, words) in [
            ("bugdet = 5", 1, "unknown setting 'bugdet'; similar: budget"),
            ("\npairs = 5", 2, "unknown setting 'pairs'"),
            ("[compare]\nservice = \"rm\"", 2, "unknown setting 'service' of [compare]"),
            ("[compare]\nout = \"/etc\"", 2, "unknown setting 'out' of [compare]"),
            ("[comapre]\n", 1, "unknown table [comapre]: expected the name of a subcommand, such as compare"),
            ("[guard]\n", 1, "unknown table [guard]"),
            ("[undo]\n", 1, "unknown table [undo]"),
            ("budget = \n", 1, ""),
            ("budget = 1979-05-27", 1, "expected a text, a number, or true or false"),
        ] {
            let (at, why) = parsed(text).unwrap_err();
            assert!(at == line && why.contains(words), "{text:?}: {at}: {why}");
        }
    }

    #[test]
    fn the_example_is_valid_with_and_without_its_comments() {
        assert!(parsed(EXAMPLE).unwrap().is_empty(), "all of it is comments");
        let settings = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => setting,
            _ => "",
        });
        let text = settings.collect::<Vec<_>>().join("\n");
        let all = parsed(&text).unwrap();
        assert!(all.len() >= 10, "{all:?}");
        let program = Cli::command();
        for setting in &all {
            assert_eq!(super::super::apply::check(&program, setting), Ok(()), "{setting:?}");
        }
        for known in &table::GLOBAL {
            assert!(all.iter().any(|setting| setting.name == known.name), "{}", known.name);
        }
    }

    #[test]
    fn the_path_follows_the_specification_of_xdg() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            path(|name| if name == "HOME" { home } else { xdg }.map(PathBuf::from))
        };
        assert_eq!(of(Some("/x"), Some("/h")), Some("/x/manycore/config.toml".into()));
        assert_eq!(of(None, Some("/h")), Some("/h/.config/manycore/config.toml".into()));
        assert_eq!(of(Some("relative"), Some("/h")), of(None, Some("/h")));
        assert_eq!(of(None, None), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = parsed(&text);
        }
    }
}
