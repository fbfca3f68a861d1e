//! Findings about memory bandwidth and latency.

use super::{Finding, FindingKind, kind_of_estimate};
use crate::{MemoryBandwidth, NodeRoute, StreamPoint, wording::times};
use manycore_experiment::record::id::TIMES_CACHES;
use manycore_stats::Estimate;
use manycore_text::units::{bytes, counted, interval};

/// Share of the highest rate from which more workers bring no noticeable gain.
const NEARLY_ALL: f64 = 0.95;

/// Ratio from which a difference is reported.
const MIN_REPORTED_RATIO: f64 = 1.1;

pub(super) fn find(streaming: &MemoryBandwidth) -> Vec<Finding> {
    let parts =
        small_arrays(streaming).into_iter().chain(peak_bandwidth(streaming)).chain(loaded_latency(streaming));
    parts.chain(remote_memory(streaming)).collect()
}

fn finding(kind: FindingKind, text: String, evidence: Vec<String>) -> Finding {
    Finding::new(kind, "stream", text, evidence)
}

fn gigabytes(rate: f64) -> String {
    format!("{:.1} GB/s", rate / 1e9)
}

fn rate(estimate: &Estimate) -> String {
    let ends = interval(estimate.interval, |end| format!("{:.1}", end / 1e9));
    format!("{} ({ends})", gigabytes(estimate.median))
}

fn ns(estimate: &Estimate) -> String {
    let ends = interval(estimate.interval, |end| format!("{end:.0}"));
    format!("{:.0} ns ({ends})", estimate.median)
}

fn small_arrays(streaming: &MemoryBandwidth) -> Option<Finding> {
    let (array, caches) = streaming.array_bytes.zip(streaming.caches_bytes)?;
    streaming.arrays_too_small().then(|| {
        let text = format!(
            "The arrays are too small for these caches: part of the data came from caches, so memory is \
             slower than shown. An array should have {TIMES_CACHES} times the size of the last-level caches."
        );
        let evidence = format!("{} in an array, {} of last-level caches", bytes(array), bytes(caches));
        finding(FindingKind::Warning, text, vec![evidence])
    })
}

/// Reports the highest rate of a node, and the fewest workers that nearly reach it.
fn peak_bandwidth(streaming: &MemoryBandwidth) -> Option<Finding> {
    // A kernel that was measured with only one number of workers has nothing to compare.
    let several = |point: &&StreamPoint| {
        streaming.points.iter().any(|other| other.title() == point.title() && other.workers != point.workers)
    };
    let fastest = |a: &&StreamPoint, b: &&StreamPoint| a.rate.median.total_cmp(&b.rate.median);
    let points = || streaming.points.iter();
    let best = points().filter(several).max_by(fastest).or_else(|| points().max_by(fastest))?;
    let same = |point: &&StreamPoint| point.title() == best.title();
    let mut points: Vec<&StreamPoint> = streaming.points.iter().filter(same).collect();
    points.sort_by_key(|point| point.workers);
    let one = points.first()?;
    let enough = points.iter().find(|point| point.rate.median >= NEARLY_ALL * best.rate.median)?;
    let largest = points.last()?;
    let whose = streaming.measured_nodes.map_or_else(String::new, |(node, _)| format!(" of node {node}"));
    let text = match (largest.workers, enough.workers) {
        (all, _) if points.len() == 1 => {
            let verb = if all == 1 { "moves" } else { "move" };
            format!(
                "{}{whose} {verb} {} ({}).",
                counted(all, "worker"),
                gigabytes(best.rate.median),
                best.title()
            )
        }
        (all, few) if few < all => format!(
            "{}{whose} move {} ({}), nearly as much as {all} do.",
            counted(few, "worker"),
            gigabytes(enough.rate.median),
            best.title()
        ),
        (all, _) => format!(
            "{all} workers{whose} move {} ({}), one alone {}.",
            gigabytes(largest.rate.median),
            best.title(),
            gigabytes(one.rate.median)
        ),
    };
    let evidence = points.iter().map(|point| {
        let over = point.speedup.as_ref().map(|over| format!(", {} that of one", times(over)));
        format!("{}: {}{}", counted(point.workers, "worker"), rate(&point.rate), over.unwrap_or_default())
    });
    let kind = kind_of_estimate(&best.rate).max(kind_of_estimate(&enough.rate));
    Some(finding(kind, text, evidence.collect()))
}

