//! The CPUs that a policy may use.

use crate::{
    Level, PlacementError, Policy, PolicyKind, Reserve,
    cpu_tree::{CpuTree, Rank},
    order, reasons,
};
use manycore_text::names::similar;
use manycore_topology::{CpuId, CpuSet, Machine, topology_tree::Part};
use std::collections::BTreeMap;

/// Returns the CPUs that are online, allowed, not isolated (unless the policy uses isolated CPUs) and not
/// reserved.
pub(super) fn usable(
    machine: &Machine,
    policy: &Policy,
    reserve: &Reserve,
) -> Result<CpuSet, PlacementError> {
    let may = allowed_cpus(machine, policy);
    if may.len() > crate::MAX_CPUS {
        return Err(PlacementError::TooManyCpus(may.len()));
    }
    let wanted = policy.named();
    // Isolated CPUs that the policy uses are part of the pool; the other isolated CPUs are neither used nor
    // counted.
    let meant = policy.isolated(machine);
    if policy.isolated
        && matches!(policy.kind, PolicyKind::Free | PolicyKind::SpreadAt(_))
        && may.intersects(&meant)
    {
        return Err(PlacementError::SeveralIsolatedCpus {
            requested: policy.to_string(),
            isolated: machine.isolated.clone(),
        });
    }
    let free = may.difference(&machine.isolated.difference(&meant));
    if free.is_empty() {
        return Err(PlacementError::NoCpus {
            online: machine.online.brief(),
            allowed: match machine.usable() {
                usable if usable == machine.online => "all".to_owned(),
                usable if usable.is_empty() => "none".to_owned(),
                usable => usable.brief(),
            },
            isolated: if machine.isolated.is_empty() { "none".to_owned() } else { machine.isolated.brief() },
        });
    }
    let kept = reserve.cpus(machine, &free, &wanted);
    let left = free.difference(&kept);
    if left.is_empty() {
        let reserved = if let Reserve::Count(count) = reserve { *count } else { kept.len() };
        return Err(PlacementError::ReserveTooLarge { reserved, usable: free.len(), most: free.len() - 1 });
    }
    match &policy.kind {
        PolicyKind::Cpus(list) if !wanted.is_subset(&left) => {
            let requested = list.to_string();
            Err(PlacementError::Cpus {
                requested,
                why: unusable_reasons(machine, &may, &kept, &wanted),
                usable: left,
            })
        }
        _ => Ok(left),
    }
}

/// Returns the CPUs that are online and allowed, and the isolated CPUs that the policy uses and no control
/// group forbids. A machine that was read from files allows all CPUs.
pub(super) fn allowed_cpus(machine: &Machine, policy: &Policy) -> CpuSet {
    let meant = policy.isolated(machine).intersection(&machine.pinnable_cpus());
    machine.online.intersection(&machine.usable().union(&meant))
}

