//! Policies of control groups. A policy holds for a group and all below it, of which the deepest named one counts.

use crate::{
    error::{Error, Result},
    run::{FixedPolicy, Target, TargetPolicy},
};
use manycore_linux::targets::{self, Members};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Groups below a named one that are followed. More have the policy of all tasks.
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
}

/// What has changed since the last look.
#[derive(Default)]
pub struct GroupChanges {
    /// Policies to set, or with `None` to remove.
    pub policies: Vec<(u64, Option<FixedPolicy>)>,
    /// Named groups that have gone.
    pub gone: Vec<String>,
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
        Ok(Self { named: named.collect::<Result<_>>()?, in_force: BTreeMap::new() })
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

    /// Looks for groups that were created or removed.
    pub fn refresh(&mut self) -> GroupChanges {
        let mut changes = GroupChanges::default();
        let mut wanted = BTreeMap::new();
        let mut order: Vec<usize> = (0..self.named.len()).collect();
        // The deepest last, so that it replaces what those above have set.
        order.sort_by_key(|&index| self.named[index].path.components().count());
        for index in order {
            let group = &mut self.named[index];
            let is_gone = !group.path.is_dir();
            if is_gone && !group.is_gone {
                changes.gone.push(group.path.display().to_string());
            }
            group.is_gone = is_gone;
            add(&group.path, group.policy, &mut wanted);
        }
        for (&id, &policy) in &wanted {
            if self.in_force.get(&id) != Some(&policy) {
                changes.policies.push((id, Some(policy)));
            }
        }
        changes
            .policies
            .extend(self.in_force.keys().filter(|id| !wanted.contains_key(id)).map(|&id| (id, None)));
        self.in_force = wanted;
        changes
    }
}

/// Adds a group and all below it. The id of a group is the number of its directory.
fn add(path: &Path, policy: FixedPolicy, wanted: &mut BTreeMap<u64, FixedPolicy>) {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() || wanted.len() >= MAX_GROUPS {
            continue;
        }
        wanted.insert(metadata.ino(), policy);
        left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
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
            in_force: BTreeMap::new(),
        };
        let id = |path: &Path| fs::metadata(path).unwrap().ino();
        let mut first = groups.refresh().policies;
        first.sort_by_key(|(_, policy)| *policy == Some(FixedPolicy::Pack));
        let expected = [(id(&folder), Some(FixedPolicy::Spread)), (id(&inner), Some(FixedPolicy::Pack))];
        assert_eq!(first, expected);
        assert!(groups.refresh().policies.is_empty());
        fs::remove_dir(&inner).unwrap();
        let changes = groups.refresh();
        assert_eq!((changes.policies, changes.gone.len()), (vec![(expected[1].0, None)], 1));
        assert!(groups.refresh().gone.is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
