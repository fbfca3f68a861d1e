//! Findings about contention, and what to do about it.

use super::{Finding, FindingKind, kind_of_difference, kind_of_estimate, scaling::ratio};
use crate::{
    ContentionPoint, Evaluation, LoadContention, ProgramComparison, UnixBench,
    wording::{percent, times},
};
use manycore_stats::verdict::{Answer, Verdict};
use manycore_text::names::list;

/// Locks that are granted in FIFO order.
const FIFO_LOCKS: [&str; 2] = ["ticket", "mcs"];

/// Share of the best other lock's rate below which a FIFO lock is far behind.
const FAR_BEHIND: f64 = 0.05;

pub(super) fn find(evaluation: &Evaluation, cpus: usize) -> Vec<Finding> {
    let loads = evaluation.contention.iter();
    loads
        .flat_map(|load| {
            let found = total_throughput(load, cpus).into_iter().chain(slow_fifo_locks(load, cpus));
            found.chain(pipe_round_trip(load)).chain(peers(load))
        })
        .collect()
}

/// Returns the point of a variant with the most workers that can have a CPU each.
pub(crate) fn widest_point<'a>(
    load: &'a LoadContention,
    variant: &str,
    cpus: usize,
) -> Option<&'a ContentionPoint> {
    load.points
        .iter()
        .filter(|point| {
            point.variant == variant && point.workers <= cpus && point.relative_to_smallest.is_some()
        })
        .max_by_key(|point| point.workers)
}

fn variants(load: &LoadContention) -> Vec<&str> {
    let mut variants: Vec<&str> = load.points.iter().map(|point| point.variant.as_str()).collect();
    variants.dedup();
    variants
}

/// Compares the throughput of all workers in total with that of the smallest number of workers.
fn total_throughput(load: &LoadContention, cpus: usize) -> Option<Finding> {
    let points: Vec<&ContentionPoint> =
        variants(load).into_iter().filter_map(|variant| widest_point(load, variant, cpus)).collect();
    let evidence = points.iter().filter_map(|point| {
        let verdict = point.relative_to_smallest.as_ref()?;
        Some(ratio(
            verdict,
            &format!(
                "{}, {} {} relative to the smallest count",
                point.variant, point.workers, load.worker_noun
            ),
        ))
    });
    let evidence = evidence.collect();
    match load.load.as_str() {
        "counter" => counter(&points, evidence),
        "lock" => lock(&points),
        _ => other_load(load, &points, evidence),
    }
}

fn counter(points: &[&ContentionPoint], evidence: Vec<String>) -> Option<Finding> {
    let shared = points.iter().find(|point| point.variant == "shared")?;
    let verdict = shared.relative_to_smallest.as_ref()?;
    let others: Vec<String> = points
        .iter()
        .filter(|point| point.variant != "shared")
        .filter_map(|point| {
            Some(format!("{}: {:.2} times", point.variant, point.relative_to_smallest.as_ref()?.ratio))
        })
        .collect();
    let done =
        format!("{} workers on one atomic do {:.2} times the work of one", shared.workers, verdict.ratio);
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let (kind, text) = match verdict.answer {
        Answer::ABetter if kind_of_difference(verdict) == FindingKind::Advice => (
            FindingKind::Advice,
            format!(
                "For a counter that threads update often, use one per CPU and sum them on reading: {done}, so that \
                 contention costs more than additional CPUs gain{others}."
            ),
        ),
        _ => (kind_of_estimate(&shared.rate), format!("{done}{others}.")),
    };
    Some(Finding::new(kind, "contention", text, evidence))
}

/// Formats operations per second.
fn per_second(rate: f64) -> String {
    if rate > 0.0 { format!("{rate:.3e}/s") } else { "none at all".to_owned() }
}

/// Names the lock with the most acquisitions, where the intervals decide it.
fn lock(points: &[&ContentionPoint]) -> Option<Finding> {
    let best = points.iter().find(|point| point.relative_to_best.is_none())?;
    let others = || points.iter().filter_map(|point| Some((point, point.relative_to_best.as_ref()?)));
    let behind = |verdict: &Verdict| verdict.answer == Answer::ABetter;
    let undecided: Vec<String> =
        others().filter(|(_, verdict)| !behind(verdict)).map(|(point, _)| point.variant.clone()).collect();
    let each = points.iter().map(|point| {
        let fair = point.fairness.map(|index| format!(", fairness {index:.2}")).unwrap_or_default();
        format!("{}: {}{fair}", point.variant, per_second(point.rate.median))
    });
    let mut evidence: Vec<String> = each.collect();
    evidence.extend(others().map(|(point, verdict)| {
        ratio(verdict, &format!("{} over {}, {} workers", point.variant, best.variant, best.workers))
    }));
    let (kind, text) = match &undecided[..] {
        [] if others().count() > 0 => (
            kind_of_estimate(&best.rate),
            format!(
                "With {} workers contending for one lock, {} gives the most acquisitions.",
                best.workers, best.variant
            ),
        ),
        [] => return None,
        _ => (
            FindingKind::Doubtful,
            format!(
                "Which lock gives {} contending workers the most acquisitions, {} or {}, is inconclusive.",
                best.workers,
                best.variant,
                list(&undecided)
            ),
        ),
    };
    Some(Finding::new(kind, "contention", text, evidence))
}