/// Returns why each wanted CPU cannot be used.
pub(super) fn unusable_reasons(machine: &Machine, may: &CpuSet, kept: &CpuSet, wanted: &CpuSet) -> String {
    let binding = match machine.allowed.effective_limit.as_str() {
        "" => String::new(),
        binding => format!(" ({binding})"),
    };
    let absent = wanted.difference(&machine.online).difference(&machine.offline);
    let (denied, isolated) = (wanted.intersection(&machine.online).difference(may), &machine.isolated);
    [
        (absent, "not present on this machine".to_owned()),
        (wanted.difference(&machine.online).intersection(&machine.offline), "offline".to_owned()),
        (denied.difference(isolated), format!("not allowed{binding}")),
        (denied.intersection(isolated), "isolated, and outside the control group's cpuset".to_owned()),
        (wanted.intersection(kept), "reserved".to_owned()),
    ]
    .into_iter()
    .filter(|(cpus, _)| !cpus.is_empty())
    .map(|(cpus, why)| format!("{} {why}", cpus.brief()))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Usable CPUs near a device, and the sentence that explains them.
pub(super) struct Near {
    pub cpus: CpuSet,
    pub why: String,
}

/// Returns the usable CPUs of a NUMA node, or those nearest to a node without CPUs; `None` if the name is
/// not that of a node.
fn near_node(machine: &Machine, name: &str, pool: &CpuSet) -> Option<Result<Near, PlacementError>> {
    let id: u32 = name.strip_prefix("node")?.parse().ok()?;
    let Some(node) = machine.nodes.iter().find(|node| node.id == id && !node.cpus.is_empty()) else {
        let known = machine.nodes.iter().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
        return Some(Err(PlacementError::NoCpusOfNode { node: id, known }));
    };
    let why = if node.memory_only {
        format!("nearest to the memory of node {id}")
    } else {
        format!("on node {id}")
    };
    Some(usable_near(machine, name, &node.cpus, pool).map(|cpus| Near { cpus, why }))
}

/// Returns the CPUs of `local` that are in the pool.
fn usable_near(
    machine: &Machine,
    name: &str,
    local: &CpuSet,
    pool: &CpuSet,
) -> Result<CpuSet, PlacementError> {
    let cpus = local.intersection(pool);
    if !cpus.is_empty() {
        return Ok(cpus);
    }
    let isolated = local.intersection(&machine.isolated);
    let rest = local.difference(&isolated);
    let mut why = Vec::new();
    if !isolated.is_empty() {
        why.push(format!("{} isolated (near={name}+isolated uses them)", isolated.brief()));
    }
    let obstacles =
        unusable_reasons(machine, &machine.usable(), &rest.intersection(&machine.usable()), &rest);
    why.extend(Some(obstacles).filter(|why| !why.is_empty()));
    let (name, cpus) = (name.to_owned(), local.clone());
    Err(PlacementError::NoUsableCpuNearDevice { name, cpus, why: why.join(", "), usable: pool.clone() })
}

pub(super) fn near_device(machine: &Machine, name: &str, pool: &CpuSet) -> Result<Near, PlacementError> {
    let Some(device) = machine.device(name) else {
        if let Some(near) = near_node(machine, name, pool) {
            return near;
        }
        let similar = similar(machine.device_names(), name);
        return Err(PlacementError::NoDevice { name: name.to_owned(), similar });
    };
    let label = if device.address == name { name.to_owned() } else { format!("{name} ({})", device.address) };
    let node = device.node.and_then(|id| machine.nodes.iter().find(|node| node.id == id));
    let local = match node {
        Some(node) if device.cpus.is_empty() => &node.cpus,
        _ => &device.cpus,
    };
    let everywhere = local.is_empty() || machine.online.is_subset(local);
    let why = match device.node {
        None if everywhere => format!("the firmware reports no node for {label}, so all CPUs count as near"),
        Some(node) if everywhere => format!("{label} is on node {node} and near all CPUs"),
        None => format!("near {label}"),
        Some(node) => format!("near {label} on node {node}"),
    };
    let cpus = if everywhere { pool.clone() } else { usable_near(machine, name, local, pool)? };
    Ok(Near { cpus, why })
}

/// A group of a level and its usable CPUs.
pub(super) struct LevelGroup {
    pub label: String,
    pub cpus: CpuSet,
}

/// Returns the groups of a level that have usable CPUs, ordered so that the first few groups are far apart. CPUs that are in no
/// group of the level are groups by their cores.
pub(super) fn groups(tree: &CpuTree, level: Level) -> Result<Vec<LevelGroup>, PlacementError> {
    let Some(layer) = layer_of(tree, level) else {
        let known = Level::ALL.into_iter().filter(|&other| layer_of(tree, other).is_some());
        let steps = |other: &Level| (level as i32).abs_diff(*other as i32);
        // Outermost first, so that the outer of two equally near levels is chosen.
        let nearest = known.rev().min_by_key(steps);
        return Err(PlacementError::NoLevel { level, nearest });
    };
    let mut index: BTreeMap<Result<Part, CpuId>, usize> = BTreeMap::new();
    let mut cpus: Vec<(Result<Part, CpuId>, Vec<CpuId>)> = Vec::new();
    for leaf in order::spread_order(tree) {
        let cpu = tree.leaves[leaf].cpu;
        let part = tree.part(leaf, layer).or_else(|| tree.part_at(leaf, Rank::Core)).ok_or(cpu);
        let at = *index.entry(part).or_insert(cpus.len());
        match cpus.get_mut(at) {
            Some(group) => group.1.push(cpu),
            None => cpus.push((part, vec![cpu])),
        }
    }
    let label =
        |part: Part| reasons::core_label(part, tree.machine).unwrap_or_else(|| part.label(tree.machine));
    let group = |(part, cpus): (Result<Part, CpuId>, Vec<CpuId>)| LevelGroup {
        label: part.map_or_else(|cpu| format!("CPU {cpu}"), label),
        cpus: cpus.into_iter().collect(),
    };
    Ok(cpus.into_iter().map(group).collect())
}

/// Returns the index of the level's layer in the tree if it has a group with usable CPUs.
fn layer_of(tree: &CpuTree, level: Level) -> Option<usize> {
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
