//! The file of rules: TOML, checked whole before any of it counts.

mod protect;
mod protect_text;
mod text;
mod value;

pub use protect::{Named, Protect};

use crate::decision::{pattern::Pattern, stage::Limits};
use crate::error::{Error, Result};
use manycore_linux::trust;
use manycore_text::units;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use text::Text;

/// Where rules are looked for.
pub const USUAL: &str = "/etc/manycore/guard.toml";

/// Largest file of rules.
const MOST_BYTES: u64 = 1 << 20;

/// What to watch, how, and what to spare.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Where they are from; absent for those that need no file.
    pub path: Option<PathBuf>,
    /// At most [`crate::decision::table::WATCHES`].
    pub watches: Vec<Watch>,
    /// What is never chosen.
    pub protect: Protect,
}

/// Something that is kept from dying of memory.
#[derive(Clone, Debug)]
pub struct Watch {
    /// `machine`, the group's path, or the name of the processes.
    pub name: String,
    /// What it is.
    pub of: Of,
    /// When something is done.
    pub limits: Limits,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Whether all of the chosen process's control group is ended.
    pub end_group: bool,
    /// What is done to the cause when a warning is written.
    pub slow: Slow,
    /// What is done where no process is shown to be the cause and memory is nearly gone.
    pub last_resort: LastResort,
}

/// What is done where no process is shown to be the cause, and memory is about to run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastResort {
    /// The process with the highest `oom_score` of those that may be ended, as the kernel would choose.
    #[default]
    OomScore,
    /// Nothing.
    None,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    /// All memory.
    Machine,
    /// A control group: its folder, and the mount point that it is below.
    Group {
        /// The folder.
        folder: PathBuf,
        /// The mount point.
        mount: PathBuf,
    },
    /// Processes of this name together, within a limit of their own.
    Processes {
        /// Their name.
        name: Pattern,
        /// Bytes.
        limit: u64,
    },
}

/// How a cause is slowed down before it is asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slow {
    /// Not at all.
    #[default]
    No,
    /// Its control group may have no more than it has (`memory.high`, version 2).
    High,
    /// Its control group is frozen (`cgroup.freeze`, or `freezer.state`).
    Freeze,
}

impl Rules {
    /// Those of a file, or of [`USUAL`], or those that need none. `groups` are watched beside what the file says;
    /// instead of the machine where it says nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the file, the line and what is wrong, or where others can change the file;
    /// [`Error::Unavailable`] where it cannot be read.
    pub fn load(path: Option<&Path>, groups: &[String]) -> Result<Self> {
        // What cannot be looked at cannot be read either, which is said there.
        if let Some(path) = of(path).filter(|path| fs::metadata(path).is_ok()) {
            trust::check(path).map_err(|why| untrusted(&why))?;
        }
        Self::read(path, groups)
    }

    /// The same whoever can change the file: to look at it, not to go by it.
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

/// The file that is meant: the usual one where none is named and that exists.
fn of(path: Option<&Path>) -> Option<&Path> {
    path.or(Some(Path::new(USUAL)).filter(|path| path.exists()))
}

fn untrusted(why: &str) -> Error {
    Error::invalid(format!("a guard would go by what others write: {why}"))
}

/// A file of rules: a regular one of some size, so that nobody waits for it.
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
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{}: it is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests;
