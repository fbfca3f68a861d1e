//! The changes, in their order: the group, its limits, and then its tasks, so that none runs under half of them.

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

/// Rounds in which tasks are sought that were born in the one before.
const ROUNDS: usize = 100;

/// A group that is made or changed.
pub(super) struct Job<'a> {
    pub(super) files: &'a Files,
    pub(super) journal: &'a Journal,
    pub(super) name: &'a str,
    /// Whether it is to be made.
    pub(super) made: bool,
}

impl Job<'_> {
    /// Does all of it.
    ///
    /// # Errors
    /// The kernel refuses a part; what was done until then is in the journal.
    pub(super) fn apply(&self, args: &QosSet, aim: &Aim) -> Result<Applied, Refused> {
        if self.made {
            self.writer().make(self.name)?;
        }
        let limits = self.limit(&aim.writes)?;
        self.claim(&aim.cpus)?;
        let tasks = aim.members.as_ref().map_or(Ok(0), |members| self.gather(members))?;
        let mut notes = aim.notes.clone();
        if tasks == 0 && aim.members.is_some() && !args.follow {
            notes.push("nobody is in it: who enters it later is limited only with --follow".to_owned());
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

    /// Writes the lines and reads back what the kernel made of them.
    fn limit(&self, writes: &[Write]) -> Result<Vec<Told>, Refused> {
        let before = self.files.schemata(self.name);
        // Limits of a group of ours go with it.
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
        // CPUs of a monitoring group are also those of the group that it is in.
        let (parts, groups): (Vec<_>, Vec<_>) = losing.partition(|(_, name)| name.contains("mon_groups/"));
        for (cpus, part) in parts {
            self.writer().note_lost(self.name, &cpus, &part)?;
        }
        for (cpus, group) in groups {
            self.writer().claim(self.name, &cpus, &group)?;
        }
        Ok(())
    }

    /// Moves all tasks of the target that are not in the group yet, and those that are born meanwhile: how many are in it.
    ///
    /// # Errors
    /// The kernel refuses one that has not ended.
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
