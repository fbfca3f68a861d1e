//! Undoes changes of control groups and kernel settings.

use super::{UndoResult, result::changed};
use crate::{
    group_dir,
    journal::{change::Change, pending::Pending},
};
use manycore_topology::CpuSet;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Restores files and removes groups, newest first.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    let failed = |path: &Path, error: &io::Error| format!("cannot restore {}: {error}", path.display());
    for change in pending.changes.iter().rev() {
        let (path, result) = match change {
            Change::ControlGroup { path } if path.is_dir() => {
                (path, group_dir::remove(path).inspect(|()| restored.control_groups += 1))
            }
            Change::Controller { path, controller } => (path, group_dir::disable(path, controller)),
            _ => continue,
        };
        if let Err(error) = result {
            restored.failed.push(failed(path, &error));
        }
    }
    let settings = settings(pending);
    let newer = if settings.is_empty() { Vec::new() } else { pending.newer() };
    for (path, (old, new)) in settings {
        let result = match fs::read_to_string(path).as_deref().map(str::trim) {
            Ok(now) if same(now, old) => Ok(()),
            Ok(now) if same(now, new) => fs::write(path, old).inspect(|()| restored.settings += 1),
            Ok(now) => {
                let wrote_it =
                    |other: &&Pending| self::settings(other).get(path).is_some_and(|(_, new)| same(now, new));
                let former = Change::OriginalSetting { path: path.clone(), old: old.to_owned() };
                match newer.iter().find(wrote_it) {
                    Some(other) => other.append(&former),
                    None => {
                        restored.changed_by_others.push(changed(&path.display().to_string(), &now));
                        Ok(())
                    }
                }
            }
            // The setting vanished with its device.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        if let Err(error) = result {
            restored.failed.push(failed(path, &error));
        }
    }
}

/// Returns the original contents of each file and the contents that were written last.
fn settings(pending: &Pending) -> BTreeMap<&PathBuf, (&str, &str)> {
    let mut known: BTreeMap<&PathBuf, (&str, &str)> = BTreeMap::new();
    for change in &pending.changes {
        match change {
            Change::Setting { path, old, new } => {
                known.entry(path).and_modify(|entry| entry.1 = new).or_insert((old, new));
            }
            Change::OriginalSetting { path, old } => {
                known.entry(path).and_modify(|entry| entry.0 = old);
            }
            _ => {}
        }
    }
    known
}

/// Whether two texts are the same setting: the kernel formats CPU lists in its own way.
fn same(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<CpuSet>(), b.parse::<CpuSet>()), (Ok(a), Ok(b)) if a == b)
}
