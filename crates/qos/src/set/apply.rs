//! Makes the changes in this order: the group, its limits, then its tasks, so that no task runs under a part
//! of the limits.

use super::{Options, ResolvedRequest};
use crate::{
    changes::{CHANGES_SCHEMA, LimitChanges},
    error::Result,
    limit_outcome::{LimitOutcome, limit_outcomes},
    system::undo_changes,
    translate::SchemataWrite,
    write::{WriteError, Writer},
};
use manycore_control::journal::Journal;
use manycore_experiment::session::Listener;
use manycore_linux::{resctrl::Files, targets::Members};
use manycore_topology::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rounds in which tasks are searched that were created during the round before.
const ROUNDS: usize = 100;

/// A group that is created or changed.
pub(super) struct GroupChange<'a> {
    pub(super) files: &'a Files,
    pub(super) journal: &'a Journal,
    pub(super) name: &'a str,
    /// Whether the group has to be created.
    pub(super) create: bool,
}

impl GroupChange<'_> {
    /// Makes all changes.
    ///
    /// # Errors
    /// The kernel refused a change; the changes made before it are in the journal.
    pub(super) fn apply(
        &self,
        options: &Options,
        resolved: &ResolvedRequest,
    ) -> Result<LimitChanges, WriteError> {
        if self.create {
            self.writer().create_group(self.name)?;
        }
        let limits = self.write_limits(&resolved.writes)?;
        self.move_cpus(&resolved.cpus)?;
        let tasks = resolved.members.as_ref().map_or(Ok(0), |members| self.assign_tasks(members))?;
        let mut notes = resolved.notes.clone();
        if tasks == 0 && resolved.members.is_some() && !options.follow {
            notes.push(
                "the target has no tasks now; tasks that enter it later are limited only if it is followed"
                    .to_owned(),
            );
        }
        Ok(LimitChanges {
            schema: CHANGES_SCHEMA.to_owned(),
            target: options.description.clone(),
            group: Some(if self.name.is_empty() { "/".to_owned() } else { self.name.to_owned() }),
            created: self.create,
            dialect: self.files.capabilities().dialect,
            tasks,
            cpus: resolved.cpus.clone(),
            limits,
            notes,
            journal: Some(self.journal.id()),
            capabilities: self.files.capabilities().clone(),
        })
    }

    fn writer(&self) -> Writer<'_> {
        Writer::new(self.files.root(), self.journal)
    }

    /// Writes the lines and reads back the values in force.
    fn write_limits(&self, writes: &[SchemataWrite]) -> Result<Vec<LimitOutcome>, WriteError> {
        let before = self.files.schemata(self.name);
        // The limits of a new group vanish with it, so they need no entry in the journal.
        let recorded = (!self.create).then_some(&before);
        for write in writes {
            self.writer().write_limit(self.name, write, recorded)?;
            if let Some(before) = recorded {
                let now = self.files.schemata(self.name);
                self.writer().record_in_force(self.name, &write.line, before, &now)?;
            }
        }
        let after = self.files.schemata(self.name);
        let outcomes = |write| limit_outcomes(write, Some(&before), Some(&after), self.files.capabilities());
        Ok(writes.iter().flat_map(outcomes).collect())
    }

    /// Takes CPUs from the groups that have them.
    fn move_cpus(&self, cpus: &CpuSet) -> Result<(), WriteError> {
        if cpus.is_empty() {
            return Ok(());
        }
        let theirs = |name: String| (self.files.cpus(&name).intersection(cpus), name);
        let all = self.files.names().into_iter().filter(|name| name != self.name).map(theirs);
        let losing = all.filter(|(cpus, _)| !cpus.is_empty());
        // The CPUs of a monitoring group belong to its parent group as well.
        let (parts, groups): (Vec<_>, Vec<_>) = losing.partition(|(_, name)| name.contains("mon_groups/"));
        for (cpus, part) in parts {
            self.writer().record_lost(self.name, &cpus, &part)?;
        }
        for (cpus, group) in groups {
            self.writer().move_cpus(self.name, &cpus, &group)?;
        }
        Ok(())
    }

    /// Moves all tasks of the target that are not in the group yet, including tasks that are created
    /// meanwhile. Returns the number of tasks of the target that are in the group.
    ///
    /// # Errors
    /// The kernel refused to move a task that still runs.
    fn assign_tasks(&self, members: &Members) -> Result<usize, WriteError> {
        let mut inside: BTreeSet<u32> = self.files.tasks(self.name).into_iter().collect();
        let mut assigned = members.tasks().intersection(&inside).count();
        for _ in 0..ROUNDS {
            let outside: Vec<u32> = members.tasks().difference(&inside).copied().collect();
            if outside.is_empty() {
                break;
            }
            let mut groups: BTreeMap<u32, String> = self.files.group_of_tasks();
            for tid in outside {
                let group = groups.remove(&tid).unwrap_or_default();
                if group != self.name && self.writer().move_task(self.name, tid, &group)? {
                    assigned += 1;
                }
                inside.insert(tid);
            }
        }
        Ok(assigned)
    }
}

/// Limits that are in force, recorded in a journal.
#[derive(Debug)]
pub struct AppliedLimits {
    /// The changes that were made.
    pub changes: LimitChanges,
    files: Files,
    journal: Journal,
    name: String,
    members: Option<Members>,
}

impl AppliedLimits {
    pub(super) fn new(
        changes: LimitChanges,
        files: Files,
        journal: Journal,
        name: String,
        members: Option<Members>,
    ) -> Self {
        Self { changes, files, journal, name, members }
    }

    /// Returns the name of the group.
    pub fn group(&self) -> &str {
        &self.name
    }

    /// Whether the target still exists. A control group may be empty for a while; a process that has ended
    /// does not return. CPUs and groups are not followed.
    pub fn target_exists(&self) -> bool {
        match &self.members {
            Some(Members::ControlGroup(folder)) => folder.is_dir(),
            Some(members @ Members::ProcessTrees(_)) => !members.tasks().is_empty(),
            None => false,
        }
    }

    /// Moves tasks of the target that are not in the group into it. The kernel lets child processes inherit
    /// the group, but does not move tasks that enter the control group from elsewhere.
    ///
    /// # Errors
    /// The kernel refused to move a task that still runs.
    pub fn move_new_tasks(&self) -> Result {
        let Self { files, journal, name, members, .. } = self;
        if let Some(members) = members {
            GroupChange { files, journal, name, create: false }.assign_tasks(members)?;
        }
        Ok(())
    }

    /// Limits these processes and their descendants as well. They are no part of the target afterwards.
    ///
    /// # Errors
    /// The kernel refused to move a task that still runs.
    pub fn limit_also(&self, pids: &[u32]) -> Result {
        let Self { files, journal, name, .. } = self;
        let members = Members::ProcessTrees(pids.to_vec());
        GroupChange { files, journal, name, create: false }.assign_tasks(&members)?;
        Ok(())
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// [`crate::Error::NotUndone`] if some of them cannot be undone.
    pub fn undo(self, listener: &mut dyn Listener) -> Result {
        undo_changes(self.journal, listener)
    }
}
