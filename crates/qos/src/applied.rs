//! What `qos set` has done, or would do.

use super::told::Told;
use manycore_linux::resctrl::dialect::{Dialect, Offer};
use manycore_topology::CpuSet;
use serde::Serialize;

/// Value of [`Applied::schema`] that this version writes.
pub const APPLIED_SCHEMA: &str = "manycore/qos-applied/1";

/// A group that was made or changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applied {
    /// Always [`APPLIED_SCHEMA`].
    pub schema: String,
    /// Who is limited, as it was asked for.
    pub target: String,
    /// The group; absent where only asked and its name is not chosen yet.
    pub group: Option<String>,
    /// Whether it is new.
    pub made: bool,
    /// Who speaks.
    pub dialect: Dialect,
    /// Tasks that were put into it, or would be.
    pub tasks: usize,
    /// CPUs that were put into it, or would be.
    pub cpus: CpuSet,
    /// Each limit in each domain.
    pub limits: Vec<Told>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// Name of the journal that takes it back; absent where nothing was changed.
    pub journal: Option<String>,
    /// What can be set, to read the figures by.
    #[serde(skip)]
    pub offer: Offer,
}

impl Applied {
    /// Limits that the kernel took without a word, and kept the old one.
    pub fn ignored(&self) -> impl Iterator<Item = &Told> {
        self.limits.iter().filter(|told| told.ignored)
    }
}
