//! The topology of a guest (sockets, dies, clusters, cores, threads), derived from the location of its
//! virtual CPUs.
//!
//! QEMU numbers virtual CPUs thread by thread and core by core, and all groups of a level have the same size.
//! The size of a level is therefore the largest that divides every run of neighbours on the host. A core,
//! cluster, die or socket of the guest then never spans two of the host. If runs differ in length, the
//! guest's groups are smaller than the host's.

use super::{Task, seats::Place};
use crate::domain::{
    guest::Topology,
    wish::{Dialect, Version},
};
use std::collections::BTreeSet;

/// First QEMU that supports `clusters` on Arm.
const CLUSTERS_ON_ARM: Version = Version(6, 2, 0);
/// First libvirt with the attribute `clusters`. The libvirt of openEuler has had it longer. Other versions
/// ignore the attribute and then fail, because the topology has fewer CPUs than the domain.
const CLUSTERS_IN_LIBVIRT: Version = Version(10, 1, 0);
/// First QEMU that supports `modules` on x86.
const MODULES_ON_X86: Version = Version(9, 1, 0);

/// Returns the topology of a guest with virtual CPUs at these locations.
pub(super) fn topology(task: &Task, places: &[Place], notes: &mut Vec<String>) -> Topology {
    let package = |place: &Place| place.package.or(Some(0));
    // On x86, QEMU gives each die an L3 cache of its own. Caches and nodes within a package therefore become
    // dies, too.
    let die = |place: &Place| Some((place.package?, place.die, place.node, place.cache));
    let whole = places.len() as u32;
    let mut socket = size(places.iter().map(package), whole);
    if task.is_x86() {
        // A socket that spans two nodes gets a die for each. Without dies it is split, so that no cache spans
        // nodes.
        let local = size(places.iter().map(|place| place.node.or(Some(0))), whole);
        socket = if socket % local == 0 { socket } else { common(socket, local) };
    }
    let packages: BTreeSet<Option<usize>> = places.iter().map(package).collect();
    let nodes_used: BTreeSet<Option<usize>> = places.iter().map(|place| place.node).collect();
    if whole / socket > packages.len().max(nodes_used.len()) as u32 {
        notes.push(format!(
            "the guest gets {} sockets, because its virtual CPUs are not distributed evenly over the packages and \
             nodes of the host: use another number of virtual CPUs, or --policy spread, which distributes them evenly",
            whole / socket
        ));
    }
    let dies = if task.is_x86() { size(places.iter().map(die), socket) } else { socket };
    let thread = if task.board.has_threads { size_of_cores(places, dies) } else { 1 };
    let clusters = size(places.iter().map(|place| place.cluster), dies);
    // A cluster of one core gives no information, and neither does a single cluster.
    let says = clusters > thread && clusters < dies && clusters % thread == 0;
    let clusters = match takes_clusters(task) {
        Ok(()) if says => clusters,
        Err(why) if says => {
            notes.push(format!("the guest does not see the clusters of {clusters} CPUs: {why}"));
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

/// Returns `Ok` if the QEMU and libvirt in use support clusters for this guest, or else why not.
fn takes_clusters(task: &Task) -> Result<(), String> {
    match (task.arch.as_str(), task.wish.qemu) {
        ("aarch64", Some(qemu)) if qemu >= CLUSTERS_ON_ARM => libvirt_knows_clusters(task),
        ("aarch64", Some(qemu)) => {
            Err(format!("QEMU {qemu} does not support clusters, {CLUSTERS_ON_ARM} and later do"))
        }
        ("aarch64", None) => Err("QEMU's version is unknown: give it with --qemu".to_owned()),
        (_, Some(qemu)) if qemu < MODULES_ON_X86 => {
            Err(format!("QEMU {qemu} does not support them on x86, {MODULES_ON_X86} and later have modules"))
        }
        _ => Err("QEMU calls them modules on x86, which libvirt's <topology> does not support".to_owned()),
    }
}

fn libvirt_knows_clusters(task: &Task) -> Result<(), String> {
    let there = task.xml.at(&["cpu", "topology"]);
    let has = there.is_some_and(|topology| topology.has_attribute("clusters"));
    match task.wish.libvirt {
        _ if has || task.wish.dialect == Dialect::OpenEuler => Ok(()),
        Some(libvirt) if libvirt >= CLUSTERS_IN_LIBVIRT => Ok(()),
        Some(libvirt) => Err(format!(
            "libvirt {libvirt} does not support them, {CLUSTERS_IN_LIBVIRT} and later do; if a distributor has added \
             them to yours, use --libvirt {CLUSTERS_IN_LIBVIRT}"
        )),
        None => Err("libvirt's version is unknown: give it with --libvirt".to_owned()),
    }
}

/// Returns the number of threads per core. A virtual CPU that may use several cores counts as a core of its
/// own.
fn size_of_cores(places: &[Place], most: u32) -> u32 {
    let alone = |at: usize, place: &Place| place.core.map_or((None, Some(at)), |core| (Some(core), None));
    size(places.iter().enumerate().map(|(at, place)| Some(alone(at, place))), most)
}

/// Returns the largest size that divides each run within one group, and the size of the level above. If a
/// virtual CPU is in no group, returns the size of the level above, which leaves the level out.
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

/// Returns the greatest common divisor.
fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}
