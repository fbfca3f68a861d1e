//! The rules file: TOML. It is checked completely before any of it takes effect.

mod protect;
mod protect_text;
mod text;
mod value;

pub use protect::{Named, Protect};

use crate::decision::{pattern::Pattern, stage::Limits};
use crate::error::{Error, Result};
use manycore_linux::trusted_file;
use manycore_text::units;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use text::Text;

/// The default rules file.
pub const USUAL: &str = "/etc/manycore/guard.toml";

/// Largest rules file in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// What to watch, how, and what to protect.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The file that they were read from; absent for the default rules.
    pub path: Option<PathBuf>,
    /// At most [`crate::decision::table::WATCHES`].
    pub watches: Vec<Watch>,
    /// Processes that are never selected.
    pub protect: Protect,
}

/// Something that is protected from running out of memory.
#[derive(Clone, Debug)]
pub struct Watch {
    /// `machine`, the path of the group, or the name of the processes.
    pub name: String,
    /// What is watched.
    pub of: Of,
    /// When the guard acts.
    pub limits: Limits,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Whether the whole control group of the selected process is ended.
    pub end_group: bool,
    /// How the cause is slowed down when a warning is written.
    pub slow: Slow,
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
pub enum Of {
    /// All memory of the machine.
    Machine,
    /// A control group: its directory, and the mount point above it.
    Group {
        /// The directory.
        folder: PathBuf,
        /// Returns the mount point.
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
pub enum Slow {
    /// Not at all.
    #[default]
    No,
    /// Its control group may not use more memory than it has (`memory.high`, version 2).
    High,
    /// Its control group is frozen (`cgroup.freeze`, or `freezer.state`).
    Freeze,
}

impl Rules {
    /// Loads the rules from a file, from [`USUAL`], or the default rules. `groups` are watched in addition to
    /// what the file names. If it names nothing, they are watched instead of the machine.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the file, the line and what is wrong, or where others can change the file;
    /// [`Error::Unavailable`] where it cannot be read.
    pub fn load(path: Option<&Path>, groups: &[String]) -> Result<Self> {
        // If the metadata cannot be read, reading the file fails below with a better error.
        if let Some(path) = of(path).filter(|path| fs::metadata(path).is_ok()) {
            trusted_file::check(path).map_err(|why| untrusted(&why.to_string()))?;
        }
        Self::read(path, groups)
    }

    /// As [`Self::load`], but accepts files that other users can change. This is for checks, not for a guard.
    ///
    /// # Errors
    /// Those of [`Self::load`] but the last.
    pub fn read(path: Option<&Path>, groups: &[String]) -> Result<Self> {
        let path = of(path);
        let text = match path {
            None => String::new(),
            Some(path) => read(path)?,
        };
        let place = path.map_or("the default rules".to_owned(), |path| path.display().to_string());
        let parsed: Text =
            toml::from_str(&text).map_err(|error| Error::invalid(format!("{place}: {error}")))?;
        let asked = groups.iter().map(|path| text::asked(path)).collect::<Result<_, _>>();
        let asked = asked.map_err(|why| Error::invalid(format!("--{why}")))?;
        let wrong = |wrong: text::Wrong| Error::invalid(format!("{place}: {}", wrong.words(&text)));
        let mut rules = parsed.rules(asked).map_err(wrong)?;
        rules.path = path.map(Path::to_owned);
        Ok(rules)
    }
}

/// Returns the rules file: the given one, or the default one if it exists.
fn of(path: Option<&Path>) -> Option<&Path> {
    path.or(Some(Path::new(USUAL)).filter(|path| path.exists()))
}

fn untrusted(why: &str) -> Error {
    Error::invalid(format!("refusing rules that other users can change: {why}"))
}

/// Reads a rules file. It must be a regular file of limited size, so that reading it does not block.
fn read(path: &Path) -> Result<String> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::unavailable(format!("cannot read {}: {error}", path.display()))
    };
    let about = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !about.is_file() || about.len() > MOST_BYTES {
        let place = path.display();
        return Err(Error::invalid(format!(
            "{place}: a regular file of at most {} is expected",
            units::bytes(MOST_BYTES)
        )));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(&error))?;
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{}: not valid UTF-8", path.display())))
}

#[cfg(test)]
mod tests;
