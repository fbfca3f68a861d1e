//! Undoes changes of control groups and kernel settings.

use super::{UndoResult, result::changed};
use crate::{
    group_dir,
    journal::{change::Change, pending::Pending},
    setting::{
        location::changes_cpus,
        value::{part, present, same},
    },
};
use manycore_text::units::counted;
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
            Change::Controller { path, controller } => {
                let kept = group_dir::disable(path, controller);
                if let Ok(others @ 1..) = kept {
                    let folder = path.parent().unwrap_or(path).display();
                    restored.changed_by_others.push(format!(
                        "the {controller} controller stays enabled in {folder}: disabling it would reset the affinities of \
                         {} (kernel before 6.2)",
                        counted(others, "process")
                    ));
                }
                (path, kept.map(drop))
            }
            _ => continue,
        };
        if let Err(error) = result {
            restored.failed.push(failed(path, &error));
        }
    }
    let settings = settings(pending);
    let newer = if settings.is_empty() { Vec::new() } else { pending.newer() };
    // CPUs first: interrupts can be given to those that are online only.
    let (of_cpus, others): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|((path, _), _)| changes_cpus(path));
    for (key @ (path, _), setting) in of_cpus.into_iter().chain(others) {
        let old = setting.old;
        let result = match fs::read_to_string(path).as_deref().map(|text| present(path, text, old)) {
            Ok(now) if same(now, old) => Ok(()),
            Ok(now) if setting.wrote(now) => fs::write(path, old).inspect(|()| restored.settings += 1),
            Ok(now) => {
                let wrote_it = |other: &&Pending| {
                    self::settings(other).get(&key).is_some_and(|setting| setting.wrote(now))
                };
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

/// A file that was written.
struct WrittenSetting<'a> {
    /// Its original contents.
    old: &'a str,
    /// All contents that were written. Settings that are switched between runs are recorded once for each value.
    new: Vec<&'a str>,
}

impl WrittenSetting<'_> {
    fn wrote(&self, now: &str) -> bool {
        self.new.iter().any(|new| same(now, new))
    }
}

/// A file, and the part of it that was written.
type WrittenPart<'a> = (&'a PathBuf, Option<&'a str>);

/// Returns what was written to each file, or part of one.
fn settings(pending: &Pending) -> BTreeMap<WrittenPart<'_>, WrittenSetting<'_>> {
    let mut known: BTreeMap<WrittenPart, WrittenSetting> = BTreeMap::new();
    for change in &pending.changes {
        match change {
            Change::Setting { path, old, new } => {
                known
                    .entry((path, part(path, old)))
                    .or_insert(WrittenSetting { old, new: Vec::new() })
                    .new
                    .push(new);
            }
            Change::OriginalSetting { path, old } => {
                known.entry((path, part(path, old))).and_modify(|entry| entry.old = old);
            }
            _ => {}
        }
    }
    known
}
