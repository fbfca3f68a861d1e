//! The limits that control groups set for processes, each group read only once.

use crate::GroupLimits;
use manycore_topology::{
    CpuSet,
    cgroup::{self, GroupFolder, Hierarchies, HierarchyKind},
    sys_tree::SysTree,
};
use std::collections::HashMap;

/// Limits by the text of `/proc/PID/cgroup`.
pub(super) struct Groups<'a> {
    tree: &'a SysTree,
    hierarchies: Hierarchies,
    known: HashMap<String, GroupLimits>,
    /// Number of different groups that are not below a hierarchy mounted here.
    pub unknown: usize,
}

impl<'a> Groups<'a> {
    pub fn read(tree: &'a SysTree) -> Self {
        Self { tree, hierarchies: Hierarchies::read(tree), known: HashMap::new(), unknown: 0 }
    }

    /// Returns the limits of processes with these memberships.
    pub fn limits(&mut self, memberships: &str) -> GroupLimits {
        if let Some(known) = self.known.get(memberships) {
            return known.clone();
        }
        let found = self.read_limits(memberships).unwrap_or_else(|| {
            self.unknown += 1;
            GroupLimits::default()
        });
        self.known.insert(memberships.to_owned(), found.clone());
        found
    }

    fn read_limits(&self, memberships: &str) -> Option<GroupLimits> {
        let mut found = GroupLimits {
            service: cgroup::service(memberships).map(str::to_owned),
            ..GroupLimits::default()
        };
        for (group, folders) in self.hierarchies.folders(memberships, "cpuset")? {
            self.cpuset(&mut found, group, &folders);
        }
        let quotas = self.hierarchies.folders(memberships, "cpu")?;
        let quotas = quotas.iter().flat_map(|(_, folders)| folders);
        let limits = quotas.filter_map(|folder| cgroup::quota(self.tree, folder));
        if let Some((quota, file)) = limits
            .filter_map(|limit| Some((limit.quota_cpus?, limit.source)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
        {
            (found.quota_cpus, found.quota_file) = (Some(quota), file);
        }
        Some(found)
    }

    /// Finds the CPUs of the innermost group with a cpuset, and the outermost group with the same CPUs.
    fn cpuset(&self, found: &mut GroupLimits, group: String, folders: &[GroupFolder]) {
        let sets: Vec<Option<(CpuSet, String)>> = folders
            .iter()
            .map(|folder| {
                let limit = cgroup::cpuset(self.tree, folder).ok().flatten()?;
                Some((limit.cpus?, limit.source))
            })
            .collect();
        let Some((cpus, file)) = sets.iter().rev().find_map(Option::as_ref) else {
            if found.cpus.is_none() && found.group.is_empty() {
                (found.group, found.tenant) = (group.clone(), group);
            }
            return;
        };
        let outermost = sets.iter().position(|set| set.as_ref().is_some_and(|(set, _)| set == cpus));
        let levels_above = folders.len() - 1 - outermost.unwrap_or(folders.len() - 1);
        ancestor(&group, levels_above).clone_into(&mut found.tenant);
        found.partition = folders.last().is_some_and(|own| self.is_partition(own));
        (found.group, found.cpus, found.cpus_file) = (group, Some(cpus.clone()), file.clone());
    }

    /// Whether the group is a valid partition root. `cpuset.cpus.partition` is `member`, `root` or
    /// `isolated`, followed by `invalid` if the kernel could not make it one.
    fn is_partition(&self, folder: &GroupFolder) -> bool {
        folder.flavour == HierarchyKind::Unified
            && self
                .tree
                .read(&format!("{}/cpuset.cpus.partition", folder.path))
                .is_some_and(|text| text == "root" || text == "isolated")
    }
}

/// Returns the ancestor of a group that is `levels` above it.
fn ancestor(group: &str, levels: usize) -> &str {
    let mut path = group;
    for _ in 0..levels {
        path = path.rfind('/').map_or("", |at| &path[..at]);
    }
    if path.is_empty() { "/" } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;

    fn limits_of(files: &[(&str, &str)], memberships: &str) -> (GroupLimits, usize) {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        let tree = SysTree::from_capture(capture);
        let mut groups = Groups::read(&tree);
        (groups.limits(memberships), groups.unknown)
    }

    const V2: (&str, &str) = ("proc/self/mountinfo", "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw");

    #[test]
    fn the_tightest_quota_and_the_innermost_cpuset_count() {
        let files = [
            V2,
            ("cg/cpuset.cpus.effective", "0-7"),
            ("cg/docker/cpuset.cpus.effective", "0-7"),
            ("cg/docker/abc/cpuset.cpus.effective", "2-3"),
            ("cg/docker/abc/init/cpuset.cpus.effective", "2-3"),
            ("cg/docker/cpu.max", "150000 100000"),
            ("cg/docker/abc/cpu.max", "max 100000"),
        ];
        let (found, unknown) = limits_of(&files, "0::/docker/abc/init");
        assert_eq!(
            (found.group.as_str(), found.tenant.as_str(), unknown),
            ("/docker/abc/init", "/docker/abc", 0)
        );
        assert_eq!(found.cpus.unwrap().to_string(), "2-3");
        assert_eq!((found.quota_cpus, found.quota_file.as_str()), (Some(1.5), "/cg/docker/cpu.max"));
        assert!(!found.partition);
    }

    #[test]
    fn version_1_beside_an_empty_version_2_counts() {
        let files = [
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /cs rw - cgroup cgroup rw,cpuset\n2 0 0:2 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 3 0 0:3 / /cg rw - cgroup2 cgroup2 rw",
            ),
            ("cs/cpuset.effective_cpus", "0-1"),
            ("cs/lxc/a/cpuset.effective_cpus", "1"),
            ("cpu/lxc/a/cpu.cfs_quota_us", "50000"),
            ("cpu/lxc/a/cpu.cfs_period_us", "100000"),
        ];
        let memberships =
            "3:cpuset:/lxc/a\n2:cpu,cpuacct:/lxc/a\n1:name=systemd:/system.slice/x.service\n0::/";
        let (found, _) = limits_of(&files, memberships);
        assert_eq!((found.group.as_str(), found.cpus.unwrap().to_string().as_str()), ("/lxc/a", "1"));
        assert_eq!(found.quota_cpus, Some(0.5));
        assert_eq!(found.service.as_deref(), Some("/system.slice/x.service"));
    }

    #[test]
    fn groups_outside_of_what_is_mounted_are_not_guessed() {
        let (found, unknown) = limits_of(&[V2, ("cg/cpuset.cpus.effective", "0-3")], "0::/../other");
        assert_eq!((found, unknown), (GroupLimits::default(), 1));
    }

    #[test]
    fn partitions_are_recognized() {
        let files = [V2, ("cg/p/cpuset.cpus.effective", "3"), ("cg/p/cpuset.cpus.partition", "root")];
        assert!(limits_of(&files, "0::/p").0.partition);
        let files =
            [V2, ("cg/p/cpuset.cpus.effective", "3"), ("cg/p/cpuset.cpus.partition", "root invalid (x)")];
        assert!(!limits_of(&files, "0::/p").0.partition);
    }
}
