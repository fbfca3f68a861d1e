//! Names that exist on this machine, for completion. Everything is read from files, within milliseconds; what cannot be
//! read has no names.

use crate::results;
use manycore_control::{journal, setting::Setting};
use manycore_topology::CpuSet;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Maximum number of entries of a directory that are read.
const MAX_ENTRIES: usize = 4096;

/// Maximum number of entries of a directory of programs that are read.
const MAX_PROGRAMS: usize = 1 << 16;

/// The names that a completion may need.
pub trait Names {
    /// Devices: network interfaces, disks, PCI addresses.
    fn devices(&self) -> Vec<String>;
    /// NUMA nodes.
    fn nodes(&self) -> Vec<u32>;
    /// Domains of libvirt, defined or running.
    fn domains(&self) -> Vec<String>;
    /// Groups of resctrl.
    fn groups(&self) -> Vec<String>;
    /// Units of systemd that are active.
    fn units(&self) -> Vec<String>;
    /// Changes of manycore that are in force.
    fn changes(&self) -> Vec<String>;
    /// Names of results, the last ones first.
    fn results(&self) -> Vec<String>;
    /// Installed programs that load a `sched_ext` scheduler, by the names of the sched-ext project.
    fn schedulers(&self) -> Vec<String>;
    /// The values of a known setting of the machine, each with its name: `thp=never`.
    fn settings(&self, name: &str) -> Vec<String>;
}

/// The names of the machine on which the program runs.
#[derive(Debug)]
pub struct MachineNames {
    root: PathBuf,
    results: PathBuf,
}

impl MachineNames {
    /// Reads from the files below `root`, and the names of results in the directory of all `results`.
    pub fn new(root: &Path, results: &Path) -> Self {
        Self { root: root.to_owned(), results: results.to_owned() }
    }

    /// Returns the names of the entries of a directory for which `name` returns one, sorted.
    fn entries(&self, folder: &str, name: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().take(MAX_ENTRIES);
        let names = entries.filter_map(|entry| name(entry.ok()?.file_name().to_str()?));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Names for MachineNames {
    fn devices(&self) -> Vec<String> {
        let whole = |name: &str| Some(name.to_owned());
        let disk = |name: &str| {
            Some(name.to_owned()).filter(|name| !name.starts_with("loop") && !name.starts_with("ram"))
        };
        [
            self.entries("sys/class/net", whole),
            self.entries("sys/block", disk),
            self.entries("sys/bus/pci/devices", whole),
        ]
        .concat()
    }

    fn nodes(&self) -> Vec<u32> {
        let online = fs::read_to_string(self.root.join("sys/devices/system/node/online")).ok();
        let online = online.and_then(|text| text.trim().parse::<CpuSet>().ok());
        online.map(|nodes| nodes.iter().collect()).unwrap_or_default()
    }

    fn domains(&self) -> Vec<String> {
        let name = |file: &str| file.strip_suffix(".xml").map(str::to_owned);
        let both = [self.entries("etc/libvirt/qemu", name), self.entries("run/libvirt/qemu", name)].concat();
        both.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn groups(&self) -> Vec<String> {
        let folder = "sys/fs/resctrl";
        if !self.root.join(folder).join("schemata").exists() {
            return Vec::new();
        }
        let group = |name: &str| {
            let is_own = matches!(name, "info" | "mon_groups" | "mon_data");
            let is_group = !is_own && self.root.join(folder).join(name).join("schemata").exists();
            is_group.then(|| name.to_owned())
        };
        [vec!["/".to_owned()], self.entries(folder, group)].concat()
    }

    fn units(&self) -> Vec<String> {
        self.entries("run/systemd/units", |name| name.strip_prefix("invocation:").map(str::to_owned))
    }

    fn changes(&self) -> Vec<String> {
        let pending = journal::pending(&journal::folder());
        pending.map(|(pending, _)| pending.iter().map(journal::Pending::id).collect()).unwrap_or_default()
    }

    fn schedulers(&self) -> Vec<String> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&paths).collect::<Vec<_>>();
        let below_root = folders.iter().filter_map(|folder| folder.strip_prefix("/").ok());
        let names = below_root.flat_map(|folder| {
            // A folder of programs may have more entries than those of names.
            let entries =
                fs::read_dir(self.root.join(folder)).into_iter().flatten().take(MAX_PROGRAMS).flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok())
        });
        names.filter(|name| name.starts_with("scx_")).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn results(&self) -> Vec<String> {
        let found = results::all(&self.results).unwrap_or_default().into_iter().take(MAX_ENTRIES);
        found.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }

    fn settings(&self, name: &str) -> Vec<String> {
        let all = Setting::all_of(&self.root, name).unwrap_or_default();
        all.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
pub(super) mod test {
    use super::*;

    /// Names that do not depend on the machine, among them hostile ones.
    pub(in crate::completion) struct FixedNames;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    impl Names for FixedNames {
        fn devices(&self) -> Vec<String> {
            owned(&["eth0", "nvme0n1", "0000:03:00.0", "eth$(reboot)"])
        }
        fn nodes(&self) -> Vec<u32> {
            vec![0, 1]
        }
        fn domains(&self) -> Vec<String> {
            owned(&["web1", "web 2; reboot"])
        }
        fn groups(&self) -> Vec<String> {
            owned(&["/", "batch"])
        }
        fn units(&self) -> Vec<String> {
            owned(&["nginx.service"])
        }
        fn changes(&self) -> Vec<String> {
            owned(&["pin-812"])
        }
        fn schedulers(&self) -> Vec<String> {
            owned(&["scx_lavd"])
        }
        fn results(&self) -> Vec<String> {
            owned(&["compare-2", "eval-1", "$(reboot)"])
        }
        fn settings(&self, name: &str) -> Vec<String> {
            owned(if name == "thp" { &["thp=always", "thp=never"] } else { &[] })
        }
    }

    #[test]
    fn names_are_read_from_files_and_nothing_fails_without_them() {
        let root = tempfile::tempdir().unwrap();
        let names = MachineNames::new(root.path(), &root.path().join("none"));
        assert!(names.results().is_empty());
        assert!(names.devices().is_empty() && names.nodes().is_empty() && names.groups().is_empty());
        for folder in [
            "sys/class/net/eth0",
            "sys/block/loop0",
            "sys/fs/resctrl/batch",
            "sys/fs/resctrl/info",
            "etc/libvirt/qemu",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["sys/fs/resctrl/schemata", "sys/fs/resctrl/batch/schemata", "etc/libvirt/qemu/web1.xml"]
        {
            fs::write(root.path().join(file), "").unwrap();
        }
        fs::create_dir_all(root.path().join("sys/devices/system/node")).unwrap();
        fs::write(root.path().join("sys/devices/system/node/online"), "0-1,4\n").unwrap();
        assert_eq!(
            (names.devices(), names.groups(), names.domains()),
            (owned(&["eth0"]), owned(&["/", "batch"]), owned(&["web1"]))
        );
        assert_eq!(names.nodes(), [0, 1, 4]);
    }
}
