//! Findings about core-to-core latency, and what it shows about the topology.

use super::{Finding, FindingKind};
use crate::{
    CoreLatency, PairLatency,
    latency::{CpuGrouping, DistanceLatency, DistantCpu},
    wording::percent,
};
use manycore_experiment::Record;
use manycore_text::names::list;
use manycore_topology::distance::TopologyDistance;

/// Relative width of a pair's interval up to which its visits agree.
const MAX_RELATIVE_WIDTH: f64 = 0.25;

/// Number of groups that are listed one by one.
const MAX_LISTED_GROUPS: usize = 4;

pub(super) fn find(record: &Record, latency: &CoreLatency) -> Vec<Finding> {
    let guest = record.machine.system.hypervisor.is_some();
    let mut findings: Vec<Finding> = latency_by_distance(latency, guest).into_iter().collect();
    findings.extend(latency.unreported_groups.iter().map(|grouping| unreported_groups(grouping, latency)));
    findings.extend(distant_cpus(&latency.distant_cpus, latency));
    findings.extend(
        latency.equal_distances.iter().filter_map(|&(near, far)| equal_distances(near, far, guest, latency)),
    );
    findings
}

fn finding(kind: FindingKind, text: String, evidence: Vec<String>) -> Finding {
    Finding::new(kind, "latency", text, evidence)
}

/// Formats a time with the precision at which it is usually compared.
fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ns") } else { format!("{value:.0} ns") }
}

/// Describes the pairs at a distance.
fn pairs_of(distance: TopologyDistance) -> &'static str {
    match distance {
        TopologyDistance::Core => "SMT siblings",
        TopologyDistance::Cluster => "CPUs of one cluster",
        TopologyDistance::Llc => "CPUs of one last-level cache",
        TopologyDistance::Node => "CPUs of one node",
        TopologyDistance::Remote => "CPUs of different nodes",
    }
}

fn noise(latency: &CoreLatency) -> String {
    latency.noise.map_or_else(
        || "too few pairs or visits to estimate the noise of a figure".to_owned(),
        |noise| format!("noise of a figure: {}", percent(noise)),
    )
}

fn latency_by_distance(latency: &CoreLatency, guest: bool) -> Option<Finding> {
    let listed: Vec<String> = latency
        .distances
        .iter()
        .map(|at| format!("{} between {}", ns(at.median_ns), pairs_of(at.distance)))
        .collect();
    let evidence = |at: &DistanceLatency| {
        let (low, high) = at.range_ns;
        let pairs = if at.pairs == 1 { "pair" } else { "pairs" };
        format!("{}: {} {pairs}, {} to {}", pairs_of(at.distance), at.pairs, ns(low), ns(high))
    };
    let text = format!("Core-to-core latency is {}.", list(&listed));
    let kind = if is_settled(latency) { FindingKind::Fact } else { FindingKind::Doubtful };
    let moved = guest.then(|| {
        "valid for this measurement only: the hypervisor may move these CPUs to other CPUs of the host"
            .to_owned()
    });
    let lines = latency.distances.iter().map(evidence).chain([noise(latency)]).chain(moved).collect();
    (!listed.is_empty()).then(|| finding(kind, text, lines))
}

/// Returns whether repeated visits to the same pair gave the same figure.
fn is_settled(latency: &CoreLatency) -> bool {
    let narrow = |pair: &PairLatency| {
        pair.interval_ns.is_some_and(|(low, high)| high <= low * (1.0 + MAX_RELATIVE_WIDTH))
    };
    latency.noise.map_or_else(|| latency.pairs.iter().all(narrow), |noise| noise <= MAX_RELATIVE_WIDTH)
}

fn unreported_groups(grouping: &CpuGrouping, latency: &CoreLatency) -> Finding {
    let mut named: Vec<String> =
        grouping.groups.iter().take(MAX_LISTED_GROUPS).map(|group| format!("CPUs {group}")).collect();
    if grouping.groups.len() > MAX_LISTED_GROUPS {
        named.push(format!("{} more", grouping.groups.len() - MAX_LISTED_GROUPS));
    }
    let like = if grouping.groups.iter().all(|group| group.len() == 2) {
        ", as SMT siblings or cores with a common L2 are"
    } else {
        ""
    };
    let shared = match grouping.within {
        TopologyDistance::Core | TopologyDistance::Cluster => "one cluster",
        TopologyDistance::Llc => "one last-level cache",
        TopologyDistance::Node => "one node and no cache",
        TopologyDistance::Remote => "nothing",
    };
    let text = format!(
        "The kernel does not report these groups: {} are nearer to each other than to the rest{like}, although all \
         these CPUs share {shared} according to the kernel. Keep threads that share data inside one group.",
        list(&named)
    );
    let evidence = format!(
        "{} inside groups, {} between them: {:.1} times as long",
        ns(grouping.inside_ns),
        ns(grouping.between_ns),
        grouping.between_ns / grouping.inside_ns
    );
    finding(FindingKind::Advice, text, vec![evidence, noise(latency)])
}

fn distant_cpus(far: &[DistantCpu], latency: &CoreLatency) -> Option<Finding> {
    let cpus: manycore_topology::CpuSet = far.iter().map(|far| far.cpu).collect();
    let (which, their, them) = match far {
        [] => return None,
        [one] => (format!("CPU {} is", one.cpu), "its", "it"),
        _ => (format!("CPUs {cpus} are"), "their", "them"),
    };
    let evidence = far
        .iter()
        .map(|far| format!("CPU {}: {:.1} times the usual latency at its distance", far.cpu, far.ratio));
    let text = format!(
        "{which} far from all other CPUs: {their} latency is higher than that of other pairs at the same distance. \
         Possible causes are a lower clock, other work, or a hypervisor that gives {them} less time."
    );
    Some(finding(FindingKind::Warning, text, evidence.chain([noise(latency)]).collect()))
}

fn equal_distances(
    near: TopologyDistance,
    far: TopologyDistance,
    guest: bool,
    latency: &CoreLatency,
) -> Option<Finding> {
    let median =
        |distance| latency.distances.iter().find(|at| at.distance == distance).map(|at| at.median_ns);
    let evidence = vec![format!("{} and {}", ns(median(near)?), ns(median(far)?)), noise(latency)];
    let same = format!("{} are no nearer to each other than {}", pairs_of(near), pairs_of(far));
    Some(match (near, guest) {
        (TopologyDistance::Core, true) => finding(
            FindingKind::Warning,
            format!(
                "{same}: the hypervisor reports SMT siblings that do not share a core, or does not pin them to one."
            ),
            evidence,
        ),
        _ => finding(
            FindingKind::Fact,
            format!("{same}: for core-to-core latency it does not matter which of the two are used."),
            evidence,
        ),
    })
}
