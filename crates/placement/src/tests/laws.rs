//! Properties that hold on all machines.

use super::*;
use crate::{CpuSharing, near_memory::NearMemory};
use manycore_topology::machine::Group;
use proptest::{prelude::*, sample::select};
use std::collections::HashMap;

fn forms() -> impl Strategy<Value = Form> {
    (1..3u32, 1..3u32, 1..3u32, 1..4u32, 1..4u32, 1..3u32).prop_map(
        |(packages, nodes, caches, clusters, cores, siblings)| Form {
            packages,
            nodes,
            caches,
            clusters,
            cores,
            siblings,
        },
    )
}

/// A regular machine with some CPUs offline.
fn machines() -> impl Strategy<Value = Machine> {
    (forms(), any::<u64>()).prop_map(|(form, holes)| {
        let mut machine = form.machine();
        let off = |cpu: &u32| *cpu > 0 && (holes >> (cpu % 64)).trailing_zeros() >= 2;
        let online: CpuSet = machine.online.iter().filter(|cpu| !off(cpu)).collect();
        let limit = |groups: &mut Vec<Group>| {
            for group in groups.iter_mut() {
                group.cpus = group.cpus.intersection(&online);
            }
            groups.retain(|group| !group.cpus.is_empty());
        };
        [&mut machine.packages, &mut machine.dies, &mut machine.clusters, &mut machine.cores]
            .into_iter()
            .for_each(limit);
        machine.caches.iter_mut().for_each(|cache| cache.cpus = cache.cpus.intersection(&online));
        machine.nodes.iter_mut().for_each(|node| node.cpus = node.cpus.intersection(&online));
        machine.online = online;
        machine
    })
}

fn places() -> impl Strategy<Value = &'static str> {
    select(vec![
        "free",
        "close",
        "spread",
        "spread@core",
        "spread@cluster",
        "spread@llc",
        "spread@node",
        "spread@package",
        "cpus=0",
        "free+nosmt",
        "close+nosmt",
        "spread+nosmt",
        "spread@node+nosmt",
    ])
}

/// Returns the number of workers whose first CPU is in each group.
fn uses(plan: &PlacementPlan, groups: &[CpuSet]) -> Vec<usize> {
    let first = |worker: &PlannedWorker| worker.cpus.first().unwrap();
    groups
        .iter()
        .map(|group| plan.workers.iter().filter(|worker| group.contains(first(worker))).count())
        .collect()
}

fn cores(machine: &Machine) -> Vec<CpuSet> {
    machine.cores.iter().map(|core| core.cpus.clone()).collect()
}

