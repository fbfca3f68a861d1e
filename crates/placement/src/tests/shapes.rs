//! Tests of which plans are equivalent.

use super::{machines::*, *};
use manycore_topology::machine::Node;

fn shape(machine: &Machine, place: &str, workers: usize) -> CanonicalPlan {
    plan(machine, place, workers).canonical(machine)
}

fn same(machine: &Machine, workers: usize, places: &[&str]) {
    for place in places {
        assert_eq!(shape(machine, place, workers), shape(machine, places[0], workers), "{place}, {places:?}");
    }
}

fn different(machine: &Machine, workers: usize, places: &[&str]) {
    let shapes: Vec<CanonicalPlan> = places.iter().map(|place| shape(machine, place, workers)).collect();
    for (at, one) in shapes.iter().enumerate() {
        assert!(!shapes[..at].contains(one), "{} of {places:?}", places[at]);
    }
}

#[test]
fn two_cpus_leave_few_choices() {
    same(&two(), 2, &["close", "spread", "cpus=0,1", "cpus=1,0", "spread@core"]);
    same(&two(), 2, &["free", "spread@llc", "spread@node"]);
    different(&two(), 2, &["free", "close", "cpus=0"]);
    same(&two(), 1, &["cpus=0", "cpus=1"]);
}

#[test]
fn symmetric_groups_are_exchanged() {
    let machine = clustered();
    same(&machine, 2, &["cpus=0,8", "cpus=5,15", "cpus=13,4"]);
    same(&machine, 2, &["cpus=0,4", "cpus=9,13"]);
    different(
        &machine,
        2,
        &["cpus=0,1", "cpus=0,4", "cpus=0,8", "cpus=0", "free", "spread@node", "spread@cluster"],
    );
    same(&smt(), 2, &["cpus=0,4", "cpus=2,6"]);
    different(&smt(), 2, &["cpus=0,4", "cpus=0,1", "cpus=0,2", "free+nosmt", "free"]);
}

#[test]
fn different_plans_have_different_shapes() {
    different(&hybrid(), 1, &["cpus=0", "cpus=4"]);
    same(&hybrid(), 1, &["cpus=0", "cpus=3"]);
    different(&uneven(), 1, &["cpus=0", "cpus=3"]);
    let mut cached = two_packages();
    cached.caches[1].size_bytes = Some(96 << 20);
    different(&cached, 1, &["cpus=0", "cpus=8"]);
    let mut limited = two_packages();
    limited.allowed.cpus = cpus("0-11");
    different(&limited, 1, &["cpus=0", "cpus=8"]);
    different(&expanded(), 1, &["cpus=0", "cpus=2"]);
}

#[test]
fn memory_is_alike_up_to_a_tenth() {
    let mut machine = two_packages();
    same(&machine, 1, &["cpus=0", "cpus=8"]);
    machine.nodes[1].memory_bytes = Some(8 << 30);
    different(&machine, 1, &["cpus=0", "cpus=8"]);
}

fn with_distances(rows: &[&[u32]]) -> Machine {
    let count = rows.len() as u32;
    let mut machine = Form { nodes: count, cores: 2, ..Form::ONE }.machine();
    machine.nodes.iter_mut().zip(rows).for_each(|(node, row)| node.distances = row.to_vec());
    machine
}

#[test]
fn nodes_are_exchanged_where_distances_allow() {
    // Two packages of two nodes. The distance between the two outer nodes is larger than between the inner
    // ones.
    let skew = with_distances(&[&[10, 12, 20, 22], &[12, 10, 22, 24], &[20, 22, 10, 12], &[22, 24, 12, 10]]);
    same(&skew, 1, &["cpus=0", "cpus=1", "cpus=4"]);
    different(&skew, 1, &["cpus=0", "cpus=2"]);
    different(&skew, 2, &["cpus=0,4", "cpus=2,6", "cpus=0,6"]);
    same(&skew, 2, &["cpus=0,6", "cpus=2,4"]);
    let ring = with_distances(&[&[10, 16, 22, 16], &[16, 10, 16, 22], &[22, 16, 10, 16], &[16, 22, 16, 10]]);
    same(&ring, 2, &["cpus=0,2", "cpus=4,6", "cpus=0,6"]);
    same(&ring, 2, &["cpus=0,4", "cpus=2,6"]);
    different(&ring, 2, &["cpus=0,2", "cpus=0,4"]);
}

#[test]
fn expanders_break_symmetry_only_where_they_are() {
    let mut machine = two_packages();
    let memory = |id, near: &str, distances: &[u32]| Node {
        id,
        cpus: cpus(near),
        memory_only: true,
        memory_bytes: Some(64 << 30),
        distances: distances.to_vec(),
        tier: Some(9),
    };
    machine.nodes[0].distances = vec![10, 20, 14, 24];
    machine.nodes[1].distances = vec![20, 10, 24, 14];
    let pair = [memory(2, "0-7", &[14, 24, 10, 26]), memory(3, "8-15", &[24, 14, 26, 10])];
    machine.nodes.extend(pair);
    same(&machine, 1, &["cpus=0", "cpus=8"]);
    machine.nodes.pop();
    machine.nodes.iter_mut().for_each(|node| node.distances.truncate(3));
    different(&machine, 1, &["cpus=0", "cpus=8"]);
}

#[test]
fn crossing_groups_and_foreign_memory_keep_their_numbers() {
    let mut crossed = clustered();
    crossed.caches.push(l3(cpus("6-9")));
    different(&crossed, 1, &["cpus=0", "cpus=1"]);
    let machine = two_packages();
    let mut far = plan(&machine, "cpus=0", 1);
    far.workers[0].memory_nodes = vec![1];
    assert_ne!(far.canonical(&machine), shape(&machine, "cpus=0", 1));
    far.workers[0].cpus = cpus("8");
    assert_eq!(far.canonical(&machine), shape(&machine, "cpus=8", 1), "near again");
}

#[test]
fn plans_of_other_machines_have_a_shape_too() {
    let mut plan = plan(&two(), "close", 2);
    plan.workers[1].cpus = cpus("0-4294967294");
    assert_ne!(plan.canonical(&two()), shape(&two(), "close", 2));
    assert_eq!((plan.cpus().len(), plan.cpu_sharing().most), (4_294_967_295, 2));
}
