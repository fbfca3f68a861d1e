//! The usage of groups, reading after reading.

use crate::{
    created_groups,
    error::{Error, Result},
};
use manycore_linux::{
    clock::utc,
    resctrl::{
        Files, Sampler,
        state::GroupOwner,
        watch::{MonitorReadings, UsageSnapshot},
    },
};
use std::{collections::BTreeMap, path::Path};

/// Reads the monitors of groups repeatedly.
pub struct UsageWatch<'a> {
    files: &'a Files,
    /// Names of the groups; empty for all groups.
    groups: &'a [String],
    sampler: Sampler<&'a Files>,
    last: MonitorReadings,
    owners: BTreeMap<String, GroupOwner>,
}

impl<'a> UsageWatch<'a> {
    /// Takes the first reading of `groups`, or of all groups if that is empty. Groups may be created later.
    ///
    /// # Errors
    /// [`Error::NoMonitors`] if all groups are watched and none has a monitor.
    pub fn begin(files: &'a Files, groups: &'a [String]) -> Result<Self> {
        let mut sampler = Sampler::new(files);
        let last = sampler.sample(|name| is_wanted(groups, name));
        if groups.is_empty() && last.is_empty() {
            return Err(Error::NoMonitors(files.root().display().to_string()));
        }
        Ok(Self { files, groups, sampler, last, owners: BTreeMap::new() })
    }

    /// Returns the requested groups that do not exist.
    pub fn missing_groups(&self) -> impl Iterator<Item = &str> {
        let names = self.files.names();
        self.groups
            .iter()
            .map(String::as_str)
            .filter(move |group| !names.iter().any(|name| name == group.trim_start_matches('/')))
    }

    /// Takes a reading, and returns the usage since the one before.
    pub fn sample(&mut self) -> UsageSnapshot {
        let groups = self.groups;
        let now = self.sampler.sample(|name| is_wanted(groups, name));
        let mut snapshot = UsageSnapshot::between(utc(), &self.last, &now, |name| is_wanted(groups, name));
        self.set_owners(&mut snapshot);
        self.last = now;
        snapshot
    }

    /// Sets the owners of the groups. The journals are read only when a new group appears.
    fn set_owners(&mut self, snapshot: &mut UsageSnapshot) {
        if snapshot.groups.iter().any(|group| !self.owners.contains_key(&group.name)) {
            let created = created_groups();
            let root = self.files.root().display().to_string();
            let root = root.trim_end_matches('/');
            let owner = |name: &str| {
                let name = name.trim_start_matches('/');
                let journal = created.get(Path::new(&format!("{root}/{name}"))).map(String::as_str);
                GroupOwner::from_group_name(name, journal)
            };
            self.owners =
                snapshot.groups.iter().map(|group| (group.name.clone(), owner(&group.name))).collect();
        }
        for group in &mut snapshot.groups {
            if let Some(owner) = self.owners.get(&group.name) {
                group.owner = owner.clone();
            }
        }
    }
}

fn is_wanted(groups: &[String], name: &str) -> bool {
    let title = if name.is_empty() { "/" } else { name };
    groups.is_empty() || groups.iter().any(|group| group == title || group == name)
}
