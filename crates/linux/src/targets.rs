//! Targets of a command: processes with their descendants, control groups, containers, virtual machines and
//! systemd units.

use crate::{
    absent_process::AbsentProcess,
    tasks,
    vms::{ReadOptions, RunningDomains},
};
use manycore_topology::{cgroup::Hierarchies, sys_tree::SysTree};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Maximum depth of control groups that are searched; real ones are nested at most about twelve deep.
const MAX_DEPTH: usize = 16;

/// Suffixes of units that have control groups.
const UNIT_SUFFIXES: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];

/// Minimum length of the prefix of a container id, as container engines show them.
const MIN_ID_LENGTH: usize = 4;

/// A target, as the user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Processes, with their descendants.
    Pids(Vec<u32>),
    /// A control group: its path below the mount point, or its directory.
    Cgroup(String),
    /// A container, by its id or a prefix of it.
    Container(String),
    /// A libvirt domain, by name, number or UUID.
    Domain(String),
    /// A systemd unit; a name without a suffix means a service.
    Unit(String),
}

/// Reason why a target has no tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The process has ended, never existed, or is hidden.
    #[error(transparent)]
    NoProcess(AbsentProcess),
    /// Nothing has that name.
    #[error("there is no {what} {name:?}{near}")]
    NotFound {
        /// `control group`, `container`, `running unit`, `running domain`.
        what: &'static str,
        /// Name as the user gave it.
        name: String,
        /// Existing alternatives, as a suffix of the message.
        near: String,
    },
    /// Several things match the name.
    #[error("{name:?} matches {}: select one of them by {how}", .which.join(", "))]
    Several {
        /// Name as the user gave it.
        name: String,
        /// The groups or domains that match.
        which: Vec<String>,
        /// What distinguishes them.
        how: &'static str,
    },
    /// The name is not valid.
    #[error("{0:?} is not a valid name: {1}")]
    InvalidName(String, &'static str),
}

/// Location from which the tasks of a target can be read repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These processes and their descendants.
    ProcessTrees(Vec<u32>),
    /// This control group and all groups below it.
    ControlGroup(PathBuf),
}

impl Target {
    /// Resolves the target.
    ///
    /// # Errors
    /// [`TargetError`] with the reason why there are no tasks.
    pub fn find(&self) -> Result<Members, TargetError> {
        match self {
            Self::Pids(pids) => match pids.iter().find(|&&pid| !tasks::is_alive(pid)) {
                Some(&pid) => Err(TargetError::NoProcess(AbsentProcess::of(pid))),
                None => Ok(Members::ProcessTrees(pids.clone())),
            },
            Self::Cgroup(path) => cgroup(path),
            Self::Container(id) => container(id),
            Self::Unit(name) => unit(name),
            Self::Domain(name) => domain(name),
        }
    }
}

impl Members {
    /// Returns all current tasks (threads).
    pub fn tasks(&self) -> BTreeSet<u32> {
        match self {
            Self::ProcessTrees(roots) => {
                tasks::with_descendants(roots).into_iter().flat_map(tasks::threads).collect()
            }
            Self::ControlGroup(folder) => {
                let mut found = BTreeSet::new();
                add_tasks(folder, MAX_DEPTH, &mut found);
                found
            }
        }
    }
}

/// Collects the tasks of a group and of all groups below it. Only cgroup v1 lists threads in `tasks`. In
/// cgroup v2, the processes of a threaded group are listed in the group above, which may hold more than the
/// target; therefore `cgroup.threads` of the group itself is read.
fn add_tasks(folder: &Path, deep: usize, found: &mut BTreeSet<u32>) {
    let read = |file: &str| -> Option<Vec<u32>> {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        Some(text.lines().filter_map(|id| id.trim().parse().ok()).collect())
    };
    let threads = read("cgroup.threads").or_else(|| read("tasks"));
    match threads {
        Some(threads) => found.extend(threads),
        None => found.extend(read("cgroup.procs").unwrap_or_default().into_iter().flat_map(tasks::threads)),
    }
    if deep > 0 {
        for below in folders(folder) {
            add_tasks(&below, deep - 1, found);
        }
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort_unstable();
    folders
}

/// Returns the mount points of control groups.
fn points() -> Vec<PathBuf> {
    let Ok(tree) = SysTree::open(Path::new("/")) else { return Vec::new() };
    Hierarchies::read(&tree).points().into_iter().map(|point| Path::new("/").join(point)).collect()
}

fn cgroup(path: &str) -> Result<Members, TargetError> {
    if Path::new(path).components().any(|part| part == std::path::Component::ParentDir) {
        return Err(TargetError::InvalidName(path.to_owned(), "write the path without '..'"));
    }
    let is_root = |part| matches!(part, std::path::Component::RootDir | std::path::Component::CurDir);
    // The root is the whole machine. An empty variable in a script must not select it.
    if !path.starts_with('/') && Path::new(path).components().all(is_root) {
        return Err(TargetError::InvalidName(
            path.to_owned(),
            "write the path, such as /batch.slice; / stands for everything that runs on this machine",
        ));
    }
    let points = points();
    let below = path.trim_start_matches('/');
    let direct = Some(PathBuf::from(path)).filter(|path| points.iter().any(|point| path.starts_with(point)));
    let mut candidates = direct.into_iter().chain(points.iter().map(|point| point.join(below)));
    let found = candidates.find(|folder| folder.join("cgroup.procs").is_file());
    found.map(Members::ControlGroup).ok_or_else(|| {
        let places: Vec<String> = points.iter().take(1).map(|point| point.display().to_string()).collect();
        let near = if places.is_empty() {
            ": no control groups are mounted".to_owned()
        } else {
            format!(" below {}", places.join(", "))
        };
        TargetError::NotFound { what: "control group", name: path.to_owned(), near }
    })
}

/// Returns the matching directories of the first hierarchy that has any.
fn find_groups(is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    for point in points() {
        let mut found = Vec::new();
        let mut open = vec![(point, 0)];
        while let Some((folder, deep)) = open.pop() {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if deep > 0 && is_meant(&name) {
                // Groups below belong to the match.
                found.push(folder);
            } else if deep < MAX_DEPTH {
                open.extend(folders(&folder).into_iter().map(|below| (below, deep + 1)));
            }
        }
        if !found.is_empty() {
            found.sort_unstable();
            return found;
        }
    }
    Vec::new()
}

fn only_one(what: &'static str, name: &str, mut found: Vec<PathBuf>) -> Result<Members, TargetError> {
    match found.len() {
        0 => Err(TargetError::NotFound { what, name: name.to_owned(), near: String::new() }),
        1 => Ok(Members::ControlGroup(found.remove(0))),
        _ => Err(TargetError::Several {
            name: name.to_owned(),
            which: found.iter().map(|folder| folder.display().to_string()).collect(),
            how: "its control group",
        }),
    }
}

fn container(id: &str) -> Result<Members, TargetError> {
    let is_id = id.len() >= MIN_ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err(TargetError::InvalidName(
            id.to_owned(),
            "give a container's id, or its first digits, as 'docker ps' shows them",
        ));
    }
    let id = id.to_ascii_lowercase();
    only_one("container", &id, find_groups(|name| container_id(name).is_some_and(|own| own.starts_with(&id))))
}