proptest! {
    #[test]
    fn every_worker_gets_usable_cpus(machine in machines(), place in places(), workers in 1..80usize, kept in 0..4usize) {
        let policy: Policy = place.parse().unwrap();
        let Ok(plan) = policy.plan(&machine, workers, &Reserve::Count(kept)) else { return Ok(()) };
        prop_assert_eq!(plan.workers.len(), workers);
        for worker in &plan.workers {
            prop_assert!(!worker.cpus.is_empty() && worker.cpus.is_subset(&machine.online));
            prop_assert!(!worker.memory_nodes.is_empty() && !worker.why.is_empty());
        }
        prop_assert!(plan.cpus().len() + kept <= machine.online.len());
        if policy.nosmt {
            prop_assert!(cores(&machine).iter().all(|core| core.intersection(&plan.cpus()).len() <= 1));
        }
    }

    #[test]
    fn widened_workers_have_cpus_of_their_own(machine in machines(), place in select(vec!["close", "spread", "close+nosmt"]), width in 1..9usize) {
        let policy: Policy = place.parse().unwrap();
        let narrow = plan(&machine, place, policy.capacity(&machine, &Reserve::Nothing).unwrap());
        let wide = narrow.widened(&machine, width);
        prop_assert!(wide.cpus().is_subset(&narrow.cpus()));
        prop_assert_eq!(wide.workers.iter().map(|worker| worker.cpus.len()).sum::<usize>(), wide.cpus().len());
        prop_assert_eq!(wide.workers.len(), (narrow.cpus().len() / width).max(1));
        prop_assert!(wide.workers.iter().all(|worker| worker.cpus.len() == width.min(narrow.cpus().len())));
    }

    #[test]
    fn all_cpus_are_used_once_before_any_twice(machine in machines(), place in select(vec!["close", "spread"])) {
        let plan = plan(&machine, place, machine.online.len());
        prop_assert_eq!(plan.cpus(), machine.online);
        prop_assert_eq!(plan.cpu_sharing(), CpuSharing { workers: 0, most: 1 });
    }

    #[test]
    fn no_core_gets_a_second_worker_while_another_is_empty(machine in machines(), workers in 1..80usize) {
        let uses = uses(&plan(&machine, "spread", workers), &cores(&machine));
        prop_assert!(!uses.contains(&0) || uses.iter().all(|&count| count <= 1), "{:?}", uses);
    }

    #[test]
    fn groups_get_their_share(machine in machines(), workers in 1..200usize) {
        let nodes: Vec<CpuSet> =
            machine.nodes.iter().map(|node| node.cpus.clone()).filter(|cpus| !cpus.is_empty()).collect();
        let caches: Vec<CpuSet> =
            machine.caches.iter().map(|cache| cache.cpus.clone()).filter(|cpus| !cpus.is_empty()).collect();
        for (place, groups) in [("spread@node", nodes), ("spread@llc", caches), ("spread@core", cores(&machine))] {
            let uses = uses(&plan(&machine, place, workers), &groups);
            for (count, group) in uses.iter().zip(&groups) {
                let exact = workers as f64 * group.len() as f64 / machine.online.len() as f64;
                prop_assert!((*count as f64 - exact).abs() < 1.0, "{} {} of {}", place, count, exact);
            }
        }
    }

    #[test]
    fn texts_are_read_back(
        kind in "(free|close|spread|spread@(core|cluster|llc|node|package)|cpus=[0-9]{1,3}(,[0-9]{1,3}){0,4}|near=[a-z0-9:.]{1,12})",
        nosmt in any::<bool>(),
    ) {
        let policy: Policy = format!("{kind}{}", if nosmt { "+nosmt" } else { "" }).parse().unwrap();
        prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy.clone());
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,20}", tail in "(free|cpus=|near=|spread@|bind=|interleave=)?[-0-9a-z,+=@ ]{0,20}") {
        for text in [text, tail] {
            if let Ok(policy) = text.parse::<Policy>() {
                prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
            }
            if let Ok(memory) = text.parse::<MemoryPlacement>() {
                prop_assert_eq!(memory.to_string().parse::<MemoryPlacement>().unwrap(), memory);
            }
            if let Ok(reserve) = text.parse::<Reserve>() {
                prop_assert_eq!(reserve.to_string().parse::<Reserve>().unwrap(), reserve);
            }
        }
    }

    #[test]
    fn exchanging_equal_groups_keeps_the_shape(
        form in forms(), place in places(), workers in 1..40usize, swaps in prop::collection::vec((0..6usize, 0..40u32), 0..8),
    ) {
        let machine = form.machine();
        let Ok(plan) = place.parse::<Policy>().unwrap().plan(&machine, workers, &Reserve::Nothing) else {
            return Ok(());
        };
        let sizes = [form.siblings, form.cores, form.clusters, form.caches, form.nodes, form.packages];
        let mut moved = plan.clone();
        for (level, at) in swaps {
            moved = exchange(&machine, &moved, sizes[..level].iter().product(), sizes[level], at);
        }
        prop_assert_eq!(moved.canonical(&machine), plan.canonical(&machine));
    }

    #[test]
    fn equal_forms_have_equal_oversubscription(
        form in forms(), a in prop::collection::vec(0..60u32, 1..6), b in prop::collection::vec(0..60u32, 1..6),
    ) {
        let machine = form.machine();
        let listed = |list: &[u32]| {
            let cpus = machine.online.len() as u32;
            let list: Vec<String> = list.iter().map(|cpu| (cpu % cpus).to_string()).collect();
            plan(&machine, &format!("cpus={}", list.join(",")), list.len())
        };
        let (a, b) = (listed(&a), listed(&b));
        let crowds = |plan: &PlacementPlan, groups: &[CpuSet]| {
            let mut uses = uses(plan, groups);
            uses.sort_unstable();
            uses
        };
        let levels: Vec<Vec<CpuSet>> = [&machine.packages, &machine.clusters, &machine.cores]
            .map(|groups| groups.iter().map(|group| group.cpus.clone()).collect()).to_vec();
        let alike = levels.iter().all(|groups| crowds(&a, groups) == crowds(&b, groups));
        if a.canonical(&machine) == b.canonical(&machine) {
            prop_assert!(alike);
        }
    }
}

/// Returns the plan with two adjacent groups of `size` CPUs exchanged; `count` of them are in the next
/// larger group.
fn exchange(machine: &Machine, plan: &PlacementPlan, size: u32, count: u32, at: u32) -> PlacementPlan {
    let groups = machine.online.len() as u32 / size;
    let (a, within) = (at % groups, at % groups % count);
    let b = a - within + (within + 1) % count;
    let map: HashMap<u32, u32> = (0..size)
        .flat_map(|cpu| [(a * size + cpu, b * size + cpu), (b * size + cpu, a * size + cpu)])
        .collect();
    let memory = NearMemory::new(machine);
    let mut plan = plan.clone();
    for worker in &mut plan.workers {
        worker.cpus = worker.cpus.iter().map(|cpu| *map.get(&cpu).unwrap_or(&cpu)).collect();
        worker.memory_nodes = memory.nodes_near(&worker.cpus);
    }
    plan
}
