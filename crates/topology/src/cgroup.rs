//! Finds the control groups of a process, and their files (`cgroups(7)`, `proc(5)`).

mod limits;

pub(crate) use limits::effective_cpuset;
pub use limits::{cpuset, quota};

use crate::sys_tree::SysTree;
use std::path::Path;

/// Maximum depth of groups. Real groups are nested a dozen deep at most, and there are few hierarchies; a
/// damaged file with more must not cost a look-up for each.
const MAX_DEPTH: usize = 64;
/// Maximum number of mounts, for the same reason as [`MAX_DEPTH`].
const MAX_MOUNTS: usize = 256;

/// Version and naming scheme of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HierarchyKind {
    /// Version 2, all controllers in one hierarchy.
    Unified,
    /// Version 1, whose files begin with the controller's name (`cpuset.cpus`).
    Named,
    /// The `cpuset` file system that preceded control groups, or a mount with `noprefix` (`cpus`).
    Bare,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    flavour: HierarchyKind,
    /// Controllers of a version 1 hierarchy.
    controllers: Vec<String>,
    /// The group at the mount point: `/` except in containers.
    root: String,
    /// The mount point.
    point: String,
}

/// The directory of a group of a process, or of one of its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFolder {
    /// The naming scheme of its files.
    pub flavour: HierarchyKind,
    /// Path without a leading slash.
    pub path: String,
}

/// Returns the directories of this process's group and of its ancestors, outermost first, in each hierarchy
/// that has `controller`.
pub fn folders(tree: &SysTree, controller: &str) -> Vec<GroupFolder> {
    folders_of(tree, "self", controller)
}

/// As [`folders`] for another process: `process` is its id, or `self`.
pub fn folders_of(tree: &SysTree, process: &str, controller: &str) -> Vec<GroupFolder> {
    let memberships = memberships(tree, process).unwrap_or_default();
    // The membership in a cpuset of kernels without /proc/self/cgroup.
    let cpuset = tree.read(&format!("proc/{process}/cpuset"));
    let mut found = Vec::new();
    for mount in Hierarchies::read(tree).with(controller) {
        let group = mount
            .membership(&memberships, controller)
            .or(cpuset.as_deref().filter(|_| controller == "cpuset"));
        let Some(group) = group else { continue };
        found.extend(
            ancestry(mount, group).into_iter().map(|path| GroupFolder { flavour: mount.flavour, path }),
        );
    }
    found
}

/// Returns this process's group in a hierarchy of version 1 that has `controller` and none of `without`.
pub fn own_named(tree: &SysTree, controller: &str, without: &[&str]) -> Option<GroupFolder> {
    let memberships = memberships(tree, "self")?;
    let hierarchies = Hierarchies::read(tree);
    let mut mounts = hierarchies.with(controller).filter(|mount| {
        mount.flavour == HierarchyKind::Named
            && !mount.controllers.iter().any(|name| without.contains(&name.as_str()))
    });
    let mount = mounts.next()?;
    let path = ancestry(mount, mount.membership(&memberships, controller)?).pop()?;
    Some(GroupFolder { flavour: mount.flavour, path })
}

/// Returns this process's group of version 2.
pub fn own_unified(tree: &SysTree) -> Option<GroupFolder> {
    // No hierarchy of version 1 has a controller with an empty name.
    folders(tree, "").pop()
}

/// Reads the groups of process or thread `id` (`PID` or `PID/task/TID`), as [`Hierarchies::folders`] takes
/// them.
pub fn memberships(tree: &SysTree, id: &str) -> Option<String> {
    tree.read_part(&format!("proc/{id}/cgroup"), 1 << 20, only_ours)
}

/// Returns the lines of a membership file with controllers that this crate uses.
fn only_ours(text: &str) -> String {
    let ours = |line: &&str| {
        line.starts_with("0::")
            || ["cpu", "memory", "pids", "freezer", "name=systemd"].iter().any(|name| line.contains(name))
    };
    text.lines().filter(ours).collect::<Vec<_>>().join("\n")
}

