//! Settings with a name of their own, and the files that they stand for.

use super::{SettingError, location::resolved, value};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A setting with a name of its own.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct KnownSetting {
    /// The name.
    pub name: &'static str,
    /// What it is, for help and completion.
    pub about: &'static str,
    /// Its values where the kernel does not list them; empty where it does.
    pub values: &'static [&'static str],
    /// Values of the file that users may type, beside those.
    raw_values: &'static [&'static str],
    /// Where it may be, the first one that exists counts.
    places: &'static [Place],
}

/// A file, or one file for each CPU, and what `on` and `off` are there.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Path below the root. A component may end with `*`.
    path: &'static str,
    on: &'static str,
    off: &'static str,
}

const SWITCH: &[&str] = &["on", "off"];

/// All of them.
pub const KNOWN: [KnownSetting; 8] = [
    KnownSetting {
        name: "thp",
        about: "transparent huge pages",
        values: &[],
        raw_values: &[],
        places: &[Place { path: "sys/kernel/mm/transparent_hugepage/enabled", on: "always", off: "never" }],
    },
    KnownSetting {
        name: "numa_balancing",
        about: "automatic NUMA balancing",
        values: SWITCH,
        raw_values: &["0", "1", "2", "3"],
        places: &[Place { path: "proc/sys/kernel/numa_balancing", on: "1", off: "0" }],
    },
    KnownSetting {
        name: "governor",
        about: "frequency governor of all CPUs",
        values: &[],
        raw_values: &[],
        places: &[Place { path: "sys/devices/system/cpu/cpufreq/policy*/scaling_governor", on: "", off: "" }],
    },
    KnownSetting {
        name: "turbo",
        about: "frequencies above the base frequency",
        values: SWITCH,
        raw_values: &[],
        places: &[
            Place { path: "sys/devices/system/cpu/intel_pstate/no_turbo", on: "0", off: "1" },
            Place { path: "sys/devices/system/cpu/cpufreq/boost", on: "1", off: "0" },
            Place { path: "sys/devices/system/cpu/cpufreq/policy*/boost", on: "1", off: "0" },
        ],
    },
    KnownSetting {
        name: "smt",
        about: "SMT siblings online",
        values: SWITCH,
        raw_values: &[],
        places: &[Place { path: "sys/devices/system/cpu/smt/control", on: "on", off: "off" }],
    },
    KnownSetting {
        name: "aslr",
        about: "random addresses of processes",
        values: SWITCH,
        raw_values: &["0", "1", "2"],
        places: &[Place { path: "proc/sys/kernel/randomize_va_space", on: "2", off: "0" }],
    },
    KnownSetting {
        name: "llc_balancing",
        about: "cache-aware balancing of the scheduler",
        values: SWITCH,
        raw_values: &[],
        places: &[Place { path: "sys/kernel/debug/sched/llc_balancing/enabled", on: "1", off: "0" }],
    },
    KnownSetting {
        name: "sched_features",
        about: "features of the kernel's scheduler",
        values: &[],
        raw_values: &[],
        places: &[Place { path: "sys/kernel/debug/sched/features", on: "", off: "" }],
    },
];

/// Returns the setting of a name.
pub fn known(name: &str) -> Option<&'static KnownSetting> {
    KNOWN.iter().find(|known| known.name == name)
}

impl KnownSetting {
    /// Checks a value of which the machine need not be asked.
    pub(super) fn check(&self, value: &str) -> Result<(), SettingError> {
        if self.values.is_empty() || self.values.contains(&value) || self.raw_values.contains(&value) {
            return Ok(());
        }
        Err(SettingError::KnownValue { name: self.name, value: value.to_owned(), values: self.values })
    }

    /// Returns its files below `root` with the place that they are at.
    fn located(&self, root: &Path) -> Result<(&Place, Vec<PathBuf>), SettingError> {
        for place in self.places {
            let mut files = Vec::new();
            for path in matching(root, place.path) {
                match resolved(root, &path) {
                    Ok(file) => files.push(file),
                    Err(SettingError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            if !files.is_empty() {
                return Ok((place, files));
            }
        }
        let paths: Vec<String> = self.places.iter().map(|place| format!("/{}", place.path)).collect();
        Err(SettingError::NotHere { name: self.name, files: paths.join(", ") })
    }

    /// Returns its files below `root`, each with the text for `value`.
    pub(super) fn files(&self, root: &Path, value: &str) -> Result<Vec<(PathBuf, String)>, SettingError> {
        let (place, files) = self.located(root)?;
        let text = match value {
            "on" if !self.values.is_empty() => place.on,
            "off" if !self.values.is_empty() => place.off,
            other => other,
        };
        Ok(files.into_iter().map(|file| (file, text.to_owned())).collect())
    }

    /// Returns the value that a text of its files stands for: `off` for `1` in `no_turbo`.
    pub(super) fn value_of(&self, root: &Path, text: &str) -> String {
        let place = self.located(root).ok().map(|(place, _)| place).filter(|_| !self.values.is_empty());
        let name = place.and_then(|place| match text {
            _ if value::same(text, place.on) => Some("on"),
            _ if value::same(text, place.off) => Some("off"),
            _ => None,
        });
        name.unwrap_or(text).to_owned()
    }

    /// Returns all values that it can have on this machine; those that change something, where it consists of switches.
    pub(super) fn values(&self, root: &Path) -> Result<Vec<String>, SettingError> {
        let (_, files) = self.located(root)?;
        if !self.values.is_empty() {
            return Ok(self.values.iter().map(|&value| value.to_owned()).collect());
        }
        let text = |file: &PathBuf| fs::read_to_string(file).ok();
        let listed =
            |file: &PathBuf, text: &str| value::opposites(file, text).or_else(|| value::choices(file, text));
        Ok(files.first().and_then(|file| listed(file, &text(file)?)).unwrap_or_default())
    }
}

/// Returns the paths below `root` that a path stands for in which one component may end with `*`.
fn matching(root: &Path, path: &str) -> Vec<String> {
    let Some((before, after)) = path.split_once('*') else { return vec![path.to_owned()] };
    let (directory, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let names = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().map(|name| format!("{directory}/{name}{after}")).collect()
}
