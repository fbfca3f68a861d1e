//! Restores limits of resctrl groups that existed before.

use super::{UndoResult, result::changed};
use crate::journal::{change::Change, pending::Pending};
use manycore_linux::resctrl::{
    put::put,
    schemata::{Schemata, SchemataLine},
};
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Returns the original value of each limit, and all values that it had because of us.
fn limits(pending: &Pending) -> BTreeMap<(&PathBuf, &str, u32), (u64, Vec<u64>)> {
    let mut known: BTreeMap<(&PathBuf, &str, u32), (u64, Vec<u64>)> = BTreeMap::new();
    for change in &pending.changes {
        match change {
            Change::Limit { path, line, domain, old, new } => {
                known.entry((path, line, *domain)).or_insert_with(|| (*old, Vec::new())).1.push(*new);
            }
            Change::OriginalLimit { path, line, domain, old } => {
                known.entry((path, line, *domain)).and_modify(|entry| entry.0 = *old);
            }
            _ => {}
        }
    }
    known
}

/// Restores limits, as far as they are still those that were set.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    let limits = limits(pending);
    let newer = if limits.is_empty() { Vec::new() } else { pending.newer() };
    for ((path, line, domain), (old, ours)) in limits {
        // The limit vanished with its group.
        let Ok(text) = fs::read_to_string(path.join("schemata")) else { continue };
        let Some(now) = Schemata::parse(&text).value(line, domain).filter(|&now| now != old) else {
            continue;
        };
        let result = if ours.contains(&now) {
            let line = SchemataLine { name: line.to_owned(), values: [(domain, old)].into() };
            put(&path.join("schemata"), &format!("{line}\n")).inspect(|()| restored.limits += 1)
        } else {
            let wrote_it = |other: &&Pending| {
                self::limits(other)
                    .get(&(path, line, domain))
                    .is_some_and(|(_, theirs)| theirs.contains(&now))
            };
            let line = line.to_owned();
            let former = Change::OriginalLimit { path: path.clone(), line: line.clone(), domain, old };
            match newer.iter().find(wrote_it) {
                Some(other) => other.append(&former),
                None => {
                    let what = format!("{line} of domain {domain} in {}", path.display());
                    restored.changed_by_others.push(changed(&what, &now));
                    Ok(())
                }
            }
        };
        if let Err(error) = result {
            restored.failed.push(format!("cannot restore the limits of {}: {error}", path.display()));
        }
    }
}
