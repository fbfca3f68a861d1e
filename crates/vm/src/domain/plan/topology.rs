//! Sockets, dies, clusters, cores and threads of a guest, from where its virtual CPUs are.
//!
//! QEMU counts virtual CPUs thread by thread, core by core, and all groups of a level are of one size. So a level's size
//! is the largest that fits into each run of neighbours on the host: what the guest takes for one core, cluster, die or
//! socket never lies in two of the host. Where runs differ in length, groups are smaller than the host's.

use super::{Task, seats::Place};
use crate::domain::{
    guest::Topology,
    wish::{Dialect, Version},
};
use std::collections::BTreeSet;

/// The first QEMU that takes `clusters` on Arm.
const CLUSTERS_ON_ARM: Version = Version(6, 2, 0);
/// The first libvirt that knows the attribute `clusters`; openEuler's has had it for longer. Others fail at it, because
/// without it the topology has fewer CPUs than the domain.
const CLUSTERS_IN_LIBVIRT: Version = Version(10, 1, 0);
/// The first QEMU that takes `modules` on x86.
const MODULES_ON_X86: Version = Version(9, 1, 0);

/// The topology of a guest whose virtual CPUs are there.
pub(super) fn topology(task: &Task, places: &[Place], notes: &mut Vec<String>) -> Topology {
    let package = |place: &Place| place.package.or(Some(0));
    // On x86 a die is what has an L3 of its own in QEMU, so the guest's are the caches and nodes of a package too.
    let die = |place: &Place| Some((place.package?, place.die, place.node, place.cache));
    let whole = places.len() as u32;
    let mut socket = size(places.iter().map(package), whole);
    if task.is_x86() {
        // A socket of two nodes is a die for each; where dies cannot be told apart, so that no cache spans nodes.
        let local = size(places.iter().map(|place| place.node.or(Some(0))), whole);
        socket = if socket % local == 0 { socket } else { common(socket, local) };
    }
    let packages: BTreeSet<Option<usize>> = places.iter().map(package).collect();
    let nodes_used: BTreeSet<Option<usize>> = places.iter().map(|place| place.node).collect();
    if whole / socket > packages.len().max(nodes_used.len()) as u32 {
        notes.push(format!(
            "the guest gets {} sockets, because its virtual CPUs are not as many on each package and node of the \
             host: another number of them, or --policy spread, deals them evenly",
            whole / socket
        ));
    }
    let dies = if task.is_x86() { size(places.iter().map(die), socket) } else { socket };
    let thread = if task.board.has_threads { size_of_cores(places, dies) } else { 1 };
    let clusters = size(places.iter().map(|place| place.cluster), dies);
    // A cluster of one core tells nothing, and neither does one that is all there is.
    let says = clusters > thread && clusters < dies && clusters % thread == 0;
    let clusters = match takes_clusters(task) {
        Ok(()) if says => clusters,
        Err(why) if says => {
            notes.push(format!("the guest does not see that {clusters} CPUs are a cluster: {why}"));
            dies
        }
        _ => dies,
    };
    Topology {
        sockets: whole / socket,
        dies: socket / dies,
        clusters: dies / clusters,
        cores: clusters / thread,
        threads: thread,
    }
}

/// Whether the QEMU and libvirt in use take clusters for this guest, or why not.
fn takes_clusters(task: &Task) -> Result<(), String> {
    match (task.arch.as_str(), task.wish.qemu) {
        ("aarch64", Some(qemu)) if qemu >= CLUSTERS_ON_ARM => libvirt_knows_clusters(task),
        ("aarch64", Some(qemu)) => {
            Err(format!("QEMU {qemu} takes no clusters, {CLUSTERS_ON_ARM} and later do"))
        }
        ("aarch64", None) => Err("no QEMU was found to ask for its version; say it with --qemu".to_owned()),
        (_, Some(qemu)) if qemu < MODULES_ON_X86 => {
            Err(format!("QEMU {qemu} takes none on x86, {MODULES_ON_X86} and later have modules"))
        }
        _ => Err("QEMU calls them modules on x86, for which libvirt's <topology> has no word".to_owned()),
    }
}

fn libvirt_knows_clusters(task: &Task) -> Result<(), String> {
    let there = task.xml.at(&["cpu", "topology"]);
    let has = there.is_some_and(|topology| topology.has_attribute("clusters"));
    match task.wish.libvirt {
        _ if has || task.wish.dialect == Dialect::OpenEuler => Ok(()),
        Some(libvirt) if libvirt >= CLUSTERS_IN_LIBVIRT => Ok(()),
        Some(libvirt) => Err(format!(
            "libvirt {libvirt} has no word for them, {CLUSTERS_IN_LIBVIRT} and later do; --libvirt \
             {CLUSTERS_IN_LIBVIRT} says that a distributor has added it to yours"
        )),
        None => Err("no virsh was found to ask for libvirt's version; say it with --libvirt".to_owned()),
    }
}

/// Threads of a core. A virtual CPU that may use several cores is one by itself.
fn size_of_cores(places: &[Place], most: u32) -> u32 {
    let alone = |at: usize, place: &Place| place.core.map_or((None, Some(at)), |core| (Some(core), None));
    size(places.iter().enumerate().map(|(at, place)| Some(alone(at, place))), most)
}

/// The largest size that divides each run of one group, and the level above. A virtual CPU that is in no group leaves
/// the level untold.
fn size<G: PartialEq>(groups: impl Iterator<Item = Option<G>>, above: u32) -> u32 {
    let (mut runs, mut length, mut last) = (above, 0, None);
    for group in groups {
        if group.is_none() {
            return above;
        }
        if last.is_some() && group != last {
            runs = common(runs, length);
            length = 0;
        }
        length += 1;
        last = group;
    }
    common(runs, length).max(1)
}

/// The greatest common divisor.
fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}
