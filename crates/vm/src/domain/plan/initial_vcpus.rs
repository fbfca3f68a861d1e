//! Guests that start with fewer virtual CPUs than they can get: the initial ones are spread over the nodes,
//! too.

use super::{PlanInput, vcpu_placement::TopologyLocation};
use crate::{domain::read::attribute, error::PlanError, remedy::Notes};
use manycore_placement::PlannedWorker;
use manycore_text::xml::children;
use std::collections::{BTreeMap, VecDeque};

/// Location of a virtual CPU, and the CPUs assigned to it.
type LocatedWorker = (TopologyLocation, PlannedWorker);

/// Returns for each virtual CPU whether the guest starts with it: those that `<vcpus>` enables, or those with the lowest
/// numbers.
fn initially_online(input: &PlanInput) -> Result<Vec<bool>, PlanError> {
    let count = input.before.pins.len();
    let Some(vcpus) = input.xml.at(&["vcpus"]) else {
        return Ok((0..count).map(|vcpu| vcpu < input.before.vcpus as usize).collect());
    };
    let mut initially_online = vec![false; count];
    for vcpu in children(vcpus, "vcpu").filter(|vcpu| vcpu.attribute("enabled") == Some("yes")) {
        if let Some(one) = initially_online.get_mut(attribute(vcpu, "id")? as usize) {
            *one = true;
        }
    }
    Ok(initially_online)
}

/// Distributes the virtual CPUs that the guest starts with evenly over the nodes, core by core. The remaining
/// locations go to those that may be plugged in later. Both are ordered by location.
pub(super) fn spread_initial_vcpus(
    input: &PlanInput,
    workers: Vec<LocatedWorker>,
    notes: &mut Notes,
) -> Result<Vec<LocatedWorker>, PlanError> {
    let initially_online = initially_online(input)?;
    let first = initially_online.iter().filter(|is_online| **is_online).count();
    if first == 0 || first == workers.len() {
        return Ok(workers);
    }
    let mut cores_by_node = cores_by_node(workers);
    let (mut early, counts) = take_evenly(&mut cores_by_node, first);
    let mut late: Vec<LocatedWorker> = cores_by_node.into_values().flatten().flatten().collect();
    for workers in [&mut early, &mut late] {
        workers.sort_by_key(|(location, worker)| (*location, worker.cpus.first()));
    }
    if counts.len() > 1 {
        notes.push(format!(
            "of {} virtual CPUs the guest starts with {first}: they are spread evenly over the nodes ({})",
            initially_online.len(),
            counts.values().map(usize::to_string).collect::<Vec<_>>().join(" + ")
        ));
    }
    let (mut early, mut late) = (early.into_iter(), late.into_iter());
    let next = |is_online: bool| if is_online { early.next() } else { late.next() };
    Ok(initially_online.into_iter().filter_map(next).collect())
}

/// Cores of each node in order, with the workers on each core. A worker that may use several cores counts as a core.
type CoresByNode = BTreeMap<Option<usize>, VecDeque<Vec<LocatedWorker>>>;

fn cores_by_node(workers: Vec<LocatedWorker>) -> CoresByNode {
    let mut by_node = CoresByNode::new();
    for located in workers {
        let cores = by_node.entry(located.0.node).or_default();
        match cores.back_mut() {
            Some(core) if core[0].0.core.is_some() && core[0].0.core == located.0.core => {
                core.push(located);
            }
            _ => cores.push_back(vec![located]),
        }
    }
    by_node
}

/// Takes `count` workers, one core of each node in turn. Returns them with their number on each node; nodes of which
/// none was taken count 0.
fn take_evenly(
    by_node: &mut CoresByNode,
    count: usize,
) -> (Vec<LocatedWorker>, BTreeMap<Option<usize>, usize>) {
    let mut taken: Vec<LocatedWorker> = Vec::new();
    let mut counts: BTreeMap<Option<usize>, usize> = by_node.keys().map(|node| (*node, 0)).collect();
    while taken.len() < count {
        for (node, cores) in by_node.iter_mut() {
            let Some(mut core) = cores.pop_front() else { continue };
            let rest = core.split_off(core.len().min(count - taken.len()));
            *counts.entry(*node).or_default() += core.len();
            taken.append(&mut core);
            if !rest.is_empty() {
                cores.push_front(rest);
            }
        }
    }
    (taken, counts)
}
