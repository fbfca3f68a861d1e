//! A decision as it is told: to people in a line, to programs as JSON.

use super::stage::{Assessment, Reading};
use serde::{Deserialize, Serialize};

/// Value of [`Line::schema`] that this version writes.
pub const LINE_SCHEMA: &str = "manycore/guard/1";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Memory will run out.
    Warn,
    /// The cause was slowed down.
    Slow,
    /// What was slowed down may go on.
    Release,
    /// SIGTERM was sent.
    Term,
    /// SIGKILL was sent.
    Kill,
    /// Whoever was sent a signal is gone.
    Gone,
    /// Somebody was killed and does not go away.
    Stuck,
    /// The danger passed before the time of grace was over.
    Spare,
    /// A signal could not be sent.
    Refused,
    /// Nobody who may be chosen has taken much.
    Nobody,
    /// Files in memory took it.
    Files,
    /// The danger has been over for a while.
    Over,
    /// Something about the guard itself.
    Note,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Always [`LINE_SCHEMA`].
    pub schema: String,
    /// When, UTC.
    pub at: String,
    /// `machine`, the group's path or the name of the processes; `guard` where it is about the guard itself.
    pub watch: String,
    /// What happened.
    pub event: Kind,
    /// Whether it was only said.
    pub dry_run: bool,
    /// What was read; absent where it is not about memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reading: Option<Reading>,
    /// What follows from it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub told: Option<Assessment>,
    /// Who it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub culprit: Option<Culprit>,
    /// Files in memory that it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub files: Option<Files>,
    /// Milliseconds from the reading to the signal, or from the signal to the end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after_ms: Option<f64>,
    /// More, in words.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub note: String,
}

/// Who is to blame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// Process id; of a family, of its head.
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// Its real user.
    pub user: u32,
    /// Its control group, where it is known.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub cgroup: String,
    /// Processes that it stands for.
    pub processes: u32,
    /// What they have in common, where they are several: `session 812`, `cgroup /batch`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kin: String,
    /// Bytes that would come back.
    pub bytes: u64,
    /// What it was found to hold beside its own pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<Holding>,
    /// Bytes that it took in the recent fall.
    pub growth_bytes: u64,
    /// Bytes that went in it.
    pub fall_bytes: u64,
    /// Seconds that it has lasted.
    pub fall_seconds: f64,
}

/// Memory that a process holds beside its own pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// In words: what most of it is.
    pub what: String,
    /// Bytes that it has grown by since nothing happened.
    pub growth_bytes: u64,
    /// Whether it stays when the process has ended.
    pub stays: bool,
}

/// A mount whose files are in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Bytes that files have grown by.
    pub growth_bytes: u64,
    /// The mount that grew most; absent where none is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mount: Option<String>,
    /// Bytes that lie there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_bytes: Option<u64>,
}

/// What would happen to a process now, in one watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Always [`LINE_SCHEMA`].
    pub schema: String,
    /// The watch.
    pub watch: String,
    /// The process that was asked about.
    pub pid: u32,
    /// Its name; absent where there is none of that id.
    pub name: Option<String>,
    /// Its control group.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub cgroup: String,
    /// Bytes that would come back if it ended.
    pub bytes: u64,
    /// Bytes that it took in the recent fall.
    pub growth_bytes: u64,
    /// Bytes that went in it.
    pub fall_bytes: u64,
    /// Seconds that it has lasted.
    pub fall_seconds: f64,
    /// Whether the watch includes it.
    pub is_watched: bool,
    /// Why it is never chosen, if so.
    pub spared: Option<String>,
    /// Whether it would be chosen now.
    pub is_chosen: bool,
    /// Who would be, otherwise.
    pub chosen: Option<Culprit>,
    /// What was read.
    pub reading: Reading,
    /// What follows from it.
    pub told: Assessment,
    /// Bytes available below which somebody is asked to end, and killed.
    pub levels: [u64; 2],
    /// Seconds that growth was looked at for.
    pub seen_seconds: f64,
}
