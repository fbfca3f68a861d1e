//! Memory bandwidth and cache by group of resctrl.

use super::names::Names;
use crate::resources::BandwidthSample;
use manycore_linux::resctrl::{
    Files, Mount, Sampler, find,
    rates::{MonitorReading, Reading},
    vendor,
    watch::{GroupReadings, MonitorReadings},
};
use manycore_topology::SysTree;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a copy of a system has it.
const COPY: &str = "sys/fs/resctrl";

/// The monitors of a mounted resctrl file system, kept open.
#[derive(Debug)]
pub(super) struct Bandwidth {
    sampler: Sampler<Files>,
    /// Bytes so far, of monitors that report a rate: the sum of rates times the time since the previous sample.
    sums: BTreeMap<(Arc<str>, u32), Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    at_ns: u64,
    total: u64,
    local: u64,
}

impl Bandwidth {
    /// Opens resctrl below a root; `None` if there is none.
    pub fn open(root: &Path, tree: &SysTree) -> Option<Self> {
        let mount = find(tree, None).or_else(|_| find(tree, Some(&root.join(COPY)))).ok()?;
        let point = if tree.is_live() { mount.point } else { below(root, &mount.point) };
        let mount = Mount { point, ..mount };
        let files = Files::new(SysTree::open(&mount.point).ok()?, vendor(tree).as_deref(), mount);
        Some(Self { sampler: Sampler::new(files), sums: BTreeMap::new() })
    }

    /// Reads the monitors of all groups, ascending by group and domain.
    pub fn read(&mut self, names: &mut Names, into: &mut Vec<BandwidthSample>) {
        into.clear();
        let readings: MonitorReadings = self.sampler.sample(|_| true);
        let mut sums = BTreeMap::new();
        for (name, group) in &readings {
            let name = names.get(if name.is_empty() { "/" } else { name });
            for monitor in &group.monitors {
                let key = (Arc::clone(&name), monitor.domain);
                let before = self.sums.get(&key).copied().unwrap_or_default();
                let now = sums.entry(key).or_insert(Sums { at_ns: group.at_ns, ..before });
                add(monitor, group, before.at_ns, now, &name, into);
            }
        }
        self.sums = sums;
        into.sort_by(|a, b| (&a.group, a.domain).cmp(&(&b.group, b.domain)));
    }
}

/// Returns a path that is absolute in the copy of a system below `root`.
fn below(root: &Path, point: &Path) -> PathBuf {
    if point.starts_with(root) {
        point.to_owned()
    } else {
        root.join(point.strip_prefix("/").unwrap_or(point))
    }
}

/// Adds a monitor to the sample of its domain, to which several resources may belong.
fn add(
    monitor: &MonitorReading,
    group: &GroupReadings,
    before_ns: u64,
    sums: &mut Sums,
    name: &Arc<str>,
    into: &mut Vec<BandwidthSample>,
) {
    let at = into.iter().rposition(|one| one.domain == monitor.domain && Arc::ptr_eq(&one.group, name));
    let at = at.unwrap_or_else(|| {
        into.push(BandwidthSample {
            group: Arc::clone(name),
            domain: monitor.domain,
            total_bytes: None,
            local_bytes: None,
            cache_bytes: None,
        });
        into.len() - 1
    });
    let ns = if before_ns == 0 { 0 } else { group.at_ns.saturating_sub(before_ns) };
    let one = &mut into[at];
    one.total_bytes = one.total_bytes.or_else(|| bytes(monitor.total?, ns, &mut sums.total));
    one.local_bytes = one.local_bytes.or_else(|| bytes(monitor.local?, ns, &mut sums.local));
    one.cache_bytes = one.cache_bytes.or_else(|| monitor.occupancy?.bytes());
}

/// Returns the running total of a monitor; `sum` is that of the rates so far.
fn bytes(reading: Reading, ns: u64, sum: &mut u64) -> Option<u64> {
    match reading {
        Reading::Bytes(bytes) => Some(bytes),
        // A megabyte per second is a byte per thousand nanoseconds.
        Reading::MegabytesPerSecond(rate) => {
            *sum = sum.saturating_add((u128::from(rate) * u128::from(ns) / 1000) as u64);
            Some(*sum)
        }
        Reading::Unavailable | Reading::Unassigned | Reading::Error => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_copy_is_read_by_group_and_domain() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/mounts", "resctrl /mnt/ctrl resctrl rw 0 0\n");
        write(root, "mnt/ctrl/schemata", "L3:0=f;1=f\n");
        for (group, domain, total) in [("", 0, "100"), ("", 1, "Unavailable"), ("web/", 0, "7")] {
            let monitors = format!("mnt/ctrl/{group}mon_data/mon_L3_0{domain}");
            write(root, &format!("{monitors}/mbm_total_bytes"), total);
            write(root, &format!("{monitors}/llc_occupancy"), "4096");
        }
        let tree = SysTree::open(root).unwrap();
        let mut bandwidth = Bandwidth::open(root, &tree).unwrap();
        let mut into = Vec::new();
        let mut names = Names::default();
        bandwidth.read(&mut names, &mut into);
        let figures: Vec<_> =
            into.iter().map(|one| (&*one.group, one.domain, one.total_bytes, one.local_bytes)).collect();
        assert_eq!(figures, [("/", 0, Some(100), None), ("/", 1, None, None), ("web", 0, Some(7), None)]);
        assert!(into.iter().all(|one| one.cache_bytes == Some(4096)));
        fs::remove_dir_all(root.join("mnt/ctrl/web")).unwrap();
        bandwidth.read(&mut names, &mut into);
        assert_eq!(into.len(), 2);
    }

    #[test]
    fn a_system_without_it_has_none_and_rates_are_summed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Bandwidth::open(folder.path(), &SysTree::open(folder.path()).unwrap()).is_none());
        let mut sum = 5;
        assert_eq!(bytes(Reading::MegabytesPerSecond(3), 2_000_000_000, &mut sum), Some(6_000_005));
        assert_eq!(bytes(Reading::Error, 2_000_000_000, &mut sum), None);
    }
}
