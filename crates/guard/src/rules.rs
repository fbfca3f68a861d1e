//! The rules file: TOML. It is checked completely before any of it takes effect.

mod protect;
mod protect_text;
mod text;
mod value;

pub use protect::{NameRule, ProtectRules};

use crate::decision::{assessment::Thresholds, pattern::Pattern};
use crate::error::{Error, Result};
use manycore_linux::trusted_file;
use manycore_text::units;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use text::RulesFile;

/// The default rules file.
pub const DEFAULT_PATH: &str = "/etc/manycore/guard.toml";

/// Largest rules file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// What to watch, how, and what to protect.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The file that they were read from; absent for the default rules.
    pub path: Option<PathBuf>,
    /// At most [`crate::decision::process_table::WATCHES`].
    pub watches: Vec<WatchRule>,
    /// Processes that are never selected.
    pub protect: ProtectRules,
}

/// Something that is protected from running out of memory.
#[derive(Clone, Debug)]
pub struct WatchRule {
    /// `machine`, the path of the group, or the name of the processes.
    pub name: String,
    /// What is watched.
    pub of: WatchSubject,
    /// When the guard acts.
    pub limits: Thresholds,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Whether the whole control group of the selected process is ended.
    pub end_group: bool,
    /// How the cause is slowed down when a warning is written.
    pub slow: SlowdownMethod,
    /// What is done if no process is shown to be the cause and memory is nearly exhausted.
    pub last_resort: LastResort,
}

/// What is done if no process is shown to be the cause and memory is nearly exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastResort {
    /// End the eligible process with the highest `oom_score`, as the kernel would.
    #[default]
    OomScore,
    /// Do nothing.
    None,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchSubject {
    /// All memory of the machine.
    Machine,
    /// A control group: its directory, and the mount point above it.
    Group {
        /// The directory.
        folder: PathBuf,
        /// The mount point.
        mount: PathBuf,
    },
    /// All processes of this name, within a common limit.
    Processes {
        /// Their name.
        name: Pattern,
        /// The limit in bytes.
        limit: u64,
    },
}

/// How a cause is slowed down before it is sent SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlowdownMethod {
    /// Not at all.
    #[default]
    No,
    /// Its control group may not use more memory than it has (`memory.high`, version 2).
    High,
    /// Its control group is frozen (`cgroup.freeze`, or `freezer.state`).
    Freeze,
}

impl Rules {
    /// Loads the rules from a file, from [`DEFAULT_PATH`], or the default rules. `groups` are watched in addition to
    /// what the file names. If it names nothing, they are watched instead of the machine.
    ///
    /// # Errors
    /// [`Error::InvalidRules`] with the file, the line and the error; [`Error::UntrustedRules`] if other users can
    /// change the file; [`Error::System`] if it cannot be read; [`Error::InvalidCgroup`].
    pub fn load(path: Option<&Path>, groups: &[String]) -> Result<Self> {
        // If the metadata cannot be read, reading the file fails below with a better error.
        if let Some(path) = of(path).filter(|path| fs::metadata(path).is_ok()) {
            trusted_file::check(path).map_err(|why| Error::UntrustedRules(why.to_string()))?;
        }
        Self::read(path, groups)
    }

    /// As [`Self::load`], but accepts files that other users can change. This is for checks, not for a guard.
    ///
    /// # Errors
    /// As [`Self::load`], except for files that other users can change.
    pub fn read(path: Option<&Path>, groups: &[String]) -> Result<Self> {
        let path = of(path);
        let text = match path {
            None => String::new(),
            Some(path) => read(path)?,
        };
        let place = path.map_or("the default rules".to_owned(), |path| path.display().to_string());
        let parsed: RulesFile = toml::from_str(&text).map_err(|error| invalid(&place, error.to_string()))?;
        let asked = groups.iter().map(|path| text::cgroup_argument(path)).collect::<Result<_, _>>();
        let asked = asked.map_err(Error::InvalidCgroup)?;
        let wrong = |wrong: text::RuleError| invalid(&place, wrong.message(&text));
        let mut rules = parsed.rules(asked).map_err(wrong)?;
        rules.path = path.map(Path::to_owned);
        Ok(rules)
    }
}

/// Returns the rules file: the given one, or the default one if it exists.
fn of(path: Option<&Path>) -> Option<&Path> {
    path.or(Some(Path::new(DEFAULT_PATH)).filter(|path| path.exists()))
}

fn invalid(file: &str, reason: String) -> Error {
    Error::InvalidRules { file: file.to_owned(), reason }
}

/// Reads a rules file. It must be a regular file of limited size, so that reading it does not block.
fn read(path: &Path) -> Result<String> {
    let place = path.display().to_string();
    let unreadable = || Error::system(format!("cannot read {place}"));
    let about = fs::metadata(path).map_err(unreadable())?;
    if !about.is_file() || about.len() > MAX_BYTES {
        let reason = format!("a regular file of at most {} is expected", units::bytes(MAX_BYTES));
        return Err(invalid(&place, reason));
    }
    let bytes = fs::read(path).map_err(unreadable())?;
    String::from_utf8(bytes).map_err(|_| invalid(&place, "not valid UTF-8".to_owned()))
}

#[cfg(test)]
mod tests;
