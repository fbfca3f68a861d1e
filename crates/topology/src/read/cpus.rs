//! Reads CPUs and their packages, dies, clusters and cores
//! (`Documentation/ABI/stable/sysfs-devices-system-cpu`, `Documentation/admin-guide/cputopology.rst`).

use crate::{
    CpuId, CpuSet, Error, cgroup,
    machine::Group,
    read::{allowed, cpuinfo::CpuInfo},
    sys_tree::SysTree,
};
use std::collections::HashSet;

/// Folder of all CPUs.
pub const CPU: &str = "sys/devices/system/cpu";

/// Maximum number of CPUs that are online without a directory in sysfs. More are an error of a damaged file.
const MAX_CPUS: usize = 1 << 16;

/// The CPUs and their groups. Groups are ordered by their first CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpus {
    /// CPUs that are online.
    pub online: CpuSet,
    /// CPUs that are present but offline.
    pub offline: CpuSet,
    /// CPUs isolated from the scheduler's load balancing.
    pub isolated: CpuSet,
    /// Sockets.
    pub packages: Vec<Group>,
    /// Dies; the packages if the kernel reports none.
    pub dies: Vec<Group>,
    /// Clusters, if they differ from the cores.
    pub clusters: Vec<Group>,
    /// Cores.
    pub cores: Vec<Group>,
}

/// Files that describe one kind of group, below `cpuN/topology`.
struct GroupFiles {
    /// Names of the sibling file, newest first. Names ending in `_list` contain lists, the others masks.
    /// Masks are older, so they are tried first.
    siblings: &'static [&'static str],
    /// Name of the file with the group's number.
    id: &'static str,
}

const CORE: GroupFiles = GroupFiles {
    siblings: &["core_cpus", "core_cpus_list", "thread_siblings", "thread_siblings_list"],
    id: "core_id",
};
const CLUSTER: GroupFiles = GroupFiles { siblings: &["cluster_cpus", "cluster_cpus_list"], id: "cluster_id" };
const DIE: GroupFiles = GroupFiles { siblings: &["die_cpus", "die_cpus_list"], id: "die_id" };
const PACKAGE: GroupFiles = GroupFiles {
    siblings: &["package_cpus", "package_cpus_list", "core_siblings", "core_siblings_list"],
    id: "physical_package_id",
};

/// Reads all CPUs and their groups.
///
/// # Errors
/// The tree has no CPUs, or a list of CPUs is malformed.
pub fn read(tree: &SysTree, cpuinfo: &CpuInfo) -> Result<Cpus, Error> {
    let (online, offline) = online_and_offline(tree)?;
    let isolated = tree.cpu_list(&format!("{CPU}/isolated"))?.unwrap_or_default().intersection(&online);
    let mut cores = groups(tree, &CORE, &online)?;
    if cpuinfo.has_compute_units() {
        cores = split_compute_units(tree, &cores);
    }
    let packages = groups(tree, &PACKAGE, &online)?;
    let dies = useful_dies(groups(tree, &DIE, &online)?, &packages);
    let clusters = useful_clusters(groups(tree, &CLUSTER, &online)?, &cores, &packages);
    Ok(Cpus { online, offline, isolated, packages, dies, clusters, cores })
}

/// Reads online and offline CPUs. `online` exists since Linux 2.6.26; older kernels have a file for each
/// CPU that can be offline. A CPU without a `topology` folder counts as offline if other CPUs have one: it
/// went offline while the tree was copied.
fn online_and_offline(tree: &SysTree) -> Result<(CpuSet, CpuSet), Error> {
    let present = tree.numbered_entries(CPU, "cpu");
    if present.is_empty() {
        return Err(Error::NoCpus { root: tree.name().to_owned() });
    }
    let listed = match tree.cpu_list(&format!("{CPU}/online"))? {
        Some(online) => online.intersection(&present),
        None => present
            .iter()
            .filter(|cpu| {
                tree.read(&format!("{CPU}/cpu{cpu}/online")).is_none_or(|state| state.trim() != "0")
            })
            .collect(),
    };
    let proven = proven(tree, &listed, &present);
    let listed = listed.union(&proven.intersection(&present));
    let described: CpuSet =
        listed.iter().filter(|cpu| tree.is_folder(&format!("{CPU}/cpu{cpu}/topology"))).collect();
    let online = if described.is_empty() { listed } else { described }.union(&proven.difference(&present));
    if online.is_empty() {
        let file = format!("{CPU}/online");
        return Err(tree.malformed(&file, "none of the CPUs that it lists has a directory beside it"));
    }
    let offline = present.difference(&online);
    Ok((online, offline))
}

