//! Reads the state of resctrl.

use super::{Mount, monitors, vendor};
use crate::resctrl::{
    dialect::{Capabilities, Dialect, DialectSigns, Info},
    schemata::{self, Schemata},
    state::{GroupOwner, GroupRole, QOS_SCHEMA, QosGroup, QosState},
};
use manycore_topology::{CpuSet, Error, SysTree};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Maximum size of a list of tasks in bytes: some million threads.
const MAX_TASKS_BYTES: usize = 64 << 20;

/// Directories in the mount point that are not groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// A mounted file system, opened for reading.
#[derive(Debug)]
pub struct Files {
    pub(super) tree: SysTree,
    mount: Mount,
    info: BTreeMap<String, Info>,
    capabilities: Capabilities,
}

impl Files {
    /// Opens it and reads its capabilities. `system` is the root of `/proc`.
    ///
    /// # Errors
    /// The mount point cannot be opened.
    pub fn open(system: &SysTree, mount: &Mount) -> Result<Self, Error> {
        Ok(Self::new(SysTree::open(&mount.point)?, vendor(system).as_deref(), mount.clone()))
    }

    /// Reads the capabilities of the file system in a tree, which may be a copy.
    pub fn new(tree: SysTree, vendor: Option<&str>, mount: Mount) -> Self {
        let info: BTreeMap<String, Info> = tree
            .list("info")
            .into_iter()
            .filter(|name| tree.is_folder(&format!("info/{name}")))
            .map(|name| (name.clone(), info(&tree, &format!("info/{name}"))))
            .collect();
        let root = Schemata::parse(&tree.read("schemata").unwrap_or_default());
        let monitored: Vec<String> =
            tree.list("mon_data").into_iter().filter(|name| name.starts_with("mon_MB_")).collect();
        let dialect = Dialect::recognise(&DialectSigns {
            vendor,
            options: &mount.options,
            schemata: &root,
            monitor_file: monitored.iter().any(|name| !tree.is_folder(&format!("mon_data/{name}"))),
            bare_monitor: !monitored.is_empty() && !info.contains_key("MB_MON"),
        });
        let capabilities = Capabilities::new(dialect, &mount.options, &root, &info);
        Self { tree, mount, info, capabilities }
    }

    /// Returns the mount point.
    pub fn root(&self) -> &Path {
        &self.mount.point
    }

    /// Returns its capabilities.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Reads the current state. `created` are the directories of groups that manycore created, with the names of
    /// their journals.
    pub fn state(&self, created: &BTreeMap<PathBuf, String>) -> QosState {
        let groups = self.names().into_iter().filter_map(|name| self.group(&name, created));
        QosState {
            schema: QOS_SCHEMA.to_owned(),
            root: self.mount.point.display().to_string(),
            options: self.mount.options.clone(),
            capabilities: self.capabilities.clone(),
            info: self.info.clone(),
            groups: groups.collect(),
        }
    }

    /// Returns the names of all groups: the default group (empty) first, each group followed by its
    /// monitoring groups.
    pub fn names(&self) -> Vec<String> {
        let control = self
            .tree
            .list("")
            .into_iter()
            .filter(|name| !NO_GROUPS.contains(&name.as_str()) && self.tree.is_folder(name));
        let mut names = Vec::new();
        for name in std::iter::once(String::new()).chain(control) {
            let monitoring = path(&name, "mon_groups");
            names.push(name);
            names.extend(self.tree.list(&monitoring).into_iter().map(|name| path(&monitoring, &name)));
        }
        names
    }

