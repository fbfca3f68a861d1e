//! Imitates the groups and limits of openEuler's kernels: the contents of each file, and the effect of a
//! write.

use libc::{EEXIST, EINVAL, ENOENT, ENOSPC, EPERM, ESRCH};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Child,
    sync::{Arc, Mutex},
};

/// Domains of the L3, by cache id.
const CACHES: [u32; 2] = [1, 122];
/// Domains of memory, by node.
const NODES: [u32; 2] = [0, 1];
/// Number of groups that the hardware supports.
const GROUPS: usize = 4;
/// Number of steps of the hardware between none and all of the bandwidth; no file shows it.
const STEPS: u64 = 32;

/// The version of the kernel, and its deviations for single tests.
#[derive(Clone, Default)]
pub struct Kernel {
    /// OLK-5.10 instead of 6.6.
    pub old: bool,
    /// Lines that 5.10 was mounted with.
    pub mounted: Vec<&'static str>,
    /// A line that is accepted but not applied.
    pub ignores: Option<&'static str>,
    /// A line that is refused without a message.
    pub refuses: Option<&'static str>,
    /// Minimum bandwidth, if it differs from the usual one.
    pub least: Option<u64>,
    /// A process that is killed at the moment when a group is created.
    pub ends: Option<Arc<Mutex<Child>>>,
    /// The contents of `last_cmd_status`.
    pub status: String,
    /// Groups by name; the name of the default group is empty.
    pub groups: BTreeMap<String, Group>,
}

/// The limits of a group, by line and domain, and its tasks.
#[derive(Clone, Default)]
pub struct Group {
    limits: BTreeMap<(&'static str, u32), u64>,
    tasks: BTreeSet<u32>,
}

/// A line: its name, domains, minimum, maximum, and the value in a new group.
type Line = (&'static str, [u32; 2], u64, u64, u64);

const LINES: [Line; 8] = [
    ("L3", CACHES, 1, 0x7fff, 0x7fff),
    ("MB", NODES, 1, 100, 100),
    ("MBMIN", NODES, 0, 100, 0),
    ("MBHDL", NODES, 0, 1, 1),
    ("MBPRI", NODES, 0, 7, 3),
    ("L3PRI", CACHES, 0, 3, 0),
    ("L3MIN", CACHES, 0, 100, 0),
    ("L3MAX", CACHES, 0, 100, 100),
];

impl Kernel {
    /// The state after mounting: only the default group.
    pub fn mount(mut self) -> Self {
        "ok".clone_into(&mut self.status);
        let group = self.fresh();
        self.groups.insert(String::new(), group);
        self
    }

    fn lines(&self) -> impl Iterator<Item = &'static Line> + '_ {
        LINES
            .iter()
            .filter(|(name, ..)| !self.old || ["L3", "MB"].contains(name) || self.mounted.contains(name))
    }

    fn fresh(&self) -> Group {
        let open = |(name, domains, _, _, open): &Line| domains.map(|domain| ((*name, domain), *open));
        Group { limits: self.lines().flat_map(open).collect(), ..Group::default() }
    }

    /// Splits a path into its group and the rest.
    fn split<'a>(&self, path: &'a str) -> (&'a str, &'a str) {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if self.groups.contains_key(first) && !first.is_empty() { (first, rest) } else { ("", path) }
    }

    /// Returns the names in a directory; absent if it is not a directory.
    pub fn list(&self, path: &str) -> Option<Vec<String>> {
        let (group, below) = self.split(path);
        let files = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let nodes: Vec<String> = NODES.iter().map(|node| format!("mon_MB_{node:02}")).collect();
        let caches: Vec<String> = CACHES.iter().map(|cache| format!("mon_L3_{cache:02}")).collect();
        match below {
            "" => {
                let mut names = files(&["schemata", "tasks", "cpus_list", "mode", "mon_data", "mon_groups"])?;
                if group.is_empty() {
                    names.push("info".to_owned());
                    names.extend(self.groups.keys().filter(|name| !name.is_empty()).cloned());
                }
                Some(names)
            }
            "mon_groups" => Some(Vec::new()),
            "mon_data" => Some([caches, nodes].concat()),
            "info" if group.is_empty() => files(&["L3", "L3_MON", "MB", "last_cmd_status"]),
            "info/L3_MON" if group.is_empty() => files(&["num_rmids"]),
            "info/L3" if group.is_empty() => files(&["cbm_mask", "min_cbm_bits", "num_closids"]),
            "info/MB" if group.is_empty() => files(&["bandwidth_gran", "min_bandwidth", "num_closids"]),
            _ if self.old => None,
            _ => match below.strip_prefix("mon_data/")? {
                name if nodes.iter().any(|node| node == name) => files(&["mbm_total_bytes"]),
                name if caches.iter().any(|cache| cache == name) => files(&["llc_occupancy"]),
                _ => None,
            },
        }
    }

    /// Returns the text of a file; absent if it is not a file.
    pub fn read(&self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.list(path).is_some() || !self.list(folder)?.iter().any(|one| one == name) {
            return None;
        }
        let (group, below) = self.split(path);
        let state = self.groups.get(group)?;
        Some(match below {
            "schemata" => self.schemata(state),
            "tasks" => {
                let living = state.tasks.iter().filter(|&&tid| is_there(tid));
                let ids: Vec<String> = living.map(u32::to_string).collect();
                ids.join("\n") + if ids.is_empty() { "" } else { "\n" }
            }
            "cpus_list" => "\n".to_owned(),
            "mode" => "shareable\n".to_owned(),
            "info/last_cmd_status" => format!("{}\n", self.status),
            "info/L3/cbm_mask" => "7fff\n".to_owned(),
            // Each group has monitors of its own; the driver reports 1 because the file must hold a number.
            "info/L3_MON/num_rmids" | "info/L3/min_cbm_bits" | "info/MB/bandwidth_gran" => "1\n".to_owned(),
            "info/L3/num_closids" | "info/MB/num_closids" => format!("{GROUPS}\n"),
            "info/MB/min_bandwidth" => format!("{}\n", self.least.unwrap_or(if self.old { 5 } else { 1 })),
            _ if below.contains("mon_MB") => "120\n".to_owned(),
            _ => "65536\n".to_owned(),
        })
    }

    /// Formats the limits, with leading zeros.
    fn schemata(&self, group: &Group) -> String {
        let line = |(name, domains, ..): &Line| {
            let value = |domain: &u32| {
                let value = group.limits[&(*name, *domain)];
                if *name == "L3" { format!("{domain}={value:04x}") } else { format!("{domain}={value:07}") }
            };
            format!("{name:>6}:{}\n", domains.iter().map(value).collect::<Vec<_>>().join(";"))
        };
        self.lines().map(line).collect()
    }

    /// Handles a write.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), i32> {
        let (group, below) = self.split(path);
        let group = group.to_owned();
        match below {
            "tasks" => self.assign(&group, text),
            "schemata" => {
                let line = text.strip_suffix('\n').ok_or(EINVAL)?;
                "ok".clone_into(&mut self.status);
                self.limit(&group, line)
            }
            _ => Err(EPERM),
        }
    }

