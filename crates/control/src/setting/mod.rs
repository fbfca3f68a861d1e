//! Settings of the machine that are switched between the runs of an experiment: files below `/sys`, `/proc/sys` and
//! `/proc/irq`.
//!
//! A [`Setting`] is what a user types: a known name (`thp=never`), a sysctl name (`set:kernel.numa_balancing=0`), or a
//! file (`set:/sys/block/sda/queue/scheduler=none`). [`SettingFiles`] are the files that the settings of all variants
//! stand for, with their original values; reading them changes nothing. [`SettingSwitch`] writes them: the original of
//! each file is in a journal before its first write, each write is read back, and everything is restored at the end.
//!
//! A file that no setting of a variant names has its original value while the variant runs.

mod error;
mod files;
mod known;
pub(crate) mod location;
mod switch;
pub(crate) mod value;

pub use error::SettingError;
pub use files::SettingFiles;
pub use known::{KNOWN, KnownSetting, known};
pub use switch::SettingSwitch;

use location::Location;
use manycore_topology::CpuSet;
use std::{
    fmt::{self, Display, Formatter},
    path::Path,
    str::FromStr,
};

/// What precedes a file or a sysctl name.
const PREFIX: &str = "set:";

/// Longest value in bytes: the kernel takes at most a page.
const MAX_VALUE: usize = 4000;

/// A setting and the value that it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    key: Key,
    value: String,
}

/// What is set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Known(&'static KnownSetting),
    File(Location),
}

impl Display for Key {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Self::Known(known) => out.write_str(known.name),
            Self::File(location) => out.write_str(location.typed()),
        }
    }
}

impl Setting {
    /// Whether `text` is meant as a setting: `set:...`, or the name of a known one before `=`.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX) || text.split_once('=').is_some_and(|(name, _)| known(name).is_some())
    }

    /// Returns the CPUs of an interrupt as a setting.
    pub fn cpus_of_interrupt(irq: u32, cpus: &CpuSet) -> Self {
        Self { key: Key::File(Location::cpus_of_interrupt(irq)), value: cpus.to_string() }
    }

    /// Returns all values of a known setting on this machine, whose files are below `root`.
    ///
    /// # Errors
    /// [`SettingError::Unknown`], or the setting does not exist here.
    pub fn all_of(root: &Path, name: &str) -> Result<Vec<Self>, SettingError> {
        let known = known(name).ok_or_else(|| SettingError::Unknown { name: name.to_owned() })?;
        let values = known.values(root)?;
        Ok(values.into_iter().map(|value| Self { key: Key::Known(known), value }).collect())
    }
}

impl Display for Setting {
    /// Writes the name and the value: `thp=never`, `kernel.numa_balancing=0`.
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        write!(out, "{}={}", self.key, self.value)
    }
}

impl FromStr for Setting {
    type Err = SettingError;

    /// Parses `NAME=VALUE` of a known setting, `set:SYSCTL=VALUE` or `set:FILE=VALUE`.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let syntax = |why: &str| SettingError::Syntax { text: text.to_owned(), why: why.to_owned() };
        let (prefixed, rest) = text.strip_prefix(PREFIX).map_or((false, text), |rest| (true, rest));
        let (name, value) = rest.split_once('=').ok_or_else(|| syntax("it has no value"))?;
        let value = value.trim();
        if value.is_empty() {
            return Err(syntax("its value is empty"));
        }
        if value.len() > MAX_VALUE || value.chars().any(|letter| letter.is_control() && letter != '\t') {
            return Err(syntax("its value is too long, or not one line of text"));
        }
        let key = match known(name) {
            Some(known) => {
                known.check(value)?;
                Key::Known(known)
            }
            None if prefixed => Key::File(Location::parse(name)?),
            None => return Err(SettingError::Unknown { name: name.to_owned() }),
        };
        Ok(Self { key, value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests;