/// Returns CPUs that are online although `online` may not list them: lxcfs writes the numbers from 0 to the container's
/// number of CPUs there. The effective CPUs of cpusets are online. If none of the CPUs of our affinity is listed, all of them
/// count as online: we run on one of them.
fn proven(tree: &SysTree, listed: &CpuSet, present: &CpuSet) -> CpuSet {
    let folders = cgroup::folders(tree, "cpuset");
    let effective: Vec<CpuSet> =
        folders.iter().filter_map(|folder| cgroup::effective_cpuset(tree, folder)).collect();
    let own = allowed::affinity_list(tree).ok().flatten().filter(|own| !own.intersects(listed));
    let proven = CpuSet::union_of(effective.iter().chain(&own)).difference(listed);
    if proven.intersects(present) || proven.len() > MAX_CPUS { proven.intersection(present) } else { proven }
}

/// Reads all groups of one kind. CPUs of a group already read are skipped, so a machine with two packages
/// costs two files, however many CPUs it has.
fn groups(tree: &SysTree, kind: &GroupFiles, online: &CpuSet) -> Result<Vec<Group>, Error> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut name = None;
    for cpu in online.iter() {
        if seen.contains(&cpu) {
            continue;
        }
        let Some(cpus) = siblings(tree, kind, cpu, &mut name)? else { continue };
        let cpus = cpus.intersection(online);
        if cpus.first() == Some(cpu) {
            seen.extend(cpus.iter());
            let id = tree.number(&format!("{CPU}/cpu{cpu}/topology/{}", kind.id));
            found.push(Group { id, cpus });
        }
    }
    Ok(found)
}

/// Reads the sibling file of one CPU. `name` caches the file name that this kernel uses.
fn siblings(
    tree: &SysTree,
    kind: &GroupFiles,
    cpu: CpuId,
    name: &mut Option<&'static str>,
) -> Result<Option<CpuSet>, Error> {
    for &candidate in name.iter().chain(kind.siblings) {
        let path = format!("{CPU}/cpu{cpu}/topology/{candidate}");
        let cpus = if candidate.ends_with("_list") { tree.cpu_list(&path)? } else { tree.cpu_mask(&path)? };
        if cpus.is_some() {
            *name = Some(candidate);
            return Ok(cpus);
        }
    }
    Ok(None)
}

/// Splits compute units into cores. For AMD families 15h and 16h the kernel reports the two cores of a
/// compute unit as thread siblings, but with different core numbers; SMT siblings have the same one.
fn split_compute_units(tree: &SysTree, units: &[Group]) -> Vec<Group> {
    let core_id = |cpu: CpuId| tree.number::<i64>(&format!("{CPU}/cpu{cpu}/topology/core_id"));
    let mut cores = Vec::new();
    for unit in units {
        let mut members: Vec<Group> = Vec::new();
        for cpu in unit.cpus.iter() {
            let id = core_id(cpu);
            match members.iter_mut().find(|core| core.id.is_some() && core.id == id) {
                Some(core) => core.cpus.insert(cpu),
                None => members.push(Group { id, cpus: CpuSet::single(cpu) }),
            }
        }
        cores.append(&mut members);
    }
    cores.sort_by_key(|core| core.cpus.first());
    cores
}

/// Returns the dies, or the packages if the dies carry no information: architectures without dies report
/// every CPU or core as a die, so dies count only if one has more than one CPU.
fn useful_dies(dies: Vec<Group>, packages: &[Group]) -> Vec<Group> {
    let are_reported = dies.iter().any(|die| die.cpus.len() > 1);
    if are_reported { dies } else { packages.to_vec() }
}

