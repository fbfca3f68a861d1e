//! Finds where control groups with limits can be created, in both versions of control groups. Nothing is changed here.

use crate::GroupError;
use manycore_topology::{
    cgroup::{self, GroupFolder, HierarchyKind},
    sys_tree::SysTree,
};
use std::path::{Path, PathBuf};

/// Returns our own group in the hierarchy of version 1 that has `controller`.
pub(crate) fn named(tree: &SysTree, controller: &str) -> Option<PathBuf> {
    let folders = cgroup::folders(tree, controller);
    let own = folders.into_iter().rfind(|folder| folder.flavour == HierarchyKind::Named)?;
    Some(absolute(&own.path))
}

/// Returns the innermost of our groups of version 2 that enables all `controllers` for its children. A group with processes
/// cannot do that, so it is usually above ours. If there is none, and `enables` is true, it is the group at the mount point,
/// if it has the controllers: they have to be enabled there.
///
/// # Errors
/// [`GroupError::NoController`]; [`GroupError::Escapes`] if a group beside ours would escape a limit of ours.
pub(crate) fn unified(
    tree: &SysTree,
    controllers: &[&'static str],
    enables: bool,
) -> Result<PathBuf, GroupError> {
    // No hierarchy of version 1 has a controller with an empty name.
    let chain = cgroup::folders(tree, "");
    for (index, folder) in chain.iter().enumerate().rev() {
        if let Some(inner) = chain.get(index + 1).filter(|inner| is_limited(tree, inner, controllers)) {
            return Err(GroupError::Escapes(absolute(&inner.path)));
        }
        if missing(tree, folder, "cgroup.subtree_control", controllers).is_empty() {
            return Ok(absolute(&folder.path));
        }
    }
    let first = chain
        .first()
        .filter(|first| enables && missing(tree, first, "cgroup.controllers", controllers).is_empty());
    first
        .map(|first| absolute(&first.path))
        .ok_or_else(|| GroupError::NoController(controllers.join(" and ")))
}

/// Whether a group of version 2 enables a controller for its children.
pub(crate) fn enables(tree: &SysTree, group: &Path, controller: &str) -> bool {
    let path = group.join("cgroup.subtree_control");
    let text = tree.read(path.to_string_lossy().trim_start_matches('/')).unwrap_or_default();
    text.split_whitespace().any(|listed| listed == controller)
}

/// Returns the controllers that a file of a group does not list.
fn missing(
    tree: &SysTree,
    folder: &GroupFolder,
    file: &str,
    controllers: &[&'static str],
) -> Vec<&'static str> {
    let text = tree.read(&format!("{}/{file}", folder.path)).unwrap_or_default();
    let is_missing = |name: &&&str| !text.split_whitespace().any(|listed| listed == **name);
    controllers.iter().filter(is_missing).copied().collect()
}

/// Whether a group of version 2 limits what one of the controllers does.
fn is_limited(tree: &SysTree, folder: &GroupFolder, controllers: &[&str]) -> bool {
    controllers.iter().any(|name| {
        tree.read(&format!("{}/{name}.max", folder.path)).is_some_and(|limit| !limit.starts_with("max"))
    })
}

fn absolute(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;

    fn tree(files: &[(&str, &str)]) -> SysTree {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        SysTree::from_capture(capture)
    }

    const UNIFIED: [(&str, &str); 2] = [
        ("proc/self/cgroup", "0::/user.slice/one.scope"),
        ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw"),
    ];

    #[test]
    fn the_innermost_group_that_enables_all_controllers_is_found() {
        let slice = |enabled: &'static str, more: &[(&'static str, &'static str)]| {
            let given = [
                ("cg/cgroup.subtree_control", "cpu memory"),
                ("cg/user.slice/cgroup.subtree_control", enabled),
            ];
            tree(&[&UNIFIED[..], &given, more].concat())
        };
        let found = |tree: &SysTree| unified(tree, &["cpu", "memory"], false);
        assert_eq!(found(&slice("cpu memory pids", &[])).unwrap(), Path::new("/cg/user.slice"));
        assert_eq!(found(&slice("memory", &[])).unwrap(), Path::new("/cg"));
        let limited = slice("memory", &[("cg/user.slice/cpu.max", "50000 100000\n")]);
        assert!(
            matches!(found(&limited), Err(GroupError::Escapes(path)) if path == Path::new("/cg/user.slice"))
        );
        let unlimited = slice("memory", &[("cg/user.slice/cpu.max", "max 100000\n")]);
        assert_eq!(found(&unlimited).unwrap(), Path::new("/cg"));
    }

    #[test]
    fn controllers_are_enabled_at_the_mount_point_only_where_that_is_wanted() {
        let given =
            [("cg/cgroup.controllers", "cpuset cpu memory"), ("cg/cgroup.subtree_control", "memory\n")];
        let tree = tree(&[&UNIFIED[..], &given].concat());
        assert_eq!(unified(&tree, &["cpu", "memory"], true).unwrap(), Path::new("/cg"));
        let error = unified(&tree, &["cpu", "memory"], false).unwrap_err().to_string();
        assert!(error.contains("cpu and memory"), "{error}");
        assert!(unified(&tree, &["hugetlb"], true).is_err());
    }

    #[test]
    fn hierarchies_of_version_1_are_found_by_controller() {
        let tree = tree(&[
            ("proc/self/cgroup", "2:cpu,cpuacct:/job\n1:memory:/\n0::/"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n\
                 3 0 0:3 / /cg/unified rw - cgroup2 cgroup2 rw",
            ),
        ]);
        assert_eq!(named(&tree, "cpu").unwrap(), Path::new("/cg/cpu/job"));
        assert_eq!(named(&tree, "memory").unwrap(), Path::new("/cg/memory"));
        assert_eq!(named(&tree, "freezer"), None);
    }
}
