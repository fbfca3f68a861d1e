//! Why a setting cannot be switched.

use super::KNOWN;
use crate::Error;
use std::{io, path::PathBuf};

/// Why a setting of the machine cannot be switched.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The text is not a setting.
    #[error(
        "'{text}' is not a setting: {why}; write NAME=VALUE of a known one ({}), or set:FILE=VALUE",
        known_names()
    )]
    Syntax {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The name means nothing.
    #[error(
        "no setting is called '{name}'; known: {}; others by file or sysctl name: set:/sys/FILE=VALUE, \
         set:kernel.NAME=VALUE",
        known_names()
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// A known setting has no such value.
    #[error("{name} cannot be '{value}'; its values: {}", .values.join(", "))]
    KnownValue {
        /// Name of the setting.
        name: &'static str,
        /// The value.
        value: String,
        /// Its values.
        values: &'static [&'static str],
    },
    /// The path is, or leads, outside of the kernel's settings.
    #[error("'{path}' is not below /sys, /proc/sys or /proc/irq, where settings are")]
    Outside {
        /// The path as it was written.
        path: String,
    },
    /// There is no such file.
    #[error("this machine has no {}", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A known setting does not exist on this machine.
    #[error("this machine has no setting {name} ({files}{})", mount_debugfs(.files))]
    NotHere {
        /// Name of the setting.
        name: &'static str,
        /// Where it would be.
        files: String,
    },
    /// The file has no value that could be restored.
    #[error("{} cannot be switched: {why}", .path.display())]
    NotASetting {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The file lists its values, and the wanted one is not among them.
    #[error("{} cannot be '{value}'; its values: {}", .path.display(), .choices.join(", "))]
    Choices {
        /// The file.
        path: PathBuf,
        /// The wanted value.
        value: String,
        /// The values that it can have.
        choices: Vec<String>,
    },
    /// One variant has two values for a file.
    #[error("a variant sets {} twice: '{first}' and '{second}'", .path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// One value.
        first: String,
        /// The other value.
        second: String,
    },
    /// Settings that take CPUs offline cannot be combined with what is planned for these CPUs.
    #[error("{} takes CPUs offline and cannot be combined with {with}", .path.display())]
    TakesCpus {
        /// The file.
        path: PathBuf,
        /// With what.
        with: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}{}", .path.display(), needs_root(.error))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
    /// The kernel does not accept the value.
    #[error("the kernel refuses '{value}' for {}: {error}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// The kernel accepted a value, and another one is in force.
    #[error("{} did not take '{wanted}': it is '{found}'", .path.display())]
    NotTaken {
        /// The file.
        path: PathBuf,
        /// The value that was written.
        wanted: String,
        /// The value that was read back.
        found: String,
    },
    /// Another process has changed the setting during the measurement.
    #[error(
        "another process changed {} during the measurement: it was to be '{wanted}' and is '{found}'; stop that process",
        .path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The value that was written.
        wanted: String,
        /// The value that was found.
        found: String,
    },
    /// Another run switches the file.
    #[error("{} is switched by another manycore at present ({journal}): wait for its end", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Name of its journal.
        journal: String,
    },
    /// The journal or the cleanup process cannot be used.
    #[error(transparent)]
    Control(#[from] Error),
}

impl SettingError {
    /// Whether the request is wrong on any machine, or names a value that this kernel does not know.
    pub fn is_request(&self) -> bool {
        match self {
            Self::Syntax { .. }
            | Self::Unknown { .. }
            | Self::KnownValue { .. }
            | Self::Outside { .. }
            | Self::NotASetting { .. }
            | Self::Choices { .. }
            | Self::Twice { .. }
            | Self::TakesCpus { .. } => true,
            Self::Refused { error, .. } => error.kind() == io::ErrorKind::InvalidInput,
            _ => false,
        }
    }

    /// Whether the measurement is spoilt, which had begun well.
    pub fn is_of_measurement(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }
}

fn mount_debugfs(files: &str) -> &'static str {
    if files.starts_with("/sys/kernel/debug/") && !std::path::Path::new("/sys/kernel/debug/sched").exists() {
        "; if the kernel has it, mount debugfs first: mount -t debugfs none /sys/kernel/debug"
    } else {
        ""
    }
}

fn known_names() -> String {
    KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ")
}

fn needs_root(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        "; changing settings of the machine needs root"
    } else {
        ""
    }
}
