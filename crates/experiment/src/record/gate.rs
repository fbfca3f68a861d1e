//! The decisions of gates, which a run was to pass.

use serde::{Deserialize, Serialize};

/// What an interval shows about a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    /// The whole interval is within the limit.
    Passed,
    /// The whole interval is beyond the limit.
    Failed,
    /// The interval contains the limit, or there is none.
    Inconclusive,
}

/// The decision of a gate for one comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateDecision {
    /// The gate as it was given.
    pub gate: String,
    /// What was compared: `B against A`, or the variant of stored records.
    pub what: String,
    /// The metric; empty for the rate of the work.
    pub metric: String,
    /// What the interval shows.
    pub outcome: GateOutcome,
    /// Whether it counts as a failure: an inconclusive gate does where that was requested.
    pub is_failure: bool,
    /// The new value over the old one. `None` where there are too few samples.
    pub ratio: Option<f64>,
    /// Its interval, from which the gate was decided.
    pub interval: Option<(f64, f64)>,
    /// The ratio at which the gate begins to fail.
    pub limit: f64,
    /// The decision in one sentence.
    pub text: String,
}
