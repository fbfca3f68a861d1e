//! Reads the CPUs and the CPU time that this process may use: its affinity mask, and the cpusets and CPU
//! quotas of its control groups and all their ancestors. Finds the limit that is effective.

use crate::{
    CpuSet, Error,
    cgroup::{self, GroupFolder},
    machine::{AFFINITY, Allowed, Limit},
    sys_tree::SysTree,
};

/// Reads all limits. A tree without processes has no limits.
///
/// # Errors
/// A CPU list of a control group or of the process is malformed.
pub fn read(tree: &SysTree, online: &CpuSet) -> Result<Allowed, Error> {
    let mut limits = Vec::new();
    let folders = cgroup::folders(tree, "cpuset");
    for ancestry in folders.chunk_by(|a, b| a.flavour == b.flavour && b.path.starts_with(&a.path)) {
        limits.extend(cpusets(tree, ancestry)?);
    }
    let own = affinity_list(tree)?;
    limits.extend(own.map(|own| Limit { source: AFFINITY.to_owned(), cpus: Some(own), quota_cpus: None }));
    limits.extend(cgroup::folders(tree, "cpu").iter().filter_map(|folder| cgroup::quota(tree, folder)));
    Ok(effective(online, limits))
}

/// Reads the cpusets of a group and of its ancestors, outermost first. What an ancestor has given to a partition is no longer
/// among its effective CPUs: for a group in that partition these are no limit.
fn cpusets(tree: &SysTree, ancestry: &[GroupFolder]) -> Result<Vec<Limit>, Error> {
    let mut limits = Vec::new();
    for folder in ancestry {
        limits.extend(cgroup::cpuset(tree, folder)?);
    }
    if let Some(own) = limits.last().and_then(|limit| limit.cpus.clone()) {
        limits.retain(|limit| limit.cpus.as_ref().is_some_and(|cpus| own.is_subset(cpus)));
    }
    Ok(limits)
}

/// Reads the affinity (`sched_getaffinity(2)`) from `/proc/self/status`. It may have CPUs that are offline.
pub(super) fn affinity_list(tree: &SysTree) -> Result<Option<CpuSet>, Error> {
    const STATUS: &str = "proc/self/status";
    const KEY: &str = "Cpus_allowed_list:";
    let line = tree.read_part(STATUS, 64 << 10, |text| {
        text.lines().find(|line| line.starts_with(KEY)).unwrap_or_default().to_owned()
    });
    let Some(list) = line.as_deref().and_then(|line| line.strip_prefix(KEY)) else { return Ok(None) };
    list.parse().map(Some).map_err(|error| tree.malformed(STATUS, &format!("{KEY} {error}")))
}

/// Intersects the limits and finds the effective one: the smallest quota if it allows less than the sets
/// do, otherwise the first set that is equal to the intersection. Sets that contain every CPU are dropped.
fn effective(online: &CpuSet, mut limits: Vec<Limit>) -> Allowed {
    // In words, since the CPUs of such a limit are removed below.
    let all_offline = limits.iter().find_map(|limit| {
        let cpus = limit.cpus.as_ref().filter(|cpus| !cpus.intersects(online))?;
        Some(format!("{} leaves none of the online CPUs: it has {}", limit.source, cpus.brief()))
    });
    for limit in &mut limits {
        limit.cpus = limit.cpus.take().map(|cpus| cpus.intersection(online));
    }
    limits
        .retain(|limit| limit.quota_cpus.is_some() || limit.cpus.as_ref().is_some_and(|cpus| cpus != online));
    let cpus = limits
        .iter()
        .filter_map(|limit| limit.cpus.as_ref())
        .fold(online.clone(), |all, set| all.intersection(set));
    let tightest =
        limits.iter().filter_map(|limit| Some((limit.quota_cpus?, limit))).min_by(|a, b| a.0.total_cmp(&b.0));
    let effective_limit = match tightest {
        _ if cpus.is_empty() && all_offline.is_some() => all_offline.unwrap_or_default(),
        Some((quota, limit)) if quota < cpus.len() as f64 => {
            format!("quota of {quota} CPUs in {}", limit.source)
        }
        _ if cpus == *online => "nothing".to_owned(),
        _ => match limits.iter().find(|limit| limit.cpus.as_ref() == Some(&cpus)) {
            Some(limit) => format!("{} leaves {}", limit.source, cpus.brief()),
            None => format!("cpusets and affinity mask together leave {}", cpus.brief()),
        },
    };
    Allowed { cpus, quota_cpus: tightest.map(|(quota, _)| quota), effective_limit, limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(source: &str, cpus: &str) -> Limit {
        Limit { source: source.into(), cpus: Some(cpus.parse().unwrap()), quota_cpus: None }
    }

    fn time(source: &str, quota: f64) -> Limit {
        Limit { source: source.into(), cpus: None, quota_cpus: Some(quota) }
    }

    /// Regression test: an empty set was taken as no limit, and CPU 0 was planned.
    #[test]
    fn a_limit_without_online_cpus_leaves_none() {
        let allowed = effective(&"0".parse().unwrap(), vec![set(AFFINITY, "1")]);
        assert!(allowed.cpus.is_empty());
        assert_eq!(allowed.effective_limit, "affinity mask leaves none of the online CPUs: it has 1");
        let machine = crate::Machine { online: "0".parse().unwrap(), allowed, ..crate::Machine::default() };
        assert!(machine.usable().is_empty());
        let unknown = crate::Machine { online: "0".parse().unwrap(), ..crate::Machine::default() };
        assert_eq!(unknown.usable().to_string(), "0");
    }

    #[test]
    fn what_a_group_gives_to_a_partition_is_no_limit_for_it() {
        let mut capture = crate::capture::Capture::default();
        capture.add_file("proc/self/cgroup", "0::/slice/job");
        capture.add_file("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
        for (group, cpus) in [("", "0-3"), ("/slice", "0-3"), ("/slice/job", "4-7")] {
            capture.add_file(&format!("sys/fs/cgroup{group}/cpuset.cpus.effective"), cpus);
        }
        let tree = SysTree::from_capture(capture);
        assert_eq!(read(&tree, &"0-7".parse().unwrap()).unwrap().cpus.to_string(), "4-7");
    }

    #[test]
    fn the_tightest_limit_is_effective() {
        let online: CpuSet = "0-7".parse().unwrap();
        for (limits, cpus, binding) in [
            (vec![], "0-7", "nothing"),
            (vec![set("/cg", "0-7")], "0-7", "nothing"),
            (vec![set("/cg", "0-31"), set("affinity mask", "0-15")], "0-7", "nothing"),
            (vec![set("/cg/a", "0-3"), set("affinity mask", "0-3")], "0-3", "/cg/a leaves 0-3"),
            (vec![set("/cg/a", "0-3"), set("affinity mask", "0-1")], "0-1", "affinity mask leaves 0-1"),
            (
                vec![set("/cg/a", "0-3"), set("affinity mask", "2-5")],
                "2-3",
                "cpusets and affinity mask together leave 2-3",
            ),
            (vec![set("/cg/a", "0-3"), time("/q", 2.5), time("/p", 3.0)], "0-3", "quota of 2.5 CPUs in /q"),
            (vec![set("/cg/a", "0-1"), time("/q", 2.5)], "0-1", "/cg/a leaves 0-1"),
            (vec![time("/q", 8.0)], "0-7", "nothing"),
        ] {
            let allowed = effective(&online, limits.clone());
            assert_eq!(
                (allowed.cpus.to_string().as_str(), allowed.effective_limit.as_str()),
                (cpus, binding),
                "{limits:?}"
            );
        }
    }
}
