//! What the figures of pairs of CPUs tell, and what they tell about the topology.

use super::{Finding, Kind};
use crate::{
    CoreLatency, PairLatency,
    latency::{AtDistance, Far, Grouping},
    words::percent,
};
use manycore_experiment::Record;
use manycore_text::names::list;
use manycore_topology::distance::Distance;

/// Relative width up to which the figures of a pair agree.
const SETTLED: f64 = 0.25;

/// Groups that are named one by one.
const NAMED: usize = 4;

pub(super) fn find(record: &Record, latency: &CoreLatency) -> Vec<Finding> {
    let guest = record.machine.system.hypervisor.is_some();
    let mut findings: Vec<Finding> = figures(latency, guest).into_iter().collect();
    findings.extend(latency.hidden.iter().map(|grouping| hidden(grouping, latency)));
    findings.extend(far(&latency.far, latency));
    findings.extend(latency.alike.iter().filter_map(|&(near, far)| alike(near, far, guest, latency)));
    findings
}

fn finding(kind: Kind, text: String, evidence: Vec<String>) -> Finding {
    Finding::new(kind, "latency", text, evidence)
}

/// A time as people compare it.
fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ns") } else { format!("{value:.0} ns") }
}

/// How the pairs of a distance are called.
fn pairs_of(distance: Distance) -> &'static str {
    match distance {
        Distance::Core => "SMT siblings",
        Distance::Cluster => "CPUs of one cluster",
        Distance::Llc => "CPUs of one last-level cache",
        Distance::Node => "CPUs of one node",
        Distance::Remote => "CPUs of different nodes",
    }
}

fn noise(latency: &CoreLatency) -> String {
    latency.noise.map_or_else(
        || "too few pairs or visits to tell the noise of a figure".to_owned(),
        |noise| format!("noise of a figure: {}", percent(noise)),
    )
}

fn figures(latency: &CoreLatency, guest: bool) -> Option<Finding> {
    let told: Vec<String> = latency
        .distances
        .iter()
        .map(|at| format!("{} between {}", ns(at.median_ns), pairs_of(at.distance)))
        .collect();
    let evidence = |at: &AtDistance| {
        let (low, high) = at.range_ns;
        let pairs = if at.pairs == 1 { "pair" } else { "pairs" };
        format!("{}: {} {pairs}, {} to {}", pairs_of(at.distance), at.pairs, ns(low), ns(high))
    };
    let text = format!("A cache line takes {}.", list(&told));
    let kind = if is_settled(latency) { Kind::Fact } else { Kind::Doubtful };
    let moved = guest.then(|| {
        "figures of this run: the hypervisor may run these CPUs on others of the host at another time"
            .to_owned()
    });
    let lines = latency.distances.iter().map(evidence).chain([noise(latency)]).chain(moved).collect();
    (!told.is_empty()).then(|| finding(kind, text, lines))
}

/// Whether visits to one and the same pair gave the same figure.
fn is_settled(latency: &CoreLatency) -> bool {
    let narrow =
        |pair: &PairLatency| pair.interval_ns.is_some_and(|(low, high)| high <= low * (1.0 + SETTLED));
    latency.noise.map_or_else(|| latency.pairs.iter().all(narrow), |noise| noise <= SETTLED)
}

fn hidden(grouping: &Grouping, latency: &CoreLatency) -> Finding {
    let mut named: Vec<String> =
        grouping.groups.iter().take(NAMED).map(|group| format!("CPUs {group}")).collect();
    if grouping.groups.len() > NAMED {
        named.push(format!("{} more", grouping.groups.len() - NAMED));
    }
    let like = if grouping.groups.iter().all(|group| group.len() == 2) {
        ", as SMT siblings or cores with a common L2 are"
    } else {
        ""
    };
    let shared = match grouping.within {
        Distance::Core | Distance::Cluster => "one cluster",
        Distance::Llc => "one last-level cache",
        Distance::Node => "one node and no cache",
        Distance::Remote => "nothing",
    };
    let text = format!(
        "There are groups that the kernel does not tell: {} are nearer to each other than to the rest{like}, though \
         all these CPUs share {shared} by what the kernel says. Keep threads that share data inside one group.",
        list(&named)
    );
    let evidence = format!(
        "{} inside groups, {} between them: {:.1} times as long",
        ns(grouping.inside_ns),
        ns(grouping.between_ns),
        grouping.between_ns / grouping.inside_ns
    );
    finding(Kind::Advice, text, vec![evidence, noise(latency)])
}

fn far(far: &[Far], latency: &CoreLatency) -> Option<Finding> {
    let cpus: manycore_topology::CpuSet = far.iter().map(|far| far.cpu).collect();
    let (which, their, them) = match far {
        [] => return None,
        [one] => (format!("CPU {} is", one.cpu), "its", "it"),
        _ => (format!("CPUs {cpus} are"), "their", "them"),
    };
    let evidence = far
        .iter()
        .map(|far| format!("CPU {}: {:.1} times as long as is usual at its distance", far.cpu, far.ratio));
    let text = format!(
        "{which} far from all other CPUs: {their} pairs take longer than others that share as much. A lower clock, a \
         busy neighbour or a hypervisor that gives {them} less time does that."
    );
    Some(finding(Kind::Warning, text, evidence.chain([noise(latency)]).collect()))
}

fn alike(near: Distance, far: Distance, guest: bool, latency: &CoreLatency) -> Option<Finding> {
    let median =
        |distance| latency.distances.iter().find(|at| at.distance == distance).map(|at| at.median_ns);
    let evidence = vec![format!("{} and {}", ns(median(near)?), ns(median(far)?)), noise(latency)];
    let same = format!("{} are no nearer to each other than {}", pairs_of(near), pairs_of(far));
    Some(match (near, guest) {
        (Distance::Core, true) => finding(
            Kind::Warning,
            format!(
                "{same}: the hypervisor shows siblings that do not share a core, or does not bind them to one."
            ),
            evidence,
        ),
        _ => finding(
            Kind::Fact,
            format!("{same}: in this respect it does not matter which of both are taken."),
            evidence,
        ),
    })
}
