//! Lines about the machine: conditions, noise, arithmetic, caches and memory.

use super::{Line, SummaryMark, found, next, workers};
use crate::{
    Evaluation, FindingKind, MemoryBandwidth, NoiseFloor, StreamPoint, disturbance,
    wording::{percent, times},
};
use manycore_experiment::{Record, record::id::TIMES_CACHES};
use manycore_stats::verdict::EQUIVALENCE_MARGIN;
use manycore_text::{names::list, units::interval};
use manycore_topology::distance::TopologyDistance;

/// Largest difference from 1 at which the figures of two programs are comparable.
const COMPARABLE: f64 = 0.03;

const MEBIBYTE: u64 = 1 << 20;

pub(super) fn conditions(record: &Record, evaluation: &Evaluation) -> Line {
    let whole = disturbance::of_record(record);
    let exceeded = whole.exceeded_limits();
    let audit = next::audit(&whole);
    let warnings: Vec<&str> = evaluation
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Warning && finding.topic == "conditions")
        .map(|finding| finding.text.as_str())
        .collect();
    if !exceeded.is_empty() {
        let text = format!("No: {}. Measure again on a quieter machine.", list(&exceeded));
        return Line::new(SummaryMark::Attention, text).then(audit);
    }
    if let Some(first) = warnings.first() {
        let more = match warnings.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more below)"),
        };
        return Line::new(SummaryMark::Attention, format!("{first}{more}")).then(audit);
    }
    let share = |share: Option<f64>, what: &str| share.map(|share| format!("{what} took {}", percent(share)));
    let known: Vec<String> = [share(whole.other_work, "other work"), share(whole.steal, "the hypervisor")]
        .into_iter()
        .flatten()
        .collect();
    if known.is_empty() {
        return Line::new(
            SummaryMark::Neutral,
            "Unknown: this record does not show how much CPU time other work took.",
        );
    }
    Line::new(SummaryMark::Good, format!("Yes: {} of the CPU time.", list(&known)))
}

pub(super) fn noise(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let detectable = |noise: &&NoiseFloor| noise.minimum_detectable_effect.unwrap_or(f64::INFINITY);
    let worst = evaluation.noise.iter().max_by(|a, b| detectable(a).total_cmp(&detectable(b)))?;
    let ends = interval(worst.ratio.interval, |end| format!("{end:.4}"));
    let ratio = format!("B over A is {:.4} ({ends}) with {}", worst.ratio.median, workers(worst.workers));
    let again = next::evaluate_again(record, "noise");
    Some(match worst.minimum_detectable_effect {
        None => {
            let text = format!("Unknown: {ratio}; at least six pairs would show it.");
            Line::new(SummaryMark::Neutral, text).then(again)
        }
        Some(effect) if effect <= EQUIVALENCE_MARGIN => {
            Line::new(SummaryMark::Good, format!("{ratio}. Effects from {} on are found.", percent(effect)))
        }
        Some(effect) => {
            let text =
                format!("{ratio}. Effects below {} may be missed; more pairs find them.", percent(effect));
            Line::new(SummaryMark::Attention, text).then(again)
        }
    })
}

pub(super) fn matrix(evaluation: &Evaluation) -> Option<Line> {
    let point = evaluation.matrix.last()?;
    let advice = [FindingKind::Warning, FindingKind::Advice]
        .into_iter()
        .find_map(|kind| found(evaluation, kind, "matrix"));
    if let Some(advice) = advice {
        return Some(Line::new(SummaryMark::Attention, advice));
    }
    let ends = interval(point.one_gflops.interval, |end| format!("{end:.1}"));
    let share = |peak: f64| format!(", {} of its peak", percent(point.one_gflops.median / peak));
    let together = point.speedup.as_ref().map(|speedup| {
        format!("; {} processes at once do {} the work of one", point.processes, times(speedup))
    });
    let text = format!(
        "{0} x {0} matrices: {1:.1} GFLOPS ({ends}) on one core{2}{3}.",
        point.size,
        point.one_gflops.median,
        point.peak_gflops.map(share).unwrap_or_default(),
        together.unwrap_or_default()
    );
    Some(Line::new(SummaryMark::Neutral, text))
}

