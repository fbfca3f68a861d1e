//! Finds the kinds of cores on hybrid machines.
//!
//! Intel's kinds have names (`/sys/devices/cpu_core/cpus`, the performance counters of each kind). On Arm
//! each CPU has a capacity (`cpu_capacity`, 1024 for the largest). On other machines only the maximum
//! frequency differs.

use crate::{
    CpuId, CpuSet, Error,
    machine::CoreKind,
    read::cpus::{CPU, Cpus},
    sys_tree::SysTree,
};

/// Ratio of maximum frequencies up to which cores are of one kind. Favoured cores of one kind (Turbo Boost
/// Max 3.0, AMD preferred cores) are up to about ten percent faster; cores of different kinds differ by
/// more.
const SAME_KIND_RATIO: f64 = 1.2;

/// Properties by which kinds of CPUs differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CoreTraits {
    capacity: Option<u32>,
    max_khz: Option<u64>,
}

/// Reads the kinds, fastest first; one kind if all cores are equal.
///
/// # Errors
/// A list of CPUs of a kind is malformed.
pub fn read(tree: &SysTree, cpus: &Cpus) -> Result<Vec<CoreKind>, Error> {
    let traits = traits(tree, cpus);
    let mut sets = intel(tree, &cpus.online)?;
    if sets.len() < 2 {
        sets = classes(&traits, |cpu| cpu.capacity.map(f64::from), 1.0);
    }
    if sets.len() < 2 {
        sets = classes(&traits, |cpu| cpu.max_khz.map(|khz| khz as f64), SAME_KIND_RATIO);
    }
    if sets.len() < 2 {
        sets = vec![cpus.online.clone()];
    }
    Ok(name(sets, &traits))
}

/// Reads the properties of the first CPU of each core. The kernel provides each file for all CPUs or for
/// none.
fn traits(tree: &SysTree, cpus: &Cpus) -> Vec<(CpuSet, CoreTraits)> {
    let cores: Vec<CpuSet> = match cpus.cores.as_slice() {
        [] => cpus.online.iter().map(CpuSet::single).collect(),
        cores => cores.iter().map(|core| core.cpus.clone()).collect(),
    };
    let read = |cpu: CpuId| CoreTraits {
        capacity: tree.number(&format!("{CPU}/cpu{cpu}/cpu_capacity")),
        max_khz: tree.number(&format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq")).filter(|&khz| khz > 0),
    };
    let mut found = Vec::new();
    for core in cores {
        let traits = core.first().map(read).unwrap_or_default();
        let nothing = traits == CoreTraits::default() && found.is_empty();
        found.push((core, traits));
        if nothing {
            break;
        }
    }
    found
}

/// Reads Intel's performance, efficiency and low-power cores, if the kernel reports more than one kind.
fn intel(tree: &SysTree, online: &CpuSet) -> Result<Vec<CpuSet>, Error> {
    let mut sets = Vec::new();
    for unit in ["cpu_core", "cpu_atom", "cpu_lowpower"] {
        let mut cpus = tree.cpu_list(&format!("sys/devices/{unit}/cpus"))?;
        if cpus.is_none() {
            cpus = tree.cpu_list(&format!("sys/bus/event_source/devices/{unit}/cpus"))?;
        }
        sets.extend(cpus.map(|cpus| cpus.intersection(online)).filter(|cpus| !cpus.is_empty()));
    }
    Ok(sets)
}

/// Splits CPUs into classes, largest value first. A class ends where the value is more than a factor
/// `tolerance` below the largest of the class.
fn classes(
    traits: &[(CpuSet, CoreTraits)],
    value: impl Fn(&CoreTraits) -> Option<f64>,
    tolerance: f64,
) -> Vec<CpuSet> {
    let mut valued: Vec<(f64, &CpuSet)> =
        traits.iter().filter_map(|(cpus, traits)| Some((value(traits)?, cpus))).collect();
    if valued.len() < traits.len() {
        return Vec::new();
    }
    valued.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut top = f64::INFINITY;
    let mut sets: Vec<Vec<CpuId>> = Vec::new();
    for (value, cpus) in valued {
        if sets.is_empty() || value * tolerance < top {
            top = value;
            sets.push(Vec::new());
        }
        if let Some(set) = sets.last_mut() {
            set.extend(cpus.iter());
        }
    }
    sets.into_iter().map(CpuSet::from_iter).collect()
}

fn name(sets: Vec<CpuSet>, traits: &[(CpuSet, CoreTraits)]) -> Vec<CoreKind> {
    let count = sets.len();
    let largest = |set: &CpuSet| {
        let members = || traits.iter().filter(|(cpus, _)| cpus.first().is_some_and(|cpu| set.contains(cpu)));
        CoreTraits {
            capacity: members().filter_map(|(_, traits)| traits.capacity).max(),
            max_khz: members().filter_map(|(_, traits)| traits.max_khz).max(),
        }
    };
    let kinds = sets.into_iter().enumerate().map(|(index, cpus)| {
        let name = match (count, index) {
            (1, _) => "all".to_owned(),
            (2, 0) => "performance".to_owned(),
            (2, _) => "efficiency".to_owned(),
            _ => format!("kind {}", index + 1),
        };
        let CoreTraits { capacity, max_khz } = largest(&cpus);
        CoreKind { name, cpus, capacity, max_khz }
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(cpus: &str, capacity: Option<u32>, max_khz: Option<u64>) -> (CpuSet, CoreTraits) {
        (cpus.parse().unwrap(), CoreTraits { capacity, max_khz })
    }

    #[test]
    fn capacities_split_exactly_and_frequencies_loosely() {
        let little_big =
            [traits("0", Some(160), None), traits("1", Some(160), None), traits("2", Some(1024), None)];
        let sets = classes(&little_big, |cpu| cpu.capacity.map(f64::from), 1.0);
        let kinds = name(sets, &little_big);
        let seen: Vec<_> =
            kinds.iter().map(|kind| (kind.name.as_str(), kind.cpus.to_string(), kind.capacity)).collect();
        assert_eq!(seen, [("performance", "2".into(), Some(1024)), ("efficiency", "0-1".into(), Some(160))]);

        let favoured = [traits("0-1", None, Some(5_200_000)), traits("2-3", None, Some(4_900_000))];
        assert_eq!(classes(&favoured, |cpu| cpu.max_khz.map(|khz| khz as f64), SAME_KIND_RATIO).len(), 1);
        let hybrid = [traits("0-1", None, Some(5_200_000)), traits("2", None, Some(3_800_000))];
        assert_eq!(classes(&hybrid, |cpu| cpu.max_khz.map(|khz| khz as f64), SAME_KIND_RATIO).len(), 2);
    }

    #[test]
    fn a_missing_value_splits_nothing() {
        let some = [traits("0", Some(1024), None), traits("1", None, None)];
        assert!(classes(&some, |cpu| cpu.capacity.map(f64::from), 1.0).is_empty());
    }
}