/// Returns the clusters, or nothing if they carry no information. x86 kernels report the CPUs of an L2 as a
/// cluster, and kernels without clusters report each CPU as one. So clusters count only if one has several
/// cores and is smaller than its package.
fn useful_clusters(clusters: Vec<Group>, cores: &[Group], packages: &[Group]) -> Vec<Group> {
    let cores: HashSet<&CpuSet> = cores.iter().map(|core| &core.cpus).collect();
    let packages: HashSet<&CpuSet> = packages.iter().map(|package| &package.cpus).collect();
    let are_reported = clusters.iter().any(|cluster| {
        cluster.cpus.len() > 1 && !cores.contains(&cluster.cpus) && !packages.contains(&cluster.cpus)
    });
    if are_reported { clusters } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: i64, cpus: &str) -> Group {
        Group { id: Some(id), cpus: cpus.parse().unwrap() }
    }

    fn tree(files: &[(&str, &str)]) -> SysTree {
        let mut capture = crate::capture::Capture::default();
        for (path, text) in files {
            capture.add_file(&format!("{CPU}/{path}"), text);
        }
        SysTree::from_capture(capture)
    }

    #[test]
    fn old_names_masks_and_missing_online_are_understood() {
        let tree = tree(&[
            ("cpu0/topology/thread_siblings", "00000000,00000101"),
            ("cpu0/topology/core_siblings", "00000101"),
            ("cpu8/topology/thread_siblings", "101"),
            ("cpu8/online", "1"),
            ("cpu9/online", "0"),
            ("cpu9/topology/thread_siblings", "200"),
        ]);
        let cpus = read(&tree, &CpuInfo::default()).unwrap();
        assert_eq!((cpus.online.to_string(), cpus.offline.to_string()), ("0,8".into(), "9".into()));
        assert_eq!(cpus.cores, [Group { id: None, cpus: "0,8".parse().unwrap() }]);
        assert_eq!(cpus.packages, cpus.dies);
    }

    #[test]
    fn a_huge_list_is_cut_to_the_cpus_that_exist() {
        let tree = tree(&[
            ("online", "0-4294967294"),
            ("cpu0/topology/core_cpus_list", "0-4294967294"),
            ("cpu7/topology/core_cpus_list", "0-4294967294"),
        ]);
        let cpus = read(&tree, &CpuInfo::default()).unwrap();
        assert_eq!(cpus.cores, [Group { id: None, cpus: "0,7".parse().unwrap() }]);
    }

    /// Regression test: lxcfs writes the numbers from 0 into `online`, and the only CPU of the container was not used.
    #[test]
    fn cpus_of_the_effective_cpuset_and_of_the_affinity_are_online() {
        let read_with = |cpuset: Option<&str>, affinity: &str, folders: &[&str]| {
            let mut capture = crate::capture::Capture::default();
            capture.add_file(&format!("{CPU}/online"), "0");
            capture.add_file("proc/self/status", &format!("Cpus_allowed_list:\t{affinity}"));
            for cpu in folders {
                capture.add_file(&format!("{CPU}/{cpu}/topology/core_id"), "0");
            }
            if let Some(effective) = cpuset {
                capture.add_file("proc/self/cgroup", "0::/lx");
                capture
                    .add_file("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
                capture.add_file("sys/fs/cgroup/lx/cpuset.cpus.effective", effective);
            }
            let tree = SysTree::from_capture(capture);
            let cpus = read(&tree, &CpuInfo::default()).unwrap();
            (cpus.online.to_string(), allowed::read(&tree, &cpus.online).unwrap().cpus.to_string())
        };
        let both = ["cpu0", "cpu1"];
        let found = |online: &str, allowed: &str| (online.to_owned(), allowed.to_owned());
        assert_eq!(read_with(None, "1", &both), found("0-1", "1"));
        assert_eq!(read_with(Some("1"), "1", &both), found("0-1", "1"));
        assert_eq!(read_with(Some("0-1"), "0-3", &both), found("0-1", "0-1"));
        // A CPU of an affinity may be offline; at least one is not.
        assert_eq!(read_with(None, "0-1", &both), found("0", "0"));
        // Its directories have the numbers of the container as well.
        assert_eq!(read_with(Some("5"), "5", &["cpu0"]), found("0,5", "5"));
        // A damaged file.
        assert_eq!(read_with(Some("1-4294967294"), "1", &both), found("0-1", "1"));
    }

    #[test]
    fn malformed_lists_name_their_file() {
        for (file, text, problem) in [
            ("online", "3-1", "range 3-1 ends before it begins; write 1-3"),
            ("online", "0-99999999999", "the number 99999999999 is too large"),
            ("cpu0/topology/core_cpus_list", "a", "'a' is not a number or range; write a list such as 0-3,8"),
            ("online", "5", "none of the CPUs that it lists has a directory beside it"),
        ] {
            let error = read(&tree(&[(file, text), ("cpu0/topology/core_id", "0")]), &CpuInfo::default())
                .unwrap_err();
            assert_eq!(error.to_string(), format!("manycore/capture/1: {CPU}/{file}: {problem}"));
        }
    }

    #[test]
    fn compute_units_are_cores_of_one_cpu_each() {
        let tree = tree(&[
            ("cpu0/topology/core_id", "0"),
            ("cpu1/topology/core_id", "1"),
            ("cpu2/topology/core_id", "1"),
        ]);
        assert_eq!(split_compute_units(&tree, &[group(0, "0-2")]), [group(0, "0"), group(1, "1-2")]);
    }

    #[test]
    fn clusters_without_information_are_dropped() {
        let (cores, packages) = ([group(0, "0-1"), group(1, "2-3")], [group(0, "0-3")]);
        assert!(useful_clusters(cores.to_vec(), &cores, &packages).is_empty());
        assert!(useful_clusters(packages.to_vec(), &cores, &packages).is_empty());
        let mixed = vec![group(0, "0-1"), group(1, "2-5")];
        assert_eq!(useful_clusters(mixed.clone(), &cores, &packages), mixed);
    }
}
