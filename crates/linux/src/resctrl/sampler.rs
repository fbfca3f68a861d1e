//! Repeated readings of the monitors of all groups.

use super::{Files, OpenMonitors};
use crate::{
    child::allow_many_files,
    clock::now_ns,
    resctrl::watch::{GroupReadings, MonitorReadings},
};
use std::{borrow::Borrow, collections::BTreeMap};

/// Groups that come and go, with their monitors kept open. `F` is the file system or a reference to it.
#[derive(Debug)]
pub struct Sampler<F> {
    files: F,
    open: BTreeMap<String, (u64, OpenMonitors)>,
    instances: u64,
}

impl<F: Borrow<Files>> Sampler<F> {
    /// Creates a sampler without reading anything. Each monitor needs an open file, so the process raises its
    /// limit of open files.
    pub fn new(files: F) -> Self {
        allow_many_files();
        Self { files, open: BTreeMap::new(), instances: 0 }
    }

    /// Reads the monitors of all groups for which `is_wanted` is true. Groups without monitors are left out.
    pub fn sample(&mut self, is_wanted: impl Fn(&str) -> bool) -> MonitorReadings {
        let names: Vec<String> =
            self.files.borrow().names().into_iter().filter(|name| is_wanted(name)).collect();
        self.open.retain(|name, _| names.contains(name));
        names.into_iter().filter_map(|name| Some((name.clone(), self.readings(&name)?))).collect()
    }

    fn readings(&mut self, name: &str) -> Option<GroupReadings> {
        // A group that was removed and created again has other files; reading the old ones fails.
        for _ in 0..2 {
            if let Some((instance, watch)) = self.open.get(name) {
                let at_ns = now_ns();
                if let Some(monitors) = watch.read(self.files.borrow()) {
                    return Some(GroupReadings { at_ns, instance: *instance, monitors });
                }
            }
            let watch = OpenMonitors::open(self.files.borrow(), name);
            if watch.is_empty() {
                self.open.remove(name);
                return None;
            }
            self.instances += 1;
            self.open.insert(name.to_owned(), (self.instances, watch));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resctrl::Mount;
    use crate::resctrl::rates::Reading;
    use manycore_topology::sys_tree::SysTree;
    use std::{fs, path::Path};

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn groups_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let total = |group: &str| format!("{group}mon_data/mon_L3_00/mbm_total_bytes");
        write(root, &total(""), "100\n");
        write(root, &total("web/"), "7\n");
        write(root, "none/tasks", "");
        let mount = Mount { point: root.to_owned(), options: Vec::new() };
        let files = Files::new(SysTree::open(root).unwrap(), None, mount);
        let mut sampler = Sampler::new(&files);
        let first = sampler.sample(|_| true);
        assert_eq!(first.keys().collect::<Vec<_>>(), ["", "web"]);
        assert_eq!(first["web"].monitors[0].total, Some(Reading::Bytes(7)));
        write(root, &total("web/"), "Unavailable\n");
        write(root, &total("late/mon_groups/part/"), "1\n");
        let second = sampler.sample(|_| true);
        assert_eq!(second.keys().collect::<Vec<_>>(), ["", "late/mon_groups/part", "web"]);
        assert_eq!(second["web"].monitors[0].total, Some(Reading::Unavailable));
        assert_eq!(second["web"].instance, first["web"].instance);
        fs::remove_dir_all(root.join("web")).unwrap();
        assert_eq!(sampler.sample(|_| true).keys().collect::<Vec<_>>(), ["", "late/mon_groups/part"]);
        write(root, &total("web/"), "1\n");
        let anew = sampler.sample(|name| name == "web");
        assert_eq!(anew.len(), 1);
        assert_ne!(anew["web"].instance, first["web"].instance);
    }
}
