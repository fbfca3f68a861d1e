//! The description of a run over a fleet: `fleet.json`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`FleetRun::schema`].
pub const RUN_SCHEMA: &str = "manycore/fleet-run/1";

/// A run over a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetRun {
    /// Always [`RUN_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = RUN_SCHEMA)))]
    pub schema: String,
    /// Version of manycore that collected.
    pub version: String,
    /// Start in UTC, RFC 3339.
    pub started: String,
    /// What ran on each host: the arguments of manycore.
    pub command: Vec<String>,
    /// What happened to each host, by its name.
    pub hosts: BTreeMap<String, HostStatus>,
}

/// What happened to a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostStatus {
    /// How far it is.
    pub state: HostState,
    /// Why, in words. Empty where there is nothing to say.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// Exit code of manycore there, where it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<i32>,
    /// How long it ran, in seconds, where it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
}

/// How far a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// It has not begun.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It sent its result.
    Done,
    /// Its manager says that it is down.
    Down,
    /// It did not get its turn in time, or took too long.
    Late,
    /// It cannot be reached, or was lost.
    Unreachable,
    /// The run failed there, or sent something else than a record.
    Failed,
    /// The user interrupted.
    Interrupted,
}

impl HostState {
    /// The state in one word, as in `fleet.json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Down => "down",
            Self::Late => "late",
            Self::Unreachable => "unreachable",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl FleetRun {
    /// Returns this run as the continuation of an earlier one: hosts with a result stay.
    pub(super) fn continuing(self, mut there: Self) -> Self {
        there.hosts.retain(|_, status| status.state == HostState::Done);
        for (host, status) in self.hosts {
            let known = there.hosts.entry(host).or_default();
            if known.state != HostState::Done {
                *known = status;
            }
        }
        there
    }
}