/// All mounted hierarchies, read once to look up many processes.
#[derive(Clone, Debug, Default)]
pub struct Hierarchies(Vec<Mount>);

impl Hierarchies {
    /// Reads the mount table.
    pub fn read(tree: &SysTree) -> Self {
        Self(mounts(tree).into_iter().take(MAX_MOUNTS).collect())
    }

    /// As [`folders`], for a process with these [`memberships`]: the name of its group in each hierarchy,
    /// with the directories. Absent if a group is not below the mount point, since its limits are then
    /// unknown.
    pub fn folders(&self, memberships: &str, controller: &str) -> Option<Vec<(String, Vec<GroupFolder>)>> {
        let mut found = Vec::new();
        for mount in self.with(controller) {
            let Some(group) = mount.membership(memberships, controller) else { continue };
            let root = mount.root.trim_end_matches('/');
            let below = group.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if !below || group.split('/').any(|part| part == "..") {
                return None;
            }
            let folder = |path| GroupFolder { flavour: mount.flavour, path };
            found.push((group.to_owned(), ancestry(mount, group).into_iter().map(folder).collect()));
        }
        Some(found)
    }

    /// Returns the mount points without a leading slash: version 2 first, then the hierarchy that holds
    /// systemd's units.
    pub fn points(&self) -> Vec<String> {
        let rank = |mount: &&Mount| match mount.flavour {
            HierarchyKind::Unified => 0,
            _ if mount.controllers.iter().any(|name| name == "name=systemd") => 1,
            _ => 2,
        };
        let mut mounts: Vec<&Mount> = self.0.iter().collect();
        mounts.sort_by_key(rank);
        mounts.into_iter().map(|mount| mount.point.trim_matches('/').to_owned()).collect()
    }

    /// Returns the outermost visible group of each hierarchy that has `controller`. Only version 2 has an empty one.
    pub fn roots(&self, controller: &str) -> Vec<GroupFolder> {
        let root = |mount: &Mount| GroupFolder {
            flavour: mount.flavour,
            path: mount.point.trim_matches('/').to_owned(),
        };
        self.with(controller).map(root).collect()
    }

    fn with<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Mount> {
        let has = move |mount: &&Mount| {
            mount.flavour == HierarchyKind::Unified || mount.controllers.iter().any(|name| name == controller)
        };
        self.0.iter().filter(has)
    }
}

impl Mount {
    fn membership<'a>(&self, memberships: &'a str, controller: &str) -> Option<&'a str> {
        membership(memberships, (self.flavour != HierarchyKind::Unified).then_some(controller))
    }
}

/// Returns whether the memory of a group is accounted, in `memory.current` (version 2) or `memory.usage_in_bytes`.
pub fn has_memory(group: &Path) -> bool {
    ["memory.current", "memory.usage_in_bytes"].iter().any(|name| group.join(name).is_file())
}

/// Returns the service of a process with these [`memberships`], if systemd started it.
pub fn service(memberships: &str) -> Option<&str> {
    let group = membership(memberships, Some("name=systemd")).or(membership(memberships, None))?;
    group.strip_suffix(".service").is_some().then_some(group)
}

