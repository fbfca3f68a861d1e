//! Makes the changes in this order: the group, its limits, then its tasks, so that no task runs under a part
//! of the limits.

use super::Aim;
use crate::cli::QosSet;
use manycore_control::journal::Journal;
use manycore_linux::{resctrl::Files, targets::Members};
use manycore_qos::write::{Refused, Writer};
use manycore_qos::{
    applied::{APPLIED_SCHEMA, Applied},
    told::{Told, tell},
    translate::Write,
};
use manycore_topology::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rounds in which tasks are searched that were created during the round before.
const ROUNDS: usize = 100;

/// A group that is created or changed.
pub(super) struct Job<'a> {
    pub(super) files: &'a Files,
    pub(super) journal: &'a Journal,
    pub(super) name: &'a str,
    /// Whether the group has to be created.
    pub(super) made: bool,
}

impl Job<'_> {
    /// Makes all changes.
    ///
    /// # Errors
    /// The kernel refused a change; the changes made before it are in the journal.
    pub(super) fn apply(&self, args: &QosSet, aim: &Aim) -> Result<Applied, Refused> {
        if self.made {
            self.writer().make(self.name)?;
        }
        let limits = self.limit(&aim.writes)?;
        self.claim(&aim.cpus)?;
        let tasks = aim.members.as_ref().map_or(Ok(0), |members| self.gather(members))?;
        let mut notes = aim.notes.clone();
        if tasks == 0 && aim.members.is_some() && !args.follow {
            notes.push("the target has no tasks now; later tasks are limited only with --follow".to_owned());
        }
        Ok(Applied {
            schema: APPLIED_SCHEMA.to_owned(),
            target: args.target.words(),
            group: Some(if self.name.is_empty() { "/".to_owned() } else { self.name.to_owned() }),
            made: self.made,
            dialect: self.files.offer().dialect,
            tasks,
            cpus: aim.cpus.clone(),
            limits,
            notes,
            journal: Some(self.journal.id()),
            offer: self.files.offer().clone(),
        })
    }

    fn writer(&self) -> Writer<'_> {
        Writer::new(self.files.root(), self.journal)
    }

    /// Writes the lines and reads back the values in force.
    fn limit(&self, writes: &[Write]) -> Result<Vec<Told>, Refused> {
        let before = self.files.schemata(self.name);
        // The limits of a new group vanish with it, so they need no entry in the journal.
        let noted = (!self.made).then_some(&before);
        for write in writes {
            self.writer().limit(self.name, write, noted)?;
            if let Some(before) = noted {
                self.writer().note_in_force(
                    self.name,
                    &write.line,
                    before,
                    &self.files.schemata(self.name),
                )?;
            }
        }
        let after = self.files.schemata(self.name);
        let tell = |write| tell(write, Some(&before), Some(&after), self.files.offer());
        Ok(writes.iter().flat_map(tell).collect())
    }

    /// Takes CPUs from the groups that have them.
    fn claim(&self, cpus: &CpuSet) -> Result<(), Refused> {
        if cpus.is_empty() {
            return Ok(());
        }
        let theirs = |name: String| (self.files.cpus(&name).intersection(cpus), name);
        let all = self.files.names().into_iter().filter(|name| name != self.name).map(theirs);
        let losing = all.filter(|(cpus, _)| !cpus.is_empty());
        // The CPUs of a monitoring group belong to its parent group as well.
        let (parts, groups): (Vec<_>, Vec<_>) = losing.partition(|(_, name)| name.contains("mon_groups/"));
        for (cpus, part) in parts {
            self.writer().note_lost(self.name, &cpus, &part)?;
        }
        for (cpus, group) in groups {
            self.writer().claim(self.name, &cpus, &group)?;
        }
        Ok(())
    }

    /// Moves all tasks of the target that are not in the group yet, including tasks that are created
    /// meanwhile. Returns the number of tasks of the target that are in the group.
    ///
    /// # Errors
    /// The kernel refused to move a task that still runs.
    pub(super) fn gather(&self, members: &Members) -> Result<usize, Refused> {
        let mut inside: BTreeSet<u32> = self.files.tasks(self.name).into_iter().collect();
        let mut gathered = members.tasks().intersection(&inside).count();
        for _ in 0..ROUNDS {
            let outside: Vec<u32> = members.tasks().difference(&inside).copied().collect();
            if outside.is_empty() {
                break;
            }
            let mut homes: BTreeMap<u32, String> = self.files.whereabouts();
            for tid in outside {
                let home = homes.remove(&tid).unwrap_or_default();
                if home != self.name && self.writer().assign(self.name, tid, &home)? {
                    gathered += 1;
                }
                inside.insert(tid);
            }
        }
        Ok(gathered)
    }
}