/// Iterates over the routes from CPUs to the memory of their own node.
fn local_routes(streaming: &MemoryBandwidth) -> impl Iterator<Item = &NodeRoute> {
    streaming.routes.iter().filter(|route| route.from == route.to)
}

/// Reports how much longer a load takes while the other CPUs read.
fn loaded_latency(streaming: &MemoryBandwidth) -> Option<Finding> {
    let slower = |route: &&NodeRoute| Some(route.loaded_ns?.median / route.idle_ns?.median);
    let worst = local_routes(streaming)
        .filter(|route| slower(route).is_some())
        .max_by(|a, b| slower(a).unwrap_or(0.0).total_cmp(&slower(b).unwrap_or(0.0)))?;
    let (idle, under) = (worst.idle_ns?, worst.loaded_ns?);
    let text = format!(
        "A load from local memory takes {:.0} ns, and {:.0} ns under load, while the other CPUs of node {} read {}.",
        idle.median,
        under.median,
        worst.from,
        gigabytes(worst.loaded_bytes_per_second.unwrap_or(0.0))
    );
    let kind = kind_of_estimate(&idle).max(kind_of_estimate(&under));
    Some(finding(kind, text, vec![format!("idle {}, under load {}", ns(&idle), ns(&under))]))
}

/// Returns `a` over `b` where it is certainly above 1.
fn certainly_above(a: &Estimate, b: &Estimate) -> Option<f64> {
    (a.interval?.0 > b.interval?.1).then(|| a.median / b.median)
}

/// Reports the cost of another node's memory.
fn remote_memory(streaming: &MemoryBandwidth) -> Option<Finding> {
    let near = |from: u32| streaming.route(from, from);
    let others = || streaming.routes.iter().filter(|route| route.from != route.to);
    let slower = |route: &NodeRoute| certainly_above(&route.idle_ns?, &near(route.from)?.idle_ns?);
    let less =
        |route: &NodeRoute| certainly_above(&near(route.from)?.rate?, &route.rate?).map(|ratio| 1.0 / ratio);
    let latest =
        others().filter_map(|route| Some((slower(route)?, route))).max_by(|a, b| a.0.total_cmp(&b.0));
    let least = others().filter_map(|route| Some((less(route)?, route))).min_by(|a, b| a.0.total_cmp(&b.0));
    let mut parts = Vec::new();
    let mut evidence = Vec::new();
    if let Some((ratio, route)) = latest.filter(|(ratio, _)| *ratio > MIN_REPORTED_RATIO) {
        parts.push(format!(
            "loads take up to {ratio:.1} times as long (node {} to node {})",
            route.from, route.to
        ));
        evidence.extend(
            route.idle_ns.map(|far| format!("idle, from {} to {}: {}", route.from, route.to, ns(&far))),
        );
    }
    if let Some((ratio, route)) = least.filter(|(ratio, _)| *ratio * MIN_REPORTED_RATIO < 1.0) {
        parts.push(format!(
            "as little as {:.0} % of the bandwidth is left (node {} to node {})",
            ratio * 100.0,
            route.from,
            route.to
        ));
        evidence.extend(route.rate.map(|far| format!("from {} to {}: {}", route.from, route.to, rate(&far))));
    }
    (!parts.is_empty()).then(|| {
        let text = format!(
            "Remote memory is slower: {}. Keep memory on the node of the CPUs that use it.",
            parts.join(", and ")
        );
        finding(FindingKind::Advice, text, evidence)
    })
}
