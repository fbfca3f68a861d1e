//! Writes the limits of a control group, in the files of both versions.

use manycore_topology::{CpuSet, cgroup::HierarchyKind};
use std::{fs, io, ops::RangeInclusive, path::Path};

/// Period of the CPU limit in microseconds: the kernel's default, and that of containers.
const PERIOD_US: u64 = 100_000;

/// The smallest CPU limit that the kernel takes: 1 ms of each period.
pub const MIN_CPUS: f64 = 0.01;

/// The largest CPU limit that is taken.
pub const MAX_CPUS: f64 = 100_000.0;

/// The smallest and the largest weight that the kernel takes.
pub const WEIGHTS: RangeInclusive<u32> = 1..=10_000;

/// What `cpu.shares` of version 1 is for the weight 100.
const SHARES_OF_100: u32 = 1024;

/// Limits of a control group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupLimits {
    /// CPU time per time: 0.5 is half of a CPU, 2 is two CPUs.
    pub cpus: Option<f64>,
    /// Memory in bytes. Swap counts.
    pub memory: Option<u64>,
    /// Share of the CPU time beside other groups, from 1 to 10,000; 100 is that of a group without one.
    pub weight: Option<u32>,
    /// The CPUs; empty for those of the parent group.
    pub places: CpuSet,
}

/// Returns the CPU time that is allowed in a period, and the period, in microseconds (`cpu.max`).
pub(crate) fn quota(cpus: f64) -> (u64, u64) {
    ((cpus.clamp(MIN_CPUS, MAX_CPUS) * PERIOD_US as f64).round() as u64, PERIOD_US)
}

/// Sets the limit for CPU time.
///
/// # Errors
/// Errors of writing; `EINVAL` in version 1 if the parent group allows less.
pub(crate) fn limit_cpus(group: &Path, flavour: HierarchyKind, cpus: f64) -> io::Result<()> {
    let (quota, period) = quota(cpus);
    match flavour {
        HierarchyKind::Unified => fs::write(group.join("cpu.max"), format!("{quota} {period}")),
        HierarchyKind::Named | HierarchyKind::Bare => {
            fs::write(group.join("cpu.cfs_period_us"), period.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())
        }
    }
}

/// Returns `cpu.shares` of version 1 for a weight.
pub fn cpu_shares(weight: u32) -> u32 {
    weight.saturating_mul(SHARES_OF_100) / 100
}

/// Sets the share of the CPU time.
///
/// # Errors
/// Errors of writing.
pub(crate) fn set_weight(group: &Path, flavour: HierarchyKind, weight: u32) -> io::Result<()> {
    match flavour {
        HierarchyKind::Unified => fs::write(group.join("cpu.weight"), weight.to_string()),
        HierarchyKind::Named | HierarchyKind::Bare => {
            fs::write(group.join("cpu.shares"), cpu_shares(weight).to_string())
        }
    }
}

/// Sets the limit for memory, and for memory and swap together.
///
/// # Errors
/// Errors of writing.
pub(crate) fn limit_memory(group: &Path, flavour: HierarchyKind, bytes: u64) -> io::Result<()> {
    let write = |file: &str, value: &str| fs::write(group.join(file), value);
    match flavour {
        HierarchyKind::Unified => {
            write("memory.max", &bytes.to_string())?;
            // Absent without swap.
            let _ = write("memory.swap.max", "0");
        }
        HierarchyKind::Named | HierarchyKind::Bare => {
            write("memory.limit_in_bytes", &bytes.to_string())?;
            // Absent if the kernel does not charge swap to groups.
            let _ = write("memory.memsw.limit_in_bytes", &bytes.to_string());
        }
    }
    Ok(())
}

/// Sets the CPUs; those of the parent if `cpus` is empty. Memory nodes stay those of the parent. Version 1 does not inherit
/// either.
///
/// # Errors
/// Errors of writing; `EINVAL` if the parent has none of the CPUs.
pub(crate) fn limit_places(group: &Path, flavour: HierarchyKind, cpus: &CpuSet) -> io::Result<()> {
    let above = group.parent().unwrap_or(group);
    if flavour != HierarchyKind::Unified {
        fs::write(group.join("cpuset.mems"), fs::read(above.join("cpuset.mems"))?)?;
        if cpus.is_empty() {
            return fs::write(group.join("cpuset.cpus"), fs::read(above.join("cpuset.cpus"))?);
        }
    }
    fs::write(group.join("cpuset.cpus"), cpus.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_limits_are_microseconds_of_a_period() {
        assert_eq!(quota(0.2), (20_000, 100_000));
        assert_eq!(quota(2.5), (250_000, 100_000));
        assert_eq!(quota(0.0), (1000, 100_000));
        assert_eq!(quota(f64::INFINITY), (10_000_000_000, 100_000));
    }

    #[test]
    fn limits_are_written_in_the_files_of_each_version() {
        let folder = tempfile::tempdir().unwrap();
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
        limit_cpus(folder.path(), HierarchyKind::Unified, 0.5).unwrap();
        limit_memory(folder.path(), HierarchyKind::Unified, 4096).unwrap();
        assert_eq!(
            (read("cpu.max"), read("memory.max"), read("memory.swap.max")),
            ("50000 100000".into(), "4096".into(), "0".into())
        );
        set_weight(folder.path(), HierarchyKind::Unified, 400).unwrap();
        assert_eq!(read("cpu.weight"), "400");
        let shares = |weight| {
            set_weight(folder.path(), HierarchyKind::Named, weight).unwrap();
            read("cpu.shares")
        };
        assert_eq!([shares(100), shares(10_000), shares(*WEIGHTS.start())], ["1024", "102400", "10"]);
        limit_cpus(folder.path(), HierarchyKind::Named, 0.5).unwrap();
        limit_memory(folder.path(), HierarchyKind::Named, 4096).unwrap();
        assert_eq!((read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")), ("50000".into(), "100000".into()));
        assert_eq!(read("memory.limit_in_bytes"), "4096");
    }
}
