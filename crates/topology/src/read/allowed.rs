//! Reads the CPUs and the CPU time that this process may use: its affinity mask, and the cpusets and CPU
//! quotas of its control groups and all their ancestors. Finds the limit that is effective.

use crate::{
    CpuSet, Error, cgroup,
    machine::{AFFINITY, Allowed, Limit},
    sys_tree::SysTree,
};

/// Reads all limits. A tree without processes has no limits.
///
/// # Errors
/// A CPU list of a control group or of the process is malformed.
pub fn read(tree: &SysTree, online: &CpuSet) -> Result<Allowed, Error> {
    let mut limits = Vec::new();
    for folder in cgroup::folders(tree, "cpuset") {
        limits.extend(cgroup::cpuset(tree, &folder)?);
    }
    limits.extend(affinity(tree)?);
    limits.extend(cgroup::folders(tree, "cpu").iter().filter_map(|folder| cgroup::quota(tree, folder)));
    Ok(effective(online, limits))
}

/// Reads the affinity (`sched_getaffinity(2)`) from `/proc/self/status`.
fn affinity(tree: &SysTree) -> Result<Option<Limit>, Error> {
    const STATUS: &str = "proc/self/status";
    const KEY: &str = "Cpus_allowed_list:";
    let line = tree.read_part(STATUS, 64 << 10, |text| {
        text.lines().find(|line| line.starts_with(KEY)).unwrap_or_default().to_owned()
    });
    let Some(list) = line.as_deref().and_then(|line| line.strip_prefix(KEY)) else { return Ok(None) };
    let cpus = list.parse().map_err(|error| tree.malformed(STATUS, &format!("{KEY} {error}")))?;
    Ok(Some(Limit { source: AFFINITY.to_owned(), cpus: Some(cpus), quota_cpus: None }))
}

/// Intersects the limits and finds the effective one: the smallest quota if it allows less than the sets
/// do, otherwise the first set that is equal to the intersection. Sets that contain every CPU are dropped.
fn effective(online: &CpuSet, mut limits: Vec<Limit>) -> Allowed {
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