/// Reports FIFO locks whose rate is certainly far below that of locks that any worker may take.
fn slow_fifo_locks(load: &LoadContention, cpus: usize) -> Option<Finding> {
    if load.load != "lock" {
        return None;
    }
    let behind: Vec<(&ContentionPoint, f64)> = load
        .points
        .iter()
        .filter(|point| FIFO_LOCKS.contains(&point.variant.as_str()))
        .filter_map(|point| {
            let any = load.points.iter().filter(|other| other.workers == point.workers);
            let best = any
                .filter(|other| !FIFO_LOCKS.contains(&other.variant.as_str()))
                .max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))?;
            let (most, least) = (point.rate.interval?.1, best.rate.interval?.0);
            (most < FAR_BEHIND * least).then_some((point, point.rate.median / best.rate.median))
        })
        .collect();
    let evidence = behind.iter().map(|(point, share)| {
        let done = per_second(point.rate.median);
        format!(
            "{}, {} workers: {done}, {} of the best other lock",
            point.variant,
            point.workers,
            percent(*share)
        )
    });
    let evidence = evidence.collect();
    let (kind, text) = if behind.iter().any(|(point, _)| point.workers > cpus) {
        (
            FindingKind::Advice,
            "Avoid FIFO locks (ticket, mcs) where there can be more workers than CPUs: a waiter that is not running \
             blocks all waiters behind it.",
        )
    } else {
        (
            FindingKind::Fact,
            "FIFO locks (ticket, mcs) were far slower than others, although each worker could have a CPU.",
        )
    };
    (!behind.is_empty()).then(|| Finding::new(kind, "contention", text.to_owned(), evidence))
}

fn other_load(load: &LoadContention, points: &[&ContentionPoint], evidence: Vec<String>) -> Option<Finding> {
    let done: Vec<String> = points
        .iter()
        .filter_map(|point| {
            Some(format!("{:.2} times ({})", point.relative_to_smallest.as_ref()?.ratio, point.variant))
        })
        .collect();
    let most = points.iter().max_by_key(|point| point.workers)?;
    let text = format!(
        "{}: {} {} do {} the operations of the smallest count.",
        load.load,
        most.workers,
        load.worker_noun,
        done.join(", ")
    );
    Some(Finding::new(kind_of_estimate(&most.rate), "contention", text, evidence))
}

/// Reports the time of a round trip through pipes.
fn pipe_round_trip(load: &LoadContention) -> Option<Finding> {
    if load.load != "pipe" {
        return None;
    }
    let one = load.points.iter().find(|point| point.workers == 1 && point.rate.median > 0.0)?;
    let micros = |rate: f64| 1e6 / rate;
    let evidence =
        load.pairs.iter().map(|pair| format!("{}: {:.1} us", pair.title(), micros(pair.rate.median)));
    let index = load.unixbench.as_ref().map(unixbench_index).unwrap_or_default();
    Some(Finding::new(
        kind_of_estimate(&one.rate),
        "contention",
        format!(
            "A round trip of 8 bytes through pipes takes {:.1} us where the scheduler places both processes{index}.",
            micros(one.rate.median)
        ),
        evidence.collect(),
    ))
}

fn unixbench_index(unixbench: &UnixBench) -> String {
    let of = if unixbench.exact {
        "as UnixBench measures it".to_owned()
    } else {
        format!("from {} passes of {} s instead of ten of 10 s", unixbench.passes, unixbench.seconds)
    };
    format!("; UnixBench's index is {:.0}, {of}", unixbench.index)
}

fn peers(load: &LoadContention) -> impl Iterator<Item = Finding> {
    let ran = |peer: &&ProgramComparison| peer.built_in.median > 0.0 && peer.other.median > 0.0;
    load.against_other.iter().filter(ran).filter_map(|peer| {
        let (program, ratio) = (load.other_program.as_ref()?, peer.ratio.as_ref()?);
        let text = format!(
            "{} with {} {}: the built-in load does {:.3} times the operations of {program}.",
            load.load,
            peer.workers,
            if peer.workers == 1 { load.worker_noun.trim_end_matches('s') } else { &load.worker_noun },
            ratio.median
        );
        let evidence = vec![format!("{} pairs, {}", peer.pairs, times(ratio))];
        Some(Finding::new(kind_of_estimate(ratio), "contention", text, evidence))
    })
}