    /// Reads one group; `None` if it no longer exists.
    pub fn group(&self, name: &str, created: &BTreeMap<PathBuf, String>) -> Option<QosGroup> {
        let read = |file: &str| self.tree.read(&path(name, file));
        if !name.is_empty() && !self.tree.is_folder(name) {
            return None;
        }
        let role = match name {
            "" => GroupRole::Default,
            _ if is_monitoring(name) => GroupRole::Monitor,
            _ => GroupRole::Control,
        };
        let journal = created.get(&self.mount.point.join(name)).map(String::as_str);
        Some(QosGroup {
            name: name.to_owned(),
            role,
            owner: GroupOwner::from_group_name(name, journal),
            schemata: self.schemata(name),
            mode: read("mode"),
            size: schemata::parse_sizes(&read("size").unwrap_or_default()),
            cpus: self.cpus(name),
            tasks: self.tasks(name).len(),
            monitors: monitors::read(&self.tree, name, self.capabilities.dialect.monitors_report_rates()),
        })
    }

    /// Reads the limits of a group; empty for a monitoring group.
    pub fn schemata(&self, name: &str) -> Schemata {
        Schemata::parse(&self.tree.read(&path(name, "schemata")).unwrap_or_default())
    }

    /// Reads the CPUs whose tasks belong to a group.
    pub fn cpus(&self, name: &str) -> CpuSet {
        let list = self.tree.read(&path(name, "cpus_list")).unwrap_or_default();
        list.parse().unwrap_or_default()
    }

