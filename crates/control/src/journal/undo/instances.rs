//! Ends instances of measured services: virtual machines, containers, and all processes of their control groups.

use super::UndoResult;
use crate::{
    cleanup::kill_marked,
    container,
    cpuset::PREFIX,
    domain, group_end,
    journal::{change::Change, pending::Pending},
    tool,
};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

/// Ends all instances. Those that are gone already are not counted.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    let names = pending.changes.iter().filter_map(|change| match change {
        Change::Domain { name, .. } | Change::Container { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let names: BTreeSet<&str> = names.collect();
    if !names.is_empty() {
        tool::wait_for_changes(&names);
    }
    // An instance that was started again is recorded again.
    let mut seen = BTreeSet::new();
    for change in &pending.changes {
        match change {
            Change::Domain { uri, name } if seen.insert((uri.as_str(), name.as_str())) => {
                let ended = domain::destroy(uri, name);
                restored.domains += count(ended, "virtual machine", name, &mut restored.failed);
            }
            Change::Container { engine, name } if seen.insert((engine.program(), name.as_str())) => {
                let removed = container::remove(*engine, name);
                restored.containers += count(removed, "container", name, &mut restored.failed);
            }
            Change::MarkedInstance { mark } if seen.insert(("", mark.as_str())) => {
                restored.processes_killed += kill_marked(mark);
            }
            _ => {}
        }
    }
    let groups: Vec<&PathBuf> = groups(pending).into_iter().collect();
    restored.processes_killed += group_end::kill_all(&groups);
    for group in groups {
        match group_end::remove(group) {
            Ok(()) => restored.control_groups += 1,
            Err(error) => restored.failed.push(format!("cannot remove {}: {error}", group.display())),
        }
    }
}

/// Returns the groups that exist.
fn groups(pending: &Pending) -> BTreeSet<&PathBuf> {
    let groups = pending.changes.iter().filter_map(|change| match change {
        Change::MeasuredGroup { path } => Some(path),
        _ => None,
    });
    groups.filter(|path| is_ours(path)).collect()
}

/// Whether a directory is a control group with a name of ours. All processes of another one must not be killed, whatever a
/// journal says.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy);
    name.is_some_and(|name| name.starts_with(PREFIX)) && path.join("cgroup.procs").is_file()
}

/// Returns 1 if something was ended; notes a failure.
fn count(ended: io::Result<bool>, what: &str, name: &str, failed: &mut Vec<String>) -> usize {
    match ended {
        Ok(ended) => usize::from(ended),
        Err(error) => {
            failed.push(format!("cannot remove {what} {name}: {error}"));
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{self, Journal};
    use manycore_linux::tasks;
    use std::process::Command;

    #[test]
    fn marked_instances_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(folder.path(), "test", "an instance", false).unwrap();
        let name = format!("manycore-{}-0", journal.id());
        let mark = format!("{}={name}", tool::INSTANCE_VARIABLE);
        journal.record(&Change::MarkedInstance { mark: mark.clone() }).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 1000 & wait"]).env(tool::INSTANCE_VARIABLE, &name);
        let mut shell = command.spawn().unwrap();
        while tasks::all().into_iter().filter(|&pid| tasks::has_environment(pid, &mark)).count() < 2 {
            std::thread::yield_now();
        }
        let restored = journal.undo().unwrap();
        assert!(restored.failed.is_empty() && restored.processes_killed >= 2, "{restored:?}");
        assert!(!shell.wait().unwrap().success());
        assert!(journal::pending(folder.path()).unwrap().0.is_empty());
    }

    #[test]
    fn an_instance_that_cannot_be_ended_keeps_its_journal() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(folder.path(), "test", "an instance", false).unwrap();
        let uri = "test:///no/such/file".to_owned();
        let domain = Change::Domain { uri, name: "manycore-test-0".to_owned() };
        // It was started again.
        journal.record(&domain).unwrap();
        journal.record(&domain).unwrap();
        let restored = journal.undo().unwrap();
        assert_eq!((restored.domains, restored.failed.len()), (0, 1), "{restored:?}");
        assert!(restored.failed[0].starts_with("cannot remove virtual machine manycore-test-0: virsh "));
        assert_eq!(journal::pending(folder.path()).unwrap().0.len(), 1);
    }
}