/// Returns the bytes that are available in the groups of this process: the smallest difference of limit and
/// usage over all ancestors (`memory.max` and `memory.current`, or version 1's `memory.limit_in_bytes` and
/// `memory.usage_in_bytes`). Absent if no group has a limit.
pub fn memory_left(tree: &SysTree) -> Option<u64> {
    let number = |folder: &GroupFolder, name: &str| {
        tree.read(&format!("{}/{name}", folder.path))?.trim().parse::<u64>().ok()
    };
    let left = |folder: &GroupFolder| {
        let (limit, used) = match folder.flavour {
            HierarchyKind::Unified => ("memory.max", "memory.current"),
            HierarchyKind::Named | HierarchyKind::Bare => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        // Version 1 writes "no limit" as the largest number of whole pages.
        let limit = number(folder, limit).filter(|&limit| limit < 1 << 60)?;
        Some(limit.saturating_sub(number(folder, used)?))
    };
    folders(tree, "memory").iter().filter_map(left).min()
}

/// Reads the mounted hierarchies. `mountinfo` holds the group at each mount point; `mounts` is the older
/// file. Of several mounts of the same groups, as in the root of a container, only the first is returned.
fn mounts(tree: &SysTree) -> Vec<Mount> {
    let ours = |line: &&str| {
        let has_controller = ["cpu", "memory", "pids", "freezer"].iter().any(|name| line.contains(name));
        line.contains(" cgroup2 ") || has_controller && line.contains(" c")
    };
    let only_groups = |text: &str| text.lines().filter(ours).collect::<Vec<_>>().join("\n");
    let read = |path: &str| tree.read_part(path, 4 << 20, only_groups).filter(|text| !text.is_empty());
    if let Some(text) = read("proc/self/mountinfo") {
        return first_of_each(text.lines().filter_map(mountinfo_line));
    }
    let text = read("proc/self/mounts").or_else(|| read("proc/mounts")).unwrap_or_default();
    first_of_each(text.lines().filter_map(mounts_line))
}

fn first_of_each(mounts: impl Iterator<Item = Mount>) -> Vec<Mount> {
    let mut first: Vec<Mount> = Vec::new();
    for mount in mounts {
        let shows_same = |known: &Mount| {
            (known.flavour, &known.controllers, &known.root)
                == (mount.flavour, &mount.controllers, &mount.root)
        };
        if !first.iter().any(shows_same) {
            first.push(mount);
        }
    }
    first
}

/// Parses `34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset`.
fn mountinfo_line(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let kind: Vec<&str> = kind.split(' ').collect();
    mount(kind.first()?, place.get(3)?, place.get(4)?, kind.get(2).copied().unwrap_or_default())
}

/// Parses `cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0`.
fn mounts_line(line: &str) -> Option<Mount> {
    let words: Vec<&str> = line.split(' ').collect();
    mount(words.get(2)?, "/", words.get(1)?, words.get(3).copied().unwrap_or_default())
}

fn mount(kind: &str, root: &str, point: &str, options: &str) -> Option<Mount> {
    let bare = kind == "cpuset" || options.split(',').any(|option| option == "noprefix");
    let flavour = match kind {
        "cgroup2" => HierarchyKind::Unified,
        "cgroup" | "cpuset" if bare => HierarchyKind::Bare,
        "cgroup" => HierarchyKind::Named,
        _ => return None,
    };
    let mut controllers: Vec<String> = options.split(',').map(str::to_owned).collect();
    if kind == "cpuset" {
        controllers.push("cpuset".to_owned());
    }
    Some(Mount { flavour, controllers, root: unescape(root), point: unescape(point) })
}

/// Decodes white space and backslashes, which the kernel writes in mount tables as three octal digits.
pub fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// Returns the group of the line `3:cpu,cpuset:/a/b` that has the controller, or of `0::/a/b` for version 2.
fn membership<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let ours = match controller {
            Some(controller) => controllers.split(',').any(|name| name == controller),
            None => number == "0" && controllers.is_empty(),
        };
        ours.then_some(group)
    })
}