/// Returns the container id in the name of a group: `ID` (cgroupfs driver), `docker-ID.scope`,
/// `libpod-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`.
fn container_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit('-').next()?;
    // podman's monitor has a group next to that of the container.
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && !name.contains("conmon");
    is_id.then_some(id)
}

fn unit(name: &str) -> Result<Members, TargetError> {
    if name.is_empty() || name.contains('/') {
        return Err(TargetError::InvalidName(
            name.to_owned(),
            "give a unit as 'systemctl' shows it, such as nginx.service",
        ));
    }
    let full = if UNIT_SUFFIXES.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    };
    // A unit without processes has no control group.
    only_one("running unit", &full, find_groups(|other| other == full))
}

fn domain(name: &str) -> Result<Members, TargetError> {
    if name.is_empty() {
        return Err(TargetError::InvalidName(name.to_owned(), "give a domain as 'virsh list' shows it"));
    }
    let none =
        |_| TargetError::NotFound { what: "running domain", name: name.to_owned(), near: String::new() };
    let tree = SysTree::open(Path::new("/")).map_err(none)?;
    let identity = RunningDomains::new(&tree, ReadOptions::default()).find(name)?;
    Ok(Members::ProcessTrees(vec![identity.pid]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn container_ids_are_found_in_group_names() {
        let id = "0123456789abcdef".repeat(4);
        for name in ["", "docker-", "libpod-", "cri-containerd-"] {
            let scope = format!("{name}{id}.scope");
            assert_eq!(container_id(&scope), Some(id.as_str()), "{scope}");
        }
        assert_eq!(container_id(&id), Some(id.as_str()));
        assert_eq!(container_id(&format!("libpod-conmon-{id}.scope")), None);
        assert_eq!(container_id("user-1000.slice"), None);
    }

    #[test]
    fn missing_targets_are_reported() {
        let absent = 0x7fff_fff0;
        assert_eq!(
            Target::Pids(vec![std::process::id(), absent]).find(),
            Err(TargetError::NoProcess(AbsentProcess::Missing(absent)))
        );
        for (target, words) in [
            (Target::Cgroup("/no/such/group".into()), "no control group"),
            (Target::Cgroup("/a/../b".into()), "'..'"),
            (Target::Container("xyz!".into()), "container's id"),
            (Target::Container("0123456789ab".into()), "no container"),
            (Target::Unit("no-such-unit".into()), "no-such-unit.service"),
            (Target::Unit("a/b".into()), "not a valid name"),
            (Target::Domain("no-such-domain".into()), "no running domain"),
            (Target::Domain("../x".into()), "no running domain"),
            (Target::Domain(String::new()), "not a valid name"),
        ] {
            let error = target.find().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_empty_control_group_is_not_the_whole_machine() {
        for path in ["", ".", "./."] {
            let error = Target::Cgroup(path.to_owned()).find().unwrap_err();
            assert!(matches!(error, TargetError::InvalidName(..)), "{path:?}: {error}");
        }
        if points().is_empty() {
            return eprintln!("SKIPPED: no control groups are mounted");
        }
        assert!(matches!(Target::Cgroup("/".to_owned()).find(), Ok(Members::ControlGroup(_))));
    }

    #[test]
    fn a_tree_has_all_threads() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let tasks = Target::Pids(vec![std::process::id()]).find().unwrap().tasks();
        assert!(tasks.contains(&child.id()) && tasks.contains(&std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
