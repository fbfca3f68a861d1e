//! The outcome of undoing a journal.

use crate::journal::change::Change;
use serde::Serialize;
use std::fmt::Display;

/// The outcome of undoing a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoResult {
    /// Number of tasks whose CPUs were restored.
    pub tasks: usize,
    /// Number of processes that were moved back to their control group.
    pub processes_moved_back: usize,
    /// Number of control groups that were removed.
    pub control_groups: usize,
    /// Number of processes of measured instances that were killed.
    pub processes_killed: usize,
    /// Number of containers of measured instances that were removed.
    pub containers: usize,
    /// Number of virtual machines of measured instances that were ended.
    pub domains: usize,
    /// Number of kernel settings that were restored.
    pub settings: usize,
    /// Number of processes that kept a scheduler loaded and were ended.
    pub schedulers: usize,
    /// Number of tasks whose scheduling class was restored.
    pub scheduling_classes: usize,
    /// Number of tasks that were moved back to their resctrl group.
    pub tasks_moved_back: usize,
    /// Number of resctrl groups that were removed.
    pub resctrl_groups: usize,
    /// Number of limits of resctrl groups that were restored.
    pub limits: usize,
    /// Number of file systems that were unmounted.
    pub mounts: usize,
    /// Settings that another program has changed since and that were left unchanged, one sentence each.
    pub changed_by_others: Vec<String>,
    /// Changes that cannot be undone while another program uses them. The journal is kept, with only these
    /// changes.
    #[serde(skip)]
    pub deferred: Vec<Change>,
    /// Changes that could not be undone, and why, one sentence each. The journal is kept.
    pub failed: Vec<String>,
}

impl UndoResult {
    /// Returns a message about changes of the journal `id` that could not be undone; absent if there are none.
    pub fn failure(&self, id: &str) -> Option<String> {
        let (first, rest) = self.failed.split_first()?;
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        Some(format!("{first}{more}; run 'manycore undo {id}' to try again"))
    }
}

/// Returns the message that a setting is not as we left it.
pub(super) fn changed(what: &str, now: &dyn Display) -> String {
    format!("{what} was changed to {now} by another program: left unchanged")
}
