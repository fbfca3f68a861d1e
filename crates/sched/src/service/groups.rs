//! Policies of control groups. A policy holds for a group and all below it, of which the deepest named one counts.

use crate::{
    engine::Scheduler,
    error::{Error, Result},
    run::{FixedPolicy, Target, TargetPolicy},
};
use manycore_linux::targets::{self, Members};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Groups that are followed, in equal parts below the named ones. More have the policy of all tasks.
const MAX_GROUPS: usize = 20_000;

/// A named group.
struct NamedGroup {
    path: PathBuf,
    policy: FixedPolicy,
    is_gone: bool,
}

/// Policies of groups.
#[derive(Default)]
pub struct GroupPolicies {
    named: Vec<NamedGroup>,
    /// The policies that are in force, by the ids of groups.
    in_force: BTreeMap<u64, FixedPolicy>,
    /// Named groups that have gone, and were not reported yet.
    gone: Vec<String>,
}

impl GroupPolicies {
    /// Finds the groups.
    ///
    /// # Errors
    /// [`Error::Target`] if a group does not exist, [`Error::OldGroup`] if it is none of version 2.
    pub fn find(groups: &[&TargetPolicy]) -> Result<Self> {
        let named = groups.iter().filter_map(|group| match &group.target {
            Target::Cgroup(path) => Some((path, group.policy.fixed().unwrap_or_default())),
            _ => None,
        });
        let named = named.map(|(path, policy)| {
            let Members::ControlGroup(path) = targets::Target::Cgroup(path.clone()).find()? else {
                return Err(Error::OldGroup(path.clone()));
            };
            if !path.join("cgroup.controllers").exists() {
                return Err(Error::OldGroup(path.display().to_string()));
            }
            Ok(NamedGroup { path, policy, is_gone: false })
        });
        Ok(Self { named: named.collect::<Result<_>>()?, ..Self::default() })
    }

    /// Sets the policy of the group at this place of the command line.
    pub fn set(&mut self, index: usize, policy: FixedPolicy) {
        if let Some(group) = self.named.get_mut(index) {
            group.policy = policy;
        }
    }

    /// Forgets what is in force: the scheduler was loaded again.
    pub fn forget(&mut self) {
        self.in_force.clear();
    }

    /// Sets the policies of groups that are new, and removes those of groups that have gone.
    ///
    /// # Errors
    /// The kernel refuses a policy.
    pub fn apply(&mut self, scheduler: &Scheduler) -> Result {
        for (id, policy) in self.refresh() {
            scheduler.set_policy_of(id, policy)?;
        }
        Ok(())
    }

    /// Returns the named groups that have gone since the last call.
    pub fn take_gone(&mut self) -> Vec<String> {
        std::mem::take(&mut self.gone)
    }

    /// Looks for groups that were created or removed. Returns the policies to set, or with `None` to remove.
    fn refresh(&mut self) -> Vec<(u64, Option<FixedPolicy>)> {
        let mut wanted = BTreeMap::new();
        let limit = MAX_GROUPS / self.named.len().max(1);
        let mut order: Vec<usize> = (0..self.named.len()).collect();
        // The deepest last, so that it replaces what those above have set.
        order.sort_by_key(|&index| self.named[index].path.components().count());
        for index in order {
            let group = &mut self.named[index];
            let is_gone = !group.path.is_dir();
            if is_gone && !group.is_gone {
                self.gone.push(group.path.display().to_string());
            }
            group.is_gone = is_gone;
            wanted.extend(groups_below(&group.path, limit).into_iter().map(|id| (id, group.policy)));
        }
        let new = wanted.iter().filter(|(id, policy)| self.in_force.get(id) != Some(policy));
        let new = new.map(|(&id, &policy)| (id, Some(policy)));
        let old = self.in_force.keys().filter(|id| !wanted.contains_key(id)).map(|&id| (id, None));
        let changes = new.chain(old).collect();
        self.in_force = wanted;
        changes
    }
}

/// Returns the ids of a group and of those below it, `limit` at most. The id of a group is the number of its directory.
fn groups_below(path: &Path, limit: usize) -> Vec<u64> {
    let Some(first) = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir) else { return Vec::new() };
    let (mut found, mut left) = (vec![first.ino()], vec![path.to_owned()]);
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            if found.len() >= limit {
                return found;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.ino());
                left.push(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_group_counts_and_groups_come_and_go() {
        let folder = std::env::temp_dir().join(format!("manycore-groups-{}", std::process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let named = |path: &Path, policy| NamedGroup { path: path.to_owned(), policy, is_gone: false };
        let mut groups = GroupPolicies {
            named: vec![named(&inner, FixedPolicy::Pack), named(&folder, FixedPolicy::Spread)],
            ..GroupPolicies::default()
        };
        let id = |path: &Path| fs::metadata(path).unwrap().ino();
        let mut first = groups.refresh();
        first.sort_by_key(|(_, policy)| *policy == Some(FixedPolicy::Pack));
        let expected = [(id(&folder), Some(FixedPolicy::Spread)), (id(&inner), Some(FixedPolicy::Pack))];
        assert_eq!(first, expected);
        assert!(groups.refresh().is_empty());
        fs::remove_dir(&inner).unwrap();
        let changes = groups.refresh();
        assert_eq!((changes, groups.take_gone().len()), (vec![(expected[1].0, None)], 1));
        assert!(groups.refresh().is_empty() && groups.take_gone().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
