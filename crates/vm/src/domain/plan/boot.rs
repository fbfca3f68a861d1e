//! Guests that start with fewer virtual CPUs than they can get: the initial ones are spread over the nodes,
//! too.

use super::{Refused, Task, seats::Place};
use crate::domain::read::attribute;
use manycore_linux::vms::xml::children;
use manycore_placement::PlannedWorker;
use std::collections::{BTreeMap, VecDeque};

/// Location of a virtual CPU, and the CPUs assigned to it.
type Seat = (Place, PlannedWorker);

/// Returns for each virtual CPU whether the guest starts with it: as `<vcpus>` says, or the lowest numbers.
fn booted(task: &Task) -> Result<Vec<bool>, Refused> {
    let count = task.before.pins.len();
    let Some(vcpus) = task.xml.at(&["vcpus"]) else {
        return Ok((0..count).map(|vcpu| vcpu < task.before.vcpus as usize).collect());
    };
    let mut booted = vec![false; count];
    for vcpu in children(vcpus, "vcpu").filter(|vcpu| vcpu.attribute("enabled") == Some("yes")) {
        if let Some(one) = booted.get_mut(attribute(vcpu, "id")? as usize) {
            *one = true;
        }
    }
    Ok(booted)
}

/// Distributes the virtual CPUs that the guest starts with evenly over the nodes, core by core. The remaining
/// locations go to those that may be plugged in later. Both are ordered by location.
pub(super) fn evenly(task: &Task, seats: Vec<Seat>, notes: &mut Vec<String>) -> Result<Vec<Seat>, Refused> {
    let booted = booted(task)?;
    let first = booted.iter().filter(|booted| **booted).count();
    let mut by_node: BTreeMap<Option<usize>, VecDeque<Vec<Seat>>> = BTreeMap::new();
    if first == 0 || first == seats.len() {
        return Ok(seats);
    }
    for seat in seats {
        let cores = by_node.entry(seat.0.node).or_default();
        match cores.back_mut() {
            Some(core) if core[0].0.core.is_some() && core[0].0.core == seat.0.core => core.push(seat),
            _ => cores.push_back(vec![seat]),
        }
    }
    let several = by_node.len() > 1;
    let mut early: Vec<Seat> = Vec::new();
    let mut counts: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    while early.len() < first {
        for (node, cores) in &mut by_node {
            let Some(mut core) = cores.pop_front() else { continue };
            let rest = core.split_off(core.len().min(first - early.len()));
            *counts.entry(*node).or_default() += core.len();
            early.append(&mut core);
            if !rest.is_empty() {
                cores.push_front(rest);
            }
        }
    }
    let mut late: Vec<Seat> = by_node.into_values().flatten().flatten().collect();
    let by_place = |seats: &mut Vec<Seat>| seats.sort_by_key(|(place, worker)| (*place, worker.cpus.first()));
    by_place(&mut early);
    by_place(&mut late);
    if several {
        notes.push(format!(
            "of {} virtual CPUs the guest starts with {first}: they are spread evenly over the nodes ({})",
            booted.len(),
            counts.values().map(usize::to_string).collect::<Vec<_>>().join(" + ")
        ));
    }
    let (mut early, mut late) = (early.into_iter(), late.into_iter());
    Ok(booted.into_iter().filter_map(|booted| if booted { early.next() } else { late.next() }).collect())
}
