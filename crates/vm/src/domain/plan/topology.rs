//! The topology of a guest (sockets, dies, clusters, cores, threads), derived from the location of its
//! virtual CPUs.
//!
//! QEMU numbers virtual CPUs thread by thread and core by core, and all groups of a level have the same size.
//! The size of a level is therefore the largest that divides every run of neighbours on the host. A core,
//! cluster, die or socket of the guest then never spans two of the host. If runs differ in length, the
//! guest's groups are smaller than the host's.

use super::{PlanInput, vcpu_placement::TopologyLocation};
use crate::{
    domain::{
        guest::Topology,
        request::{LibvirtDialect, Version},
    },
    remedy::{Notes, Remedy},
};
use std::collections::{BTreeMap, BTreeSet};

/// First QEMU that supports `clusters` on Arm.
const CLUSTERS_ON_ARM: Version = Version(6, 2, 0);
/// First libvirt with the attribute `clusters`. The libvirt of openEuler has had it longer. Other versions
/// ignore the attribute and then fail, because the topology has fewer CPUs than the domain.
const CLUSTERS_IN_LIBVIRT: Version = Version(10, 1, 0);
/// First QEMU that supports `modules` on x86.
const MODULES_ON_X86: Version = Version(9, 1, 0);

/// Returns the topology of a guest with virtual CPUs at these locations.
pub(super) fn topology(input: &PlanInput, locations: &[TopologyLocation], notes: &mut Notes) -> Topology {
    let package = |place: &TopologyLocation| place.package.or(Some(0));
    // On x86, QEMU gives each die an L3 cache of its own. Caches and nodes within a package therefore become
    // dies, too.
    let die = |place: &TopologyLocation| Some((place.package?, place.die, place.node, place.cache));
    let whole = locations.len() as u32;
    let mut socket = level_size(locations.iter().map(package), whole);
    if input.is_x86() {
        // A socket that spans two nodes gets a die for each. Without dies it is split, so that no cache spans
        // nodes.
        let local = level_size(locations.iter().map(|place| place.node.or(Some(0))), whole);
        socket = if socket % local == 0 { socket } else { gcd(socket, local) };
    }
    let packages: BTreeSet<Option<usize>> = locations.iter().map(package).collect();
    let nodes_used: BTreeSet<Option<usize>> = locations.iter().map(|place| place.node).collect();
    let is_split = whole / socket > packages.len().max(nodes_used.len()) as u32;
    if is_split {
        notes.push_with(
            Remedy::Policy,
            format!(
                "the guest gets {} sockets, because its virtual CPUs are not distributed evenly over the packages \
                 and nodes of the host: use another number of virtual CPUs, or the policy spread, which distributes \
                 them evenly",
                whole / socket
            ),
        );
    }
    let mut dies = if input.is_x86() { level_size(locations.iter().map(die), socket) } else { socket };
    if !is_split && is_finer(locations.iter().map(die), dies) {
        // A cache for each core would be further from the host than one for each node.
        dies = level_size(locations.iter().map(|place| place.node.or(Some(0))), socket);
        notes.push_with(Remedy::Policy, uneven("last-level caches"));
    }
    let thread = if input.machine_type.has_threads { size_of_cores(locations, dies) } else { 1 };
    if input.machine_type.has_threads && is_finer(locations.iter().map(|place| place.core), thread) {
        notes.push_with(Remedy::Policy, uneven("SMT siblings"));
    }
    let clusters = cluster_size(input, locations, dies, thread, notes);
    Topology {
        sockets: whole / socket,
        dies: socket / dies,
        clusters: dies / clusters,
        cores: clusters / thread,
        threads: thread,
    }
}

/// Returns the number of CPUs of a cluster; that of a die if the guest sees no clusters.
fn cluster_size(
    input: &PlanInput,
    locations: &[TopologyLocation],
    die: u32,
    core: u32,
    notes: &mut Notes,
) -> u32 {
    let of = || locations.iter().map(|place| place.cluster);
    let cluster = level_size(of(), die);
    if is_finer(of(), cluster) && supports_clusters(input).is_ok() {
        notes.push_with(Remedy::Policy, uneven("clusters"));
        return die;
    }
    // A cluster of one core gives no information, and neither does a single cluster.
    if cluster <= core || cluster >= die || cluster % core != 0 {
        return die;
    }
    let Err((why, remedy)) = supports_clusters(input) else { return cluster };
    let text = format!("the guest does not see the clusters of {cluster} CPUs: {why}");
    match remedy {
        Some(remedy) => notes.push_with(remedy, text),
        None => notes.push(text),
    }
    die
}

