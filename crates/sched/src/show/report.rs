//! The result of `sched show`.

use serde::Serialize;

/// Value of [`SchedulerReport::schema`] that this version writes.
pub const SCHEDULER_SCHEMA: &str = "manycore/scheduler/1";

/// The scheduler in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerReport {
    /// Always [`SCHEDULER_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEDULER_SCHEMA)))]
    pub schema: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Name of the `sched_ext` scheduler that is loaded.
    pub loaded: Option<String>,
}
