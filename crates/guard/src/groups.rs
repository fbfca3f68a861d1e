//! The control groups of processes, by number.

use crate::decision::process_table::Protection;
use crate::process_scan;
use crate::{
    event::SlowPathMessage,
    rules::{Rules, WatchSubject},
};
use manycore_linux::tasks;
use manycore_topology::{
    SysTree,
    cgroup::{Hierarchies, has_memory, memberships},
};
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

/// All control groups seen so far.
pub struct Groups {
    tree: SysTree,
    hierarchies: Hierarchies,
    numbers: HashMap<String, u16>,
    known: Vec<Group>,
}

/// One control group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its path in the hierarchy that limits memory.
    pub name: String,
    /// Its paths in all hierarchies in which rules may name groups.
    pub paths: Vec<String>,
    /// Its directory in the hierarchy that limits memory.
    pub folder: PathBuf,
}

/// What was found out about a process.
pub struct GroupInfo {
    /// Number of the group, from 1.
    pub number: u16,
    /// Watches that include it: bit `n` for the `n`-th.
    pub watches: u32,
    /// Why no process in it is selected.
    pub protection: Option<Protection>,
    /// See [`crate::decision::process_table::ProcessEntry::met_rules`].
    pub met_rules: u64,
}

impl GroupInfo {
    /// Returns the message to the monitor about this process.
    pub fn message(&self, pid: u32, start: u64) -> SlowPathMessage {
        let Self { number, watches, protection, met_rules } = *self;
        SlowPathMessage::Group { pid, start, group: number, watches, protection, met_rules }
    }
}

impl Groups {
    /// Returns an empty list of groups.
    ///
    /// # Errors
    /// The root directory cannot be opened.
    pub fn new() -> io::Result<Self> {
        let tree = SysTree::open(Path::new("/")).map_err(io::Error::other)?;
        let hierarchies = Hierarchies::read(&tree);
        Ok(Self { tree, hierarchies, numbers: HashMap::new(), known: Vec::new() })
    }

    /// Returns the group of a process, if the process is still the one that started at `start`.
    pub fn identify(&mut self, pid: u32, start: u64, rules: &Rules) -> Option<GroupInfo> {
        let text = memberships(&self.tree, &pid.to_string())?;
        // The raw name, not the printable form.
        let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
        if tasks::start_time(pid) != Some(start) {
            return None;
        }
        let known = self.numbers.get(&text).copied();
        let number = match known {
            Some(number) => number,
            None => self.add_group(text)?,
        };
        let group = self.get(number)?;
        let includes = |of: &WatchSubject| matches!(of, WatchSubject::Group { folder, .. } if group.folder.starts_with(folder));
        let of_watches = rules.watches.iter().enumerate().filter(|(_, watch)| includes(&watch.of));
        let watches = of_watches.fold(0, |bits, (at, _)| bits | 1 << at);
        let protection = rules.protect.group_protection(&group.paths);
        let met_rules = rules.protect.met_rules(pid, name.trim_ascii_end(), &group.paths);
        Some(GroupInfo { number, watches, protection, met_rules })
    }

    /// Whether the rules protect a process, as far as can be found out now.
    pub fn is_protected(&self, pid: u32, rules: &Rules) -> bool {
        let Some(mut process) = process_scan::read_owner(Path::new("/"), pid) else { return false };
        let paths = memberships(&self.tree, &pid.to_string()).map_or(Vec::new(), |text| paths(&text));
        process.met_rules = rules.protect.met_rules(pid, process.reading.name.as_bytes(), &paths);
        rules.protect.protection(&process).or(rules.protect.group_protection(&paths)).is_some()
    }

    /// Gives a group a number. If there are too many groups, all numbers are discarded, including those of
    /// removed groups.
    fn add_group(&mut self, text: String) -> Option<u16> {
        if self.known.len() >= usize::from(u16::MAX) {
            self.known.clear();
            self.numbers.clear();
        }
        let group = self.group(&text);
        self.known.push(group);
        let number = u16::try_from(self.known.len()).ok()?;
        self.numbers.insert(text, number);
        Some(number)
    }

    fn group(&self, text: &str) -> Group {
        let found = self.hierarchies.folders(text, "memory").unwrap_or_default();
        // If both versions are mounted, memory is limited in version 1 (version 2 comes last).
        let folders = found.iter().filter_map(|(name, folders)| {
            let folder = Path::new("/").join(&folders.last()?.path);
            Some((name.clone(), folder))
        });
        let folders: Vec<(String, PathBuf)> = folders.collect();
        let best = folders.iter().find(|(_, folder)| has_memory(folder)).or(folders.first());
        let (name, folder) = best.cloned().unwrap_or_default();
        Group { name, paths: paths(text), folder }
    }

    /// Returns the group of this number.
    pub fn get(&self, number: u16) -> Option<&Group> {
        self.known.get(usize::from(number).checked_sub(1)?)
    }

    /// Returns the file by which the group of a process can be frozen, and the value to write.
    pub fn freezer(&self, pid: u32) -> Option<(PathBuf, &'static str)> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let found = self.hierarchies.folders(&text, "freezer")?;
        found.iter().find_map(|(name, folders)| {
            let folder = Path::new("/").join(&folders.last()?.path);
            let is_root = name == "/";
            let files = [("cgroup.freeze", "1"), ("freezer.state", "FROZEN")];
            let has = files.into_iter().find(|(file, _)| !is_root && folder.join(file).is_file());
            has.map(|(file, new)| (folder.join(file), new))
        })
    }

    /// Returns the directory of the group that limits a process's memory; `None` for the root group.
    pub fn memory_folder(&self, pid: u32) -> Option<PathBuf> {
        let group = self.group(&memberships(&self.tree, &pid.to_string())?);
        (group.name != "/" && group.folder.is_dir()).then_some(group.folder)
    }
}

/// Returns its paths in all hierarchies, from the text of `/proc/PID/cgroup`.
fn paths(text: &str) -> Vec<String> {
    let mut paths: Vec<String> =
        text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}
