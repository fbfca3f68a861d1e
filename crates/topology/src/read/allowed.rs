//! Reads the CPUs and the CPU time that this process may use: its affinity mask, and the cpusets and CPU
//! quotas of its control groups and all their ancestors. Finds the limit that is effective.

use crate::{
    CpuSet,
    machine::{AFFINITY, Allowed, Limit},
};
use crate::{
    cgroup::{self, GroupFolder, HierarchyKind},
    read::ReadError,
    sys_tree::SysTree,
};

/// Reads all limits. A tree without processes has no limits.
///
/// # Errors
/// A CPU list of a control group or of the process is malformed.
pub fn read(tree: &SysTree, online: &CpuSet) -> Result<Allowed, ReadError> {
    let mut limits = Vec::new();
    for folder in cgroup::folders(tree, "cpuset") {
        limits.extend(cpuset(tree, &folder)?);
    }
    limits.extend(affinity(tree)?);
    limits.extend(cgroup::folders(tree, "cpu").iter().filter_map(|folder| quota(tree, folder)));
    Ok(judge(online, limits))
}

/// Reads the CPUs of a control group. The effective list takes ancestors and offline CPUs into account. A
/// group of version 2 without its own CPUs inherits them; its file is empty and sets no limit.
///
/// # Errors
/// The list is malformed.
pub fn cpuset(tree: &SysTree, folder: &GroupFolder) -> Result<Option<Limit>, ReadError> {
    let names: &[&str] = match folder.flavour {
        HierarchyKind::Unified => &["cpuset.cpus.effective", "cpuset.cpus"],
        HierarchyKind::Named => &["cpuset.effective_cpus", "cpuset.cpus"],
        HierarchyKind::Bare => &["effective_cpus", "cpus"],
    };
    for name in names {
        let path = format!("{}/{name}", folder.path);
        if let Some(cpus) = tree.cpu_list(&path)?.filter(|cpus| !cpus.is_empty()) {
            return Ok(Some(Limit { source: format!("/{path}"), cpus: Some(cpus), quota_cpus: None }));
        }
    }
    Ok(None)
}

/// Reads the affinity (`sched_getaffinity(2)`) from `/proc/self/status`.
fn affinity(tree: &SysTree) -> Result<Option<Limit>, ReadError> {
    const STATUS: &str = "proc/self/status";
    const KEY: &str = "Cpus_allowed_list:";
    let line = tree.read_part(STATUS, 64 << 10, |text| {
        text.lines().find(|line| line.starts_with(KEY)).unwrap_or_default().to_owned()
    });
    let Some(list) = line.as_deref().and_then(|line| line.strip_prefix(KEY)) else { return Ok(None) };
    let cpus = list.parse().map_err(|error| tree.malformed(STATUS, &format!("{KEY} {error}")))?;
    Ok(Some(Limit { source: AFFINITY.to_owned(), cpus: Some(cpus), quota_cpus: None }))
}

/// Reads the CPU quota of a control group, in CPUs.
pub fn quota(tree: &SysTree, folder: &GroupFolder) -> Option<Limit> {
    let file = |name: &str| tree.read(&format!("{}/{name}", folder.path));
    let (name, text) = if folder.flavour == HierarchyKind::Unified {
        ("cpu.max", file("cpu.max")?)
    } else {
        ("cpu.cfs_quota_us", format!("{} {}", file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?))
    };
    let quota_cpus = Some(quota_of(&text)?);
    Some(Limit { source: format!("/{}/{name}", folder.path), cpus: None, quota_cpus })
}

/// Converts quota and period in microseconds to a number of CPUs; `max` and -1 mean no quota.
fn quota_of(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period) = (quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Intersects the limits and finds the effective one: the smallest quota if it allows less than the sets
/// do, otherwise the first set that is equal to the intersection. Sets that contain every CPU are dropped.
fn judge(online: &CpuSet, mut limits: Vec<Limit>) -> Allowed {
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
    let binding = match tightest {
        Some((quota, limit)) if quota < cpus.len() as f64 => {
            format!("quota of {quota} CPUs in {}", limit.source)
        }
        _ if cpus == *online => "nothing".to_owned(),
        _ => match limits.iter().find(|limit| limit.cpus.as_ref() == Some(&cpus)) {
            Some(limit) => format!("{} leaves {}", limit.source, cpus.brief()),
            None => format!("cpusets and affinity mask together leave {}", cpus.brief()),
        },
    };
    Allowed { cpus, quota_cpus: tightest.map(|(quota, _)| quota), effective_limit: binding, limits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(source: &str, cpus: &str) -> Limit {
        Limit { source: source.into(), cpus: Some(cpus.parse().unwrap()), quota_cpus: None }
    }

    fn time(source: &str, quota: f64) -> Limit {
        Limit { source: source.into(), cpus: None, quota_cpus: Some(quota) }
    }

    #[test]
    fn the_tightest_limit_binds() {
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
            let allowed = judge(&online, limits.clone());
            assert_eq!(
                (allowed.cpus.to_string().as_str(), allowed.effective_limit.as_str()),
                (cpus, binding),
                "{limits:?}"
            );
        }
    }

    #[test]
    fn quotas_are_in_cpus() {
        for (text, cpus) in [
            ("250000 100000", Some(2.5)),
            ("max 100000", None),
            ("-1 100000", None),
            ("1 0", None),
            ("", None),
        ] {
            assert_eq!(quota_of(text), cpus, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_quota_is_read_or_refused(text in "[-0-9a-z ]{0,40}") {
            prop_assert!(quota_of(&text).is_none_or(|cpus| cpus > 0.0));
        }
    }
}
