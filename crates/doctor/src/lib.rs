//! What a machine lets the program do: rights, interfaces of the kernel, hardware and other programs. For each it
//! says what was found, what is lost without it, and the command that brings it.
//!
//! ```text
//! probe (reads the machine) -> Facts -> diagnose (pure) -> Diagnosis -> text, JSON
//! ```
//!
//! Probes of a feature (the emulator of `falseshare`, the compilers of `spawn`) are in the crate of that feature.
//! Their results are passed in as [`FeatureFacts`]. Nothing is changed: a group that could be created is not created,
//! and whether a file could be written is asked with access(2).
#![forbid(unsafe_code)]

mod checks;
pub mod facts;
mod install;
pub mod probe;
#[cfg(test)]
mod tests;
pub mod text;

pub use checks::diagnose;
pub use facts::{Facts, FeatureFacts};
pub use install::PackageManager;

use serde::Serialize;

/// Value of `schema` in the JSON that this version writes.
pub const DOCTOR_SCHEMA: &str = "manycore/doctor/1";

/// What a machine lets the program do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Always [`DOCTOR_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = DOCTOR_SCHEMA)))]
    pub schema: String,
    /// Version of manycore.
    pub version: String,
    /// Operating system, kernel, architecture and hypervisor, as far as they are known.
    pub system: String,
    /// The checks, grouped by topic.
    pub checks: Vec<Check>,
    /// The command that installs all missing packages; absent if there are none, or no package manager is known.
    pub install_all: Option<String>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The topic.
    pub topic: Topic,
    /// What was checked: `resctrl`, `qemu-user`.
    pub name: String,
    /// Whether it can be used.
    pub state: State,
    /// What was found.
    pub found: String,
    /// The subcommands that use it.
    pub used_by: Vec<String>,
    /// What is lost without it; absent if it is available.
    pub cost: Option<String>,
    /// What brings it; absent if it is available.
    pub fix: Option<Fix>,
    /// The packages that bring it, for this machine's package manager.
    pub packages: Vec<String>,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Rights of this process, and limits that apply to it.
    Rights,
    /// Interfaces of the kernel.
    Kernel,
    /// Hardware, as far as the kernel provides it.
    Hardware,
    /// Other programs.
    Programs,
}

/// Whether something can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It can be used.
    Available,
    /// A part of it can be used.
    Partial,
    /// It cannot be used, but something can be done about it.
    Missing,
    /// This machine does not have it, and nothing on it brings it.
    Absent,
}

/// What brings a missing thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fix {
    /// A command line for a shell.
    Command(String),
    /// An instruction in words, or the reason why nothing brings it here.
    Advice(String),
}
