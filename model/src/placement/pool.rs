//! The CPUs that a policy may choose from.

use super::{
    Level, Policy, PolicyKind, Reserve, Unmet, order,
    tree::{Rank, Tree},
    why,
};
use crate::{CpuSet, Machine, names::similar, outline::Part};
use std::collections::BTreeMap;

/// CPUs that are online, allowed, not isolated (unless named) and not kept back.
pub(super) fn usable(machine: &Machine, policy: &Policy, reserve: &Reserve) -> Result<CpuSet, Unmet> {
    let allowed = &machine.allowed.cpus;
    let may = permitted(machine);
    if may.len() > super::MOST_CPUS {
        return Err(Unmet::TooManyCpus(may.len()));
    }
    let wanted = policy.named();
    // Isolated CPUs that are named join the pool; the others are neither used nor counted.
    let free = may.difference(&machine.isolated.difference(&wanted));
    if free.is_empty() {
        return Err(Unmet::NoCpus {
            online: machine.online.brief(),
            allowed: if allowed.is_empty() { "all".to_owned() } else { allowed.brief() },
            isolated: if machine.isolated.is_empty() { "none".to_owned() } else { machine.isolated.brief() },
        });
    }
    let kept = reserve.cpus(machine, &free, &wanted);
    let left = free.difference(&kept);
    if left.is_empty() {
        let reserved = if let Reserve::Count(count) = reserve { *count } else { kept.len() };
        return Err(Unmet::Reserved { reserved, usable: free.len(), most: free.len() - 1 });
    }
    match &policy.kind {
        PolicyKind::Cpus(list) if !wanted.is_subset(&left) => {
            let asked = list.to_string();
            Err(Unmet::Cpus { asked, why: obstacles(machine, &may, &kept, &wanted), usable: left })
        }
        _ => Ok(left),
    }
}

/// CPUs that are online and allowed; a machine that tells of no limits allows all.
pub(super) fn permitted(machine: &Machine) -> CpuSet {
    machine.online.intersection(&machine.usable())
}

/// What keeps each wanted CPU from being used.
pub(super) fn obstacles(machine: &Machine, may: &CpuSet, kept: &CpuSet, wanted: &CpuSet) -> String {
    let binding = match machine.allowed.binding.as_str() {
        "" => String::new(),
        binding => format!(" ({binding})"),
    };
    let absent = wanted.difference(&machine.online).difference(&machine.offline);
    [
        (absent, "not in this machine".to_owned()),
        (wanted.difference(&machine.online).intersection(&machine.offline), "offline".to_owned()),
        (wanted.intersection(&machine.online).difference(may), format!("not allowed{binding}")),
        (wanted.intersection(kept), "kept back by the reserve".to_owned()),
    ]
    .into_iter()
    .filter(|(cpus, _)| !cpus.is_empty())
    .map(|(cpus, why)| format!("{} {why}", cpus.brief()))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Usable CPUs next to a device.
pub(super) struct Near {
    pub cpus: CpuSet,
    pub why: String,
}

pub(super) fn near(machine: &Machine, name: &str, pool: &CpuSet) -> Result<Near, Unmet> {
    let Some(device) = machine.device(name) else {
        let near = similar(machine.device_names(), name);
        return Err(Unmet::NoDevice { name: name.to_owned(), near });
    };
    let label = if device.address == name { name.to_owned() } else { format!("{name} ({})", device.address) };
    let node = device.node.and_then(|id| machine.nodes.iter().find(|node| node.id == id));
    let local = match node {
        Some(node) if device.cpus.is_empty() => &node.cpus,
        _ => &device.cpus,
    };
    let everywhere = local.is_empty() || machine.online.is_subset(local);
    let why = match device.node {
        None if everywhere => format!("the firmware gives no node for {label}, so all CPUs count as near"),
        Some(node) if everywhere => format!("{label} is on node {node} and near all CPUs"),
        None => format!("near {label}"),
        Some(node) => format!("near {label} on node {node}"),
    };
    let cpus = if everywhere { pool.clone() } else { local.intersection(pool) };
    if cpus.is_empty() {
        let name = name.to_owned();
        return Err(Unmet::DeviceOutOfReach { name, cpus: local.clone(), usable: pool.clone() });
    }
    Ok(Near { cpus, why })
}

/// A group of a level and its usable CPUs.
pub(super) struct LevelGroup {
    pub label: String,
    pub cpus: CpuSet,
}

/// The groups of a level that have usable CPUs; any first few of them are far apart.
pub(super) fn groups(tree: &Tree, level: Level) -> Result<Vec<LevelGroup>, Unmet> {
    let Some(layer) = layer_of(tree, level) else {
        let known = Level::ALL.into_iter().filter(|&other| layer_of(tree, other).is_some());
        let steps = |other: &Level| (level as i32).abs_diff(*other as i32);
        // Outermost first, so that of two levels that are equally near the outer one wins.
        let nearest = known.rev().min_by_key(steps);
        return Err(Unmet::NoLevel { level, nearest });
    };
    let mut index: BTreeMap<Part, usize> = BTreeMap::new();
    let mut cpus: Vec<(Part, Vec<u32>)> = Vec::new();
    for leaf in order::spread(tree) {
        let Some(part) = tree.part(leaf, layer) else { continue };
        let at = *index.entry(part).or_insert(cpus.len());
        match cpus.get_mut(at) {
            Some(group) => group.1.push(tree.leaves[leaf].cpu),
            None => cpus.push((part, vec![tree.leaves[leaf].cpu])),
        }
    }
    let group = |(part, cpus): (Part, Vec<u32>)| LevelGroup {
        label: why::numbered(part, tree.machine).unwrap_or_else(|| part.label(tree.machine)),
        cpus: cpus.into_iter().collect(),
    };
    Ok(cpus.into_iter().map(group).collect())
}

/// The level among the tree's, where any usable CPU is in a group of it.
fn layer_of(tree: &Tree, level: Level) -> Option<usize> {
    let rank = match level {
        Level::Core => Rank::Core,
        Level::Cluster => Rank::Cluster,
        Level::Llc => Rank::Llc,
        Level::Node => Rank::Node,
        Level::Package => Rank::Package,
    };
    let layer = tree.layers.iter().position(|layer| layer.rank == rank)?;
    (0..tree.leaves.len()).any(|leaf| tree.part(leaf, layer).is_some()).then_some(layer)
}