/// Whether the guest cannot have groups as large as those of the host, because these have different numbers of its virtual CPUs:
/// groups of `size` are smaller.
fn is_finer<G: Ord>(groups: impl Iterator<Item = Option<G>>, size: u32) -> bool {
    let mut counts: BTreeMap<G, u32> = BTreeMap::new();
    for group in groups {
        let Some(group) = group else { return false };
        *counts.entry(group).or_default() += 1;
    }
    let sizes: BTreeSet<u32> = counts.into_values().collect();
    sizes.len() > 1 && sizes.last() > Some(&size)
}

fn uneven(what: &str) -> String {
    format!(
        "the guest does not see the host's {what}, because its virtual CPUs are not distributed evenly over them: use another \
         number of virtual CPUs, or the policy spread, which distributes them evenly"
    )
}

/// Reason why the guest cannot see clusters, and the part of the request that can change it.
type NoClusters = (String, Option<Remedy>);

/// Returns `Ok` if the QEMU and libvirt in use support clusters for this guest, or else why not.
fn supports_clusters(input: &PlanInput) -> Result<(), NoClusters> {
    match (input.arch.as_str(), input.request.qemu) {
        ("aarch64", Some(qemu)) if qemu >= CLUSTERS_ON_ARM => libvirt_supports_clusters(input),
        ("aarch64", Some(qemu)) => {
            Err((format!("QEMU {qemu} does not support clusters, {CLUSTERS_ON_ARM} and later do"), None))
        }
        ("aarch64", None) => {
            Err(("QEMU's version is unknown: state it".to_owned(), Some(Remedy::QemuVersion)))
        }
        (_, Some(qemu)) if qemu < MODULES_ON_X86 => {
            let why =
                format!("QEMU {qemu} does not support them on x86, {MODULES_ON_X86} and later have modules");
            Err((why, None))
        }
        _ => Err((
            "QEMU calls them modules on x86, which libvirt's <topology> does not support".to_owned(),
            None,
        )),
    }
}

fn libvirt_supports_clusters(input: &PlanInput) -> Result<(), NoClusters> {
    let there = input.xml.at(&["cpu", "topology"]);
    let has = there.is_some_and(|topology| topology.has_attribute("clusters"));
    match input.request.libvirt {
        _ if has || input.request.dialect == LibvirtDialect::OpenEuler => Ok(()),
        Some(libvirt) if libvirt >= CLUSTERS_IN_LIBVIRT => Ok(()),
        Some(libvirt) => Err((
            format!(
                "libvirt {libvirt} does not support them, {CLUSTERS_IN_LIBVIRT} and later do; if a distributor has \
                 added them to yours, state version {CLUSTERS_IN_LIBVIRT}"
            ),
            Some(Remedy::LibvirtVersion),
        )),
        None => Err(("libvirt's version is unknown: state it".to_owned(), Some(Remedy::LibvirtVersion))),
    }
}

/// Returns the number of threads per core. A virtual CPU that may use several cores counts as a core of its
/// own.
fn size_of_cores(locations: &[TopologyLocation], most: u32) -> u32 {
    let alone =
        |at: usize, place: &TopologyLocation| place.core.map_or((None, Some(at)), |core| (Some(core), None));
    level_size(locations.iter().enumerate().map(|(at, place)| Some(alone(at, place))), most)
}

/// Returns the largest size that divides each run within one group, and the size of the level above. If a
/// virtual CPU is in no group, returns the size of the level above, which leaves the level out.
fn level_size<G: PartialEq>(groups: impl Iterator<Item = Option<G>>, above: u32) -> u32 {
    let (mut runs, mut length, mut last) = (above, 0, None);
    for group in groups {
        if group.is_none() {
            return above;
        }
        if last.is_some() && group != last {
            runs = gcd(runs, length);
            length = 0;
        }
        length += 1;
        last = group;
    }
    gcd(runs, length).max(1)
}

/// Returns the greatest common divisor.
fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
