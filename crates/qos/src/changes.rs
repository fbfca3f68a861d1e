//! The changes that `qos set` made, or would make.

use crate::limit_outcome::LimitOutcome;
use manycore_linux::resctrl::dialect::{Capabilities, Dialect};
use manycore_topology::CpuSet;
use serde::Serialize;

/// Value of [`LimitChanges::schema`] that this version writes.
pub const CHANGES_SCHEMA: &str = "manycore/qos-applied/1";

/// A group that was created or changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitChanges {
    /// Always [`CHANGES_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = CHANGES_SCHEMA)))]
    pub schema: String,
    /// The target, as it was requested.
    pub target: String,
    /// The group; absent for a dry run in which its name is not chosen yet.
    pub group: Option<String>,
    /// Whether the group is new.
    pub created: bool,
    /// The dialect of the kernel.
    pub dialect: Dialect,
    /// Number of tasks that were moved into the group, or would be.
    pub tasks: usize,
    /// CPUs that were moved into the group, or would be.
    pub cpus: CpuSet,
    /// The outcome of each limit in each domain.
    pub limits: Vec<LimitOutcome>,
    /// Further notes for the user.
    pub notes: Vec<String>,
    /// Name of the journal with which the changes can be undone; absent if nothing was changed.
    pub journal: Option<String>,
    /// What can be set; needed to print the values.
    #[serde(skip)]
    pub capabilities: Capabilities,
}

impl LimitChanges {
    /// Returns the limits that the kernel accepted without an error, but did not apply.
    pub fn ignored(&self) -> impl Iterator<Item = &LimitOutcome> {
        self.limits.iter().filter(|outcome| outcome.ignored)
    }
}
