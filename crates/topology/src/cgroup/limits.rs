//! Reads the CPUs and the CPU time that a control group may use.

use crate::{
    CpuSet, Error,
    cgroup::{GroupFolder, HierarchyKind},
    machine::Limit,
    sys_tree::SysTree,
};

/// Reads the CPUs of a control group. The effective list takes ancestors and offline CPUs into account. A
/// group of version 2 without its own CPUs inherits them; its file is empty and sets no limit.
///
/// # Errors
/// The list is malformed.
pub fn cpuset(tree: &SysTree, folder: &GroupFolder) -> Result<Option<Limit>, Error> {
    let (effective, own) = cpuset_files(folder);
    for path in [effective, own] {
        if let Some(cpus) = tree.cpu_list(&path)?.filter(|cpus| !cpus.is_empty()) {
            return Ok(Some(Limit { source: format!("/{path}"), cpus: Some(cpus), quota_cpus: None }));
        }
    }
    Ok(None)
}

/// Reads the effective CPUs of a control group. The kernel removes CPUs that go offline from this list.
pub(crate) fn effective_cpuset(tree: &SysTree, folder: &GroupFolder) -> Option<CpuSet> {
    tree.cpu_list(&cpuset_files(folder).0).ok()?
}

/// Returns the files with the effective CPUs of a group and with its own.
fn cpuset_files(folder: &GroupFolder) -> (String, String) {
    let (effective, own) = match folder.flavour {
        HierarchyKind::Unified => ("cpuset.cpus.effective", "cpuset.cpus"),
        HierarchyKind::Named => ("cpuset.effective_cpus", "cpuset.cpus"),
        HierarchyKind::Bare => ("effective_cpus", "cpus"),
    };
    (format!("{}/{effective}", folder.path), format!("{}/{own}", folder.path))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