pub(super) fn latency(evaluation: &Evaluation) -> Option<Line> {
    let latency = evaluation.latency.as_ref()?;
    let listed: Vec<String> = latency
        .distances
        .iter()
        .map(|at| {
            let (low, high) = at.quartiles_ns;
            format!(
                "{} {} (quartiles {} to {})",
                sharing(at.distance),
                ns(at.median_ns),
                number(low),
                number(high)
            )
        })
        .collect();
    let text = format!("{}.", listed.join("; "));
    let trouble = [FindingKind::Warning, FindingKind::Advice]
        .into_iter()
        .find_map(|kind| found(evaluation, kind, "latency"));
    Some(match trouble {
        Some(trouble) => Line::new(SummaryMark::Attention, format!("{text} {}", first_sentence(trouble)))
            .then("manycore topo".to_owned()),
        None => Line::new(SummaryMark::Neutral, text),
    })
}

fn sharing(distance: TopologyDistance) -> &'static str {
    match distance {
        TopologyDistance::Core => "SMT siblings",
        TopologyDistance::Cluster => "one cluster",
        TopologyDistance::Llc => "one last-level cache",
        TopologyDistance::Node => "one node",
        TopologyDistance::Remote => "different nodes",
    }
}

fn ns(value: f64) -> String {
    format!("{} ns", number(value))
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

pub(super) fn stream(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let streaming = evaluation.stream.as_ref()?;
    let text = peak(streaming).or_else(|| idle(streaming))?;
    if streaming.arrays_too_small() {
        let size = streaming.caches_bytes.map(|bytes| (bytes * TIMES_CACHES).div_ceil(MEBIBYTE));
        let again = size.map(|size| format!("manycore bench stream --array {size}M"));
        let text = format!("{text} The arrays are too small for these caches, so memory itself is slower.");
        return Some(Line::new(SummaryMark::Attention, text).then(again));
    }
    Some(match found(evaluation, FindingKind::Advice, "stream") {
        Some(remote) => Line::new(SummaryMark::Attention, format!("{text} {}", first_sentence(remote)))
            .then(next::for_command("tune", record)),
        None => Line::new(SummaryMark::Neutral, text),
    })
}

/// Describes the highest rate of a node.
fn peak(streaming: &MemoryBandwidth) -> Option<String> {
    let best: &StreamPoint =
        streaming.points.iter().max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))?;
    let ends = interval(best.rate.interval, |end| format!("{:.1}", end / 1e9));
    let whose = streaming.measured_nodes.map_or_else(String::new, |(node, _)| format!(" of node {node}"));
    let moves = if best.workers == 1 { "moves" } else { "move" };
    Some(format!(
        "{}{whose} {moves} {:.1} GB/s ({ends}; {}).",
        capitalised(&workers(best.workers)),
        best.rate.median / 1e9,
        best.title()
    ))
}

/// Describes the time of a load from local memory, where bandwidth was not measured.
fn idle(streaming: &MemoryBandwidth) -> Option<String> {
    let mut local = streaming.routes.iter().filter(|route| route.from == route.to);
    let time = local.find_map(|route| route.idle_ns)?;
    let ends = interval(time.interval, |end| format!("{end:.0}"));
    Some(format!("A load from local memory takes {:.0} ns ({ends}).", time.median))
}

/// Returns the first sentence of a finding: the figures. What to do about it is in the section.
fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().map_or(text, str::trim_end)
}

fn capitalised(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(super) fn sysbench(evaluation: &Evaluation) -> Option<Line> {
    let peer = evaluation.sysbench.iter().max_by_key(|peer| peer.workers)?;
    let Some(ratio) = &peer.ratio else {
        let text = format!("Unknown: {} pairs are too few; six would show it.", peer.pairs);
        return Some(Line::new(SummaryMark::Neutral, text));
    };
    let near = |end: f64| (end - 1.0).abs() <= COMPARABLE;
    let (mark, word) = match ratio.interval {
        Some((low, high)) if near(low) && near(high) => (SummaryMark::Good, "Yes"),
        Some((low, high)) if low > 1.0 + COMPARABLE || high < 1.0 - COMPARABLE => {
            (SummaryMark::Neutral, "No")
        }
        _ => (SummaryMark::Neutral, "Inconclusive"),
    };
    let text = format!("{word}: {} the rate of sysbench with {}.", times(ratio), workers(peer.workers));
    Some(Line::new(mark, text))
}