    /// Moves tasks to a group. 5.10 accepts one task per write.
    fn assign(&mut self, group: &str, text: &str) -> Result<(), i32> {
        let ids: Result<Vec<u32>, _> = text.trim().split(',').map(str::parse).collect();
        let ids = ids.map_err(|_| EINVAL)?;
        if self.old && ids.len() > 1 {
            return Err(EINVAL);
        }
        for tid in ids {
            if !is_there(tid) {
                return Err(ESRCH);
            }
            for group in self.groups.values_mut() {
                group.tasks.remove(&tid);
            }
            self.groups.get_mut(group).ok_or(ENOENT)?.tasks.insert(tid);
        }
        Ok(())
    }

    fn limit(&mut self, group: &str, line: &str) -> Result<(), i32> {
        let (name, values) = line.split_once(':').ok_or(EINVAL)?;
        let known = self.lines().find(|(known, ..)| *known == name.trim());
        let Some(&(name, domains, least, most, _)) = known else {
            return Err(self.silent(format!("Unknown or unsupported resource name '{name}'")));
        };
        if self.refuses == Some(name) {
            return Err(EINVAL);
        }
        for value in values.split(';') {
            let (domain, value) = value.split_once('=').ok_or(EINVAL)?;
            let domain: u32 = domain.trim().parse().map_err(|_| EINVAL)?;
            let radix = if name == "L3" { 16 } else { 10 };
            let value = u64::from_str_radix(value.trim(), radix).map_err(|_| EINVAL)?;
            if !domains.contains(&domain) {
                return Err(EINVAL);
            }
            let value = if self.old && name == "MB" { value.max(5) } else { value };
            let least = self.least.filter(|_| name == "MB").unwrap_or(least);
            if value < least || value > most {
                return Err(self.silent(format!("{name} value {value} out of range [{least},{most}]")));
            }
            if self.ignores != Some(name) {
                let value = if ["MB", "MBMIN"].contains(&name) { as_hardware(value) } else { value };
                self.groups.get_mut(group).ok_or(ENOENT)?.limits.insert((name, domain), value);
            }
        }
        Ok(())
    }

    /// Records the reason of a refusal, except on 5.10.
    fn silent(&mut self, why: String) -> i32 {
        if !self.old {
            self.status = why;
        }
        EINVAL
    }

    /// Creates a group.
    pub fn make(&mut self, path: &str) -> Result<(), i32> {
        if path.contains('/') {
            return Err(EPERM);
        }
        if self.groups.contains_key(path) {
            return Err(EEXIST);
        }
        if self.groups.len() >= GROUPS {
            "Out of CLOSIDs".clone_into(&mut self.status);
            return Err(ENOSPC);
        }
        let group = self.fresh();
        self.groups.insert(path.to_owned(), group);
        if let Some(child) = self.ends.take() {
            let mut child = child.lock().map_err(|_| EINVAL)?;
            child.kill().and_then(|()| child.wait()).map_err(|_| EINVAL)?;
        }
        Ok(())
    }

    /// Removes a group; its tasks return to the default group.
    pub fn remove(&mut self, path: &str) -> Result<(), i32> {
        let group = self.groups.remove(path).filter(|_| !path.is_empty()).ok_or(EPERM)?;
        self.groups.get_mut("").ok_or(ENOENT)?.tasks.extend(group.tasks);
        Ok(())
    }
}

/// Whether a task exists: a task that has ended is in no group.
fn is_there(tid: u32) -> bool {
    Path::new(&format!("/proc/{tid}")).exists()
}

/// Returns a percentage as rounded by the hardware.
fn as_hardware(percent: u64) -> u64 {
    let steps = (percent * STEPS + 50) / 100;
    steps.max(u64::from(percent > 0)) * 100 / STEPS
}