/// Returns the paths of a group and its ancestors, from the mount point down. In a container the group may
/// not be below the mount point; then only the mount point itself can be read.
fn ancestry(mount: &Mount, group: &str) -> Vec<String> {
    let root = mount.root.trim_end_matches('/');
    let below =
        group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or("");
    let parts = below.split('/').filter(|part| !part.is_empty());
    let mut path = mount.point.trim_matches('/').to_owned();
    let mut paths = vec![path.clone()];
    for part in parts.take_while(|part| *part != "..").take(MAX_DEPTH) {
        path = format!("{path}/{part}");
        paths.push(path.clone());
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use proptest::prelude::*;

    fn tree(files: &[(&str, &str)]) -> SysTree {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        SysTree::from_capture(capture)
    }

    fn paths(tree: &SysTree, controller: &str) -> Vec<String> {
        folders(tree, controller).into_iter().map(|folder| folder.path).collect()
    }

    #[test]
    fn memory_is_left_by_the_tightest_ancestor() {
        let mounts = "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw\n2 0 0:2 / /mem rw - cgroup cgroup rw,memory";
        let tree = tree(&[
            ("proc/self/cgroup", "2:memory:/c\n0::/a/b"),
            ("proc/self/mountinfo", mounts),
            ("cg/a/memory.max", "1000"),
            ("cg/a/memory.current", "400"),
            ("cg/a/b/memory.max", "max"),
            ("cg/a/b/memory.current", "300"),
            ("mem/c/memory.limit_in_bytes", "9223372036854771712"),
            ("mem/c/memory.usage_in_bytes", "1"),
        ]);
        assert_eq!(memory_left(&tree), Some(600));
    }

    #[test]
    fn both_versions_are_walked_from_the_mount_down() {
        let tree = tree(&[
            ("proc/self/cgroup", "3:cpu,cpuacct:/a/b\n2:cpuset:/c\n0::/d"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n2 0 0:2 / /cg/set\\040x rw shared:1 - cgroup cgroup rw,cpuset\n\
                 3 0 0:3 / /cg/unified rw - cgroup2 cgroup2 rw\n4 0 0:4 / /tmp rw - tmpfs tmpfs rw",
            ),
        ]);
        assert_eq!(paths(&tree, "cpu"), ["cg/cpu", "cg/cpu/a", "cg/cpu/a/b", "cg/unified", "cg/unified/d"]);
        assert_eq!(paths(&tree, "cpuset"), ["cg/set x", "cg/set x/c", "cg/unified", "cg/unified/d"]);
    }

    /// Regression test: with `/sys` bound into another root, the guard found no process of a group.
    #[test]
    fn groups_that_are_mounted_twice_are_found_once() {
        let tree = tree(&[
            ("proc/self/cgroup", "2:memory:/c\n0::/d"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n\
                 3 0 0:1 / /root/cg/memory rw - cgroup cgroup rw,memory\n4 0 0:2 / /root/cg rw - cgroup2 cgroup2 rw\n\
                 5 0 0:2 /d /group rw - cgroup2 cgroup2 rw",
            ),
        ]);
        assert_eq!(
            paths(&tree, "memory"),
            ["cg/memory", "cg/memory/c", "cg/unified", "cg/unified/d", "group"]
        );
    }

    #[test]
    fn containers_see_their_group_at_the_mount_point() {
        let mount = |root: &str| Mount {
            flavour: HierarchyKind::Unified,
            controllers: vec![],
            root: root.into(),
            point: "/cg".into(),
        };
        assert_eq!(ancestry(&mount("/docker/abc"), "/docker/abc/x"), ["cg", "cg/x"]);
        assert_eq!(ancestry(&mount("/docker/abc"), "/docker/abcd"), ["cg"]);
        assert_eq!(ancestry(&mount("/"), "/../../x"), ["cg"]);
    }

    #[test]
    fn the_oldest_cpusets_are_read() {
        let tree = tree(&[("proc/self/cpuset", "/job"), ("proc/mounts", "none /dev/cpuset cpuset rw 0 0")]);
        assert_eq!(
            folders(&tree, "cpuset").last(),
            Some(&GroupFolder { flavour: HierarchyKind::Bare, path: "dev/cpuset/job".into() })
        );
    }

    proptest! {
        #[test]
        fn any_tables_are_read(groups in "([0-9:,/a-z. ]|\n){0,120}", table in "([-0-9:,/a-z. \\\\]|cgroup2?|\n){0,120}") {
            let tree = tree(&[("proc/self/cgroup", &groups), ("proc/self/mountinfo", &table), ("proc/mounts", &table)]);
            let _ = (folders(&tree, "cpu"), folders(&tree, "cpuset"));
        }
    }
}
