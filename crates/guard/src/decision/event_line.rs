//! A decision of the guard as it is printed: one line of text for people, one JSON object for programs.

use super::assessment::{Assessment, MemoryReading};
use serde::{Deserialize, Serialize};

/// Value of [`EventLine::schema`] that this version writes.
pub const EVENT_SCHEMA: &str = "manycore/guard-event/1";

/// The kind of a decision or notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Memory will run out.
    Warn,
    /// The process that causes the shortage was slowed down.
    Slow,
    /// A process or control group that was slowed down runs at full speed again.
    Release,
    /// SIGTERM was sent.
    Term,
    /// SIGKILL was sent.
    Kill,
    /// The process that was sent a signal has exited.
    Exited,
    /// The process was killed but does not exit.
    Stuck,
    /// The shortage passed within the grace period. The process that was sent SIGTERM is left running.
    LeftRunning,
    /// A signal could not be sent.
    Refused,
    /// No eligible process has taken much memory.
    NoCause,
    /// Files in memory took the memory.
    Files,
    /// The shortage ended some time ago.
    Over,
    /// A message about the guard itself.
    Note,
}

/// One line of the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLine {
    /// Always [`EVENT_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = EVENT_SCHEMA)))]
    pub schema: String,
    /// Time of the event, UTC.
    pub at: String,
    /// `machine`, the path of the control group or the name of the processes; `guard` for a message about the
    /// guard itself.
    pub watch: String,
    /// What happened.
    pub event: EventKind,
    /// Whether this was a dry run: the action was reported but not taken.
    pub dry_run: bool,
    /// The reading that led to the decision. Absent where the line is not about memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reading: Option<MemoryReading>,
    /// The assessment of the reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub assessment: Option<Assessment>,
    /// The process that the line is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<CauseDetails>,
    /// The files in memory that the line is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub files: Option<TmpfsGrowth>,
    /// Milliseconds from the reading to the signal, or from the signal to the exit of the process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after_ms: Option<f64>,
    /// Further text.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub note: String,
}

/// The process, or group of related processes, that caused the shortage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseDetails {
    /// Process id. For several processes, that of the one that represents them.
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    pub start: u64,
    /// Process name.
    pub name: String,
    /// Real user id.
    pub user: u32,
    /// Control group; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub cgroup: String,
    /// Number of processes that this entry represents.
    pub processes: u32,
    /// What the processes have in common, if there are several: `session 812`, `cgroup /batch`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub family: String,
    /// Bytes that would be freed if the process ended.
    pub bytes: u64,
    /// Memory that the process holds in addition to its own pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub extra_memory: Option<ExtraMemoryDetails>,
    /// Bytes that the process grew by in the recent decrease of available memory.
    pub growth_bytes: u64,
    /// Bytes that available memory fell by in this decrease.
    pub decrease_bytes: u64,
    /// Duration of this decrease in seconds.
    pub decrease_seconds: f64,
}

/// Memory that a process holds in addition to its own pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExtraMemoryDetails {
    /// Description of the largest part.
    pub what: String,
    /// Growth in bytes since memory was last plentiful.
    pub growth_bytes: u64,
    /// Whether the memory stays in use after the process has ended.
    pub is_persistent: bool,
}

/// Growth of shared memory and files in memory, and the mount that grew most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TmpfsGrowth {
    /// Bytes that shared memory and files have grown by.
    pub growth_bytes: u64,
    /// The mount that grew most; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mount: Option<String>,
    /// Bytes in use on this mount.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_bytes: Option<u64>,
}

/// What the guard would do with a process now, according to one watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessOutlook {
    /// Name of the watch.
    pub watch: String,
    /// Id of the process that was queried.
    pub pid: u32,
    /// Process name; absent if there is no process with this id.
    pub name: Option<String>,
    /// Control group of the process.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub cgroup: String,
    /// Bytes that would be freed if the process ended.
    pub bytes: u64,
    /// Bytes that the process grew by in the recent decrease of available memory.
    pub growth_bytes: u64,
    /// Bytes that available memory fell by in this decrease.
    pub decrease_bytes: u64,
    /// Duration of this decrease in seconds.
    pub decrease_seconds: f64,
    /// Whether the watch includes the process.
    pub is_watched: bool,
    /// The reason why the process is never selected, if there is one.
    pub protected_by: Option<String>,
    /// Whether the process would be selected now.
    pub is_chosen: bool,
    /// The process that would be selected instead.
    pub chosen: Option<CauseDetails>,
    /// The latest reading.
    pub reading: MemoryReading,
    /// The assessment of the reading.
    pub assessment: Assessment,
    /// Available bytes below which SIGTERM is sent.
    pub term_below_bytes: u64,
    /// Available bytes below which SIGKILL is sent.
    pub kill_below_bytes: u64,
    /// Seconds over which growth was observed.
    pub observed_seconds: f64,
}
