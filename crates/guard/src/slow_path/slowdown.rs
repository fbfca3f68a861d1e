//! Slows a cause down through its control group before it is sent SIGTERM. Changes are recorded in a journal
//! and undone later.

use crate::{
    groups::Groups,
    rules::{Rules, SlowdownMethod},
};
use manycore_control::journal::{self, Change, Journal};
use manycore_linux::tasks;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The control groups that are slowed down now.
#[derive(Default)]
pub struct Slowdown {
    journal: Option<Journal>,
    held: Vec<String>,
}

impl Slowdown {
    /// Slows down the control group of a process. Returns a description of what was done, or why it was not
    /// done. `None` if the rules do not request it.
    pub fn slow(
        &mut self,
        how: SlowdownMethod,
        pid: u32,
        groups: &Groups,
        rules: &Rules,
    ) -> Option<Result<String, String>> {
        let done = match how {
            SlowdownMethod::No => return None,
            SlowdownMethod::Freeze => self.freeze(pid, groups, rules),
            SlowdownMethod::High => self.set_memory_high(pid, groups, rules),
        };
        Some(done.map_err(|why| format!("process {pid} is not slowed down: {why}")))
    }

    fn freeze(&mut self, pid: u32, groups: &Groups, rules: &Rules) -> Result<String, String> {
        let (file, new) = groups.freezer(pid).ok_or("its control group cannot be frozen")?;
        check_unprotected(file.parent().unwrap_or(Path::new("/")), groups, rules)?;
        let old = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        if old.trim() == new {
            return Err(format!("{} is already {new}", file.display()));
        }
        self.write(&file, old.trim(), new)?;
        Ok(format!("frozen by {}", file.display()))
    }

    fn set_memory_high(&mut self, pid: u32, groups: &Groups, rules: &Rules) -> Result<String, String> {
        let folder = groups.memory_folder(pid).ok_or("its control group has no memory.high")?;
        let file = folder.join("memory.high");
        let read = |name: &str| fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned());
        let old =
            read("memory.high").map_err(|_| "its control group has no memory.high (version 2)".to_owned())?;
        let now = read("memory.current").map_err(|error| error.to_string())?;
        check_unprotected(&folder, groups, rules)?;
        self.write(&file, &old, &now)?;
        Ok(format!("{} is {now} now, was {old}", file.display()))
    }

    fn write(&mut self, file: &Path, old: &str, new: &str) -> Result<(), String> {
        if self.journal.is_none() {
            let begun = Journal::begin(&journal::folder(), "guard", "guard: slowing down a process", false);
            self.journal = Some(
                begun.map_err(|error| format!("the change cannot be recorded in the journal: {error}"))?,
            );
        }
        let change = Change::Setting { path: PathBuf::from(file), old: old.to_owned(), new: new.to_owned() };
        if let Some(journal) = &self.journal {
            journal
                .record(&change)
                .map_err(|error| format!("the change cannot be recorded in the journal: {error}"))?;
        }
        fs::write(file, new).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.display().to_string();
        if !self.held.contains(&name) {
            self.held.push(name);
        }
        Ok(())
    }

    /// Undoes all changes. Returns a description of each.
    pub fn release(&mut self) -> Vec<String> {
        let Some(journal) = self.journal.take() else { return Vec::new() };
        let held = std::mem::take(&mut self.held);
        match journal.undo() {
            Ok(restored) if restored.failed.is_empty() => {
                held.into_iter().map(|file| format!("{file} is restored")).collect()
            }
            Ok(restored) => restored.failed,
            Err(error) => {
                vec![format!("the control group cannot be restored: {error}; run manycore undo")]
            }
        }
    }
}

/// Checks that no process of the group is protected; such a group is left unchanged.
fn check_unprotected(folder: &Path, groups: &Groups, rules: &Rules) -> Result<(), String> {
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    for folder in below.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        check_unprotected(&folder, groups, rules)?;
    }
    let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse::<u32>().ok()) {
        let protected_by =
            fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).is_ok_and(|text| text.trim() == "-1000");
        let is_own = pid == std::process::id() || pid == 1 || protected_by;
        if is_own || groups.is_protected(pid, rules) {
            let name = tasks::name(pid).unwrap_or_default();
            return Err(format!("{} contains {name} ({pid}), which is protected", folder.display()));
        }
    }
    Ok(())
}