    /// Reads the tasks of a group, by thread id. Tasks of a monitoring group are also tasks of its parent
    /// group.
    pub fn tasks(&self, name: &str) -> Vec<u32> {
        let text =
            self.tree.read_part(&path(name, "tasks"), MAX_TASKS_BYTES, str::to_owned).unwrap_or_default();
        // openEuler also lists IOMMU groups (`iommu_group:17`).
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Returns the group of each task: the monitoring group if the task is in one.
    pub fn group_of_tasks(&self) -> BTreeMap<u32, String> {
        // Monitoring groups come after their parent group and so overwrite it.
        let names = self.names();
        let tasks = names.iter().flat_map(|name| self.tasks(name).into_iter().map(|tid| (tid, name.clone())));
        tasks.collect()
    }
}

/// Whether a group is a monitoring group.
pub(super) fn is_monitoring(name: &str) -> bool {
    name.split('/').rev().nth(1) == Some("mon_groups")
}

/// Returns the path of `file` in the group `name`.
pub fn path(name: &str, file: &str) -> String {
    if name.is_empty() { file.to_owned() } else { format!("{name}/{file}") }
}

fn info(tree: &SysTree, folder: &str) -> Info {
    let text = |file: &str| tree.read(&format!("{folder}/{file}"));
    let mask = |file: &str| u64::from_str_radix(text(file)?.trim(), 16).ok();
    let number = |file: &str| tree.number::<u64>(&format!("{folder}/{file}"));
    let small = |file: &str| tree.number::<u32>(&format!("{folder}/{file}"));
    Info {
        groups: small("num_closids"),
        monitors: small("num_rmids"),
        mask: mask("cbm_mask"),
        min_bits: small("min_cbm_bits"),
        shared: mask("shareable_bits"),
        sparse: number("sparse_masks").map(|value| value != 0),
        minimum: number("min_bandwidth"),
        step: number("bandwidth_gran"),
        events: text("mon_features").unwrap_or_default().lines().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resctrl::{dialect::ValueRange, rates::Reading};
    use manycore_topology::capture::Capture;
    use proptest::prelude::*;

    fn files(entries: &[(&str, &str)], vendor: Option<&str>, options: &[&str]) -> Files {
        let mut capture = Capture::default();
        for (path, text) in entries {
            match path.strip_suffix('/') {
                Some(folder) => capture.add_folder(folder),
                None => capture.add_file(path, text),
            }
        }
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Files::new(SysTree::from_capture(capture), vendor, Mount { point: "/r".into(), options })
    }

    #[test]
    fn groups_are_read_with_their_contents() {
        let files = files(
            &[
                ("schemata", "    L3:0=fffff\n    MB:0=  100"),
                ("tasks", "1\n2\niommu_group:17\n"),
                ("cpus_list", "0-3"),
                ("mode", "shareable"),
                ("info/last_cmd_status", "ok"),
                ("info/L3/cbm_mask", "fffff"),
                ("info/L3/num_closids", "16"),
                ("info/MB/num_closids", "8"),
                ("info/MB/min_bandwidth", "10"),
                ("info/MB/bandwidth_gran", "10"),
                ("info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes"),
                ("mon_data/mon_L3_00/mbm_total_bytes", "1000"),
                ("mon_groups/", ""),
                ("qemu-1-a/schemata", "L3:0=f\nMB:0=50"),
                ("qemu-1-a/size", "L3:0=1048576\nMB:0=50"),
                ("qemu-1-a/cpus_list", ""),
                ("qemu-1-a/tasks", ""),
                ("qemu-1-a/mon_data/mon_L3_00/llc_occupancy", "Unavailable"),
                ("qemu-1-a/mon_groups/part/tasks", "7"),
                ("web/schemata", "L3:0=f0"),
            ],
            Some("GenuineIntel"),
            &["rw"],
        );
        let created = BTreeMap::from([(PathBuf::from("/r/web"), "qos-3".to_owned())]);
        let state = files.state(&created);
        let names: Vec<&str> = state.groups.iter().map(QosGroup::display_name).collect();
        assert_eq!(names, ["/", "qemu-1-a", "qemu-1-a/mon_groups/part", "web"]);
        assert_eq!(state.capabilities.dialect, Dialect::IntelRdt);
        assert_eq!(state.capabilities.groups, Some(8));
        assert_eq!(state.groups[0].tasks, 2);
        assert_eq!(state.groups[0].monitors[0].total, Some(Reading::Bytes(1000)));
        assert_eq!(state.groups[1].monitors[0].occupancy, Some(Reading::Unavailable));
        assert_eq!(state.groups[1].size["L3"][&0], 1 << 20);
        assert_eq!((state.groups[2].role, state.groups[2].tasks), (GroupRole::Monitor, 1));
        assert_eq!(state.groups[3].owner, GroupOwner::Manycore { journal: "qos-3".to_owned() });
    }

    #[test]
    fn openeulers_monitors_are_rates() {
        let folder = files(
            &[
                ("schemata", "L3:1=7fff\nMB:0=0000100;1=0000100"),
                ("mon_data/mon_MB_00/mbm_total_bytes", "120"),
                ("mon_data/mon_L3_122/llc_occupancy", "4096"),
            ],
            None,
            &["rw"],
        );
        assert_eq!(folder.capabilities().dialect, Dialect::OpenEuler66);
        let monitors = folder.state(&BTreeMap::new()).groups.remove(0).monitors;
        assert_eq!(monitors[0].occupancy, Some(Reading::Bytes(4096)));
        assert_eq!(monitors[1].total, Some(Reading::MegabytesPerSecond(120)));
        let file = files(&[("schemata", "MB:0=0000100"), ("mon_data/mon_MB_00", "120")], None, &[]);
        assert_eq!(file.capabilities().dialect, Dialect::OpenEuler510);
        let monitors = file.state(&BTreeMap::new()).groups.remove(0).monitors;
        assert_eq!(monitors[0].total, Some(Reading::MegabytesPerSecond(120)));
        assert!(matches!(
            file.capabilities().control("MB").unwrap().bounds,
            ValueRange::Number { maximum: 100, .. }
        ));
    }

    proptest! {
        #[test]
        fn any_files_are_read(text in "(\\PC|\n){0,60}", name in "[a-z_A-Z0-9]{1,12}") {
            let paths = ["schemata", "tasks", "cpus_list", "size", "info/L3/cbm_mask", "info/MB/min_bandwidth"];
            let mut entries: Vec<(String, &str)> = paths.map(|path| (path.to_owned(), text.as_str())).to_vec();
            entries.push((format!("{name}/tasks"), &text));
            entries.push((format!("mon_data/mon_{name}"), &text));
            entries.push((format!("mon_data/mon_L3_{name}/mbm_total_bytes"), &text));
            let entries: Vec<(&str, &str)> = entries.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let _ = files(&entries, Some(&text), &[&text]).state(&BTreeMap::new());
        }
    }
}
