//! What is read of single processes on request, because it is expensive or takes a lock of the process.

use manycore_text::names::printable;
use manycore_topology::{
    SysTree,
    cgroup::{self, Hierarchies},
};
use std::collections::BTreeMap;

/// Longest `numa_maps` that is read, in bytes. A process with more mappings has no memory by node.
const LONGEST_MAPS: usize = 32 << 20;

/// How long tasks of a control group waited for a resource (`Documentation/accounting/psi.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Time in which some task waited, in nanoseconds since the group was created.
    pub some_ns: u64,
    /// Its share of the last 10 s in percent.
    pub some_percent: f64,
}

/// What is known of one process on request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessDetails {
    /// Its control group of version 2 (`/system.slice/db.service`), with unprintable characters replaced; absent without
    /// such a hierarchy.
    pub cgroup: Option<String>,
    /// Pressure on CPUs of that group (`cpu.pressure`); absent for the root group and on a kernel without PSI.
    pub cpu: Option<Pressure>,
    /// Pressure on memory (`memory.pressure`); absent as `cpu`.
    pub memory: Option<Pressure>,
    /// Pressure on disks (`io.pressure`); absent as `cpu`.
    pub io: Option<Pressure>,
    /// The group of resctrl whose monitors count its memory bandwidth, as [`BandwidthSample::group`](crate::BandwidthSample::group);
    /// absent without resctrl.
    pub monitor: Option<String>,
    /// Resident memory in KiB by node. Absent unless wanted, for a process of another user, and without NUMA support.
    pub node_kib: Option<BTreeMap<u32, u64>>,
}

impl ProcessDetails {
    /// Reads a process. Memory by node (`/proc/PID/numa_maps`) is read only if `memory` is true: the kernel visits each
    /// page table of the process and holds its `mmap_lock` meanwhile. All fields are absent for a process that has ended.
    pub fn read(tree: &SysTree, hierarchies: &Hierarchies, pid: u32, memory: bool) -> Self {
        let memberships = cgroup::memberships(tree, &pid.to_string());
        // No hierarchy of version 1 has a controller with an empty name.
        let groups = memberships.and_then(|memberships| hierarchies.folders(&memberships, ""));
        let (name, mut folders) = groups.and_then(|mut groups| groups.pop()).unzip();
        let folder = folders.as_mut().and_then(|folders| Some(folders.pop()?.path));
        let pressure = |name: &str| {
            let folder = folder.as_ref()?;
            parse_pressure(&tree.read(&format!("{folder}/{name}.pressure"))?)
        };
        Self {
            cpu: pressure("cpu"),
            memory: pressure("memory"),
            io: pressure("io"),
            monitor: tree.read(&format!("proc/{pid}/cpu_resctrl_groups")).as_deref().and_then(parse_monitor),
            node_kib: if memory { node_kib(tree, pid) } else { None },
            cgroup: name.as_deref().map(printable),
        }
    }
}

fn node_kib(tree: &SysTree, pid: u32) -> Option<BTreeMap<u32, u64>> {
    let text = tree.read_part(&format!("proc/{pid}/numa_maps"), LONGEST_MAPS, str::to_owned)?;
    (text.len() < LONGEST_MAPS).then(|| parse_maps(&text))
}

/// Parses a file `*.pressure`.
pub(crate) fn parse_pressure(text: &str) -> Option<Pressure> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = |key: &str| some.split_whitespace().find_map(|word| word.strip_prefix(key));
    let total_us: u64 = value("total=")?.parse().ok()?;
    Some(Pressure { some_ns: total_us.checked_mul(1000)?, some_percent: value("avg10=")?.parse().ok()? })
}

/// Parses `cpu_resctrl_groups` (`res:/`, `mon:one`): the directory of the group with the monitors.
fn parse_monitor(text: &str) -> Option<String> {
    let field = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key));
    let (control, monitor) = (field("res:")?.trim(), field("mon:")?.trim());
    let path = match (control, monitor) {
        // resctrl is not mounted.
        ("", _) => return None,
        (control, "") => control.to_owned(),
        ("/", monitor) => format!("mon_groups/{monitor}"),
        (control, monitor) => format!("{control}/mon_groups/{monitor}"),
    };
    Some(printable(&path))
}

/// Sums the pages of each mapping (`N0=12 kernelpagesize_kB=4`). The kernel escapes blanks and `=` in names of files.
fn parse_maps(text: &str) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let words = || line.split_ascii_whitespace();
        let size = words().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok());
        for word in words() {
            let pages = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
            let pages =
                pages.and_then(|(node, pages)| Some((node.parse().ok()?, pages.parse::<u64>().ok()?)));
            if let Some((node, pages)) = pages {
                let sum: &mut u64 = sums.entry(node).or_default();
                *sum = sum.saturating_add(pages.saturating_mul(size.unwrap_or(4)));
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn pressure_groups_and_memory_by_node_are_read() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=42\nfull avg10=9.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(Pressure { some_ns: 42_000, some_percent: 1.5 }));
        let group = |text: &str| parse_monitor(text);
        assert_eq!(group("res:\nmon:\n"), None);
        assert_eq!(group("res:/\nmon:\n").as_deref(), Some("/"));
        assert_eq!(group("res:/\nmon:one\n").as_deref(), Some("mon_groups/one"));
        assert_eq!(group("res:web\nmon:one\n").as_deref(), Some("web/mon_groups/one"));
        let text = "7f00 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n7f01 default file=/N0\\0759 N1=1 kernelpagesize_kB=2048\n";
        assert_eq!(parse_maps(text), BTreeMap::from([(0, 4), (1, 2056)]));
    }

    #[test]
    fn this_process_has_memory_and_one_that_does_not_exist_has_nothing() {
        let tree = SysTree::open(Path::new("/")).unwrap();
        let hierarchies = Hierarchies::read(&tree);
        let read = |pid: u32, memory: bool| ProcessDetails::read(&tree, &hierarchies, pid, memory);
        let own = read(std::process::id(), true);
        match own.node_kib {
            Some(nodes) => assert!(nodes.values().sum::<u64>() > 100, "{nodes:?}"),
            None => println!("SKIPPED: no numa_maps here"),
        }
        assert_eq!(read(std::process::id(), false).node_kib, None);
        assert_eq!(read(u32::MAX >> 2, true), ProcessDetails::default());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "[a-zN0-9=._ \n]{0,200}|\\PC{0,80}") {
            let _ = (parse_pressure(&text), parse_maps(&text), parse_monitor(&text));
        }
    }
}
