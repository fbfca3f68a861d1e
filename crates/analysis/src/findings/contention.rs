//! Findings about contention, and what to do about it.

use super::{Finding, Kind, scaling::ratio, seen, weight};
use crate::{
    Contention, ContentionPoint, Evaluation, Peer, UnixBench,
    words::{percent, times},
};
use manycore_stats::verdict::{Answer, Verdict};
use manycore_text::names::list;

/// Locks that are granted in FIFO order.
const IN_TURN: [&str; 2] = ["ticket", "mcs"];

/// Share of the best other lock's rate below which a FIFO lock is far behind.
const FAR_BEHIND: f64 = 0.05;

pub(super) fn find(evaluation: &Evaluation, cpus: usize) -> Vec<Finding> {
    let loads = evaluation.contention.iter();
    loads
        .flat_map(|load| {
            let told = together(load, cpus).into_iter().chain(held_up(load, cpus));
            told.chain(trip(load)).chain(peers(load))
        })
        .collect()
}

/// Returns the point of a variant with the most workers that can have a CPU each.
fn full<'a>(load: &'a Contention, variant: &str, cpus: usize) -> Option<&'a ContentionPoint> {
    load.points
        .iter()
        .filter(|point| point.variant == variant && point.workers <= cpus && point.over_fewest.is_some())
        .max_by_key(|point| point.workers)
}

fn variants(load: &Contention) -> Vec<&str> {
    let mut variants: Vec<&str> = load.points.iter().map(|point| point.variant.as_str()).collect();
    variants.dedup();
    variants
}

/// Compares the throughput of all workers in total with that of the smallest number of workers.
fn together(load: &Contention, cpus: usize) -> Option<Finding> {
    let points: Vec<&ContentionPoint> =
        variants(load).into_iter().filter_map(|variant| full(load, variant, cpus)).collect();
    let evidence = points.iter().filter_map(|point| {
        let verdict = point.over_fewest.as_ref()?;
        Some(ratio(
            verdict,
            &format!("{}, {} {} relative to the smallest count", point.variant, point.workers, load.counted),
        ))
    });
    let evidence = evidence.collect();
    match load.load.as_str() {
        "counter" => counter(&points, evidence),
        "lock" => lock(&points),
        _ => plain(load, &points, evidence),
    }
}

fn counter(points: &[&ContentionPoint], evidence: Vec<String>) -> Option<Finding> {
    let shared = points.iter().find(|point| point.variant == "shared")?;
    let verdict = shared.over_fewest.as_ref()?;
    let others: Vec<String> = points
        .iter()
        .filter(|point| point.variant != "shared")
        .filter_map(|point| {
            Some(format!("{}: {:.2} times", point.variant, point.over_fewest.as_ref()?.ratio))
        })
        .collect();
    let done =
        format!("{} workers on one atomic do {:.2} times the work of one", shared.workers, verdict.ratio);
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let (kind, text) = match verdict.verdict {
        Answer::ABetter if weight(verdict) == Kind::Advice => (
            Kind::Advice,
            format!(
                "Where threads count often, use one counter per CPU and add the counters up on reading: {done}, so that \
                 contention costs more than the other CPUs gain{others}."
            ),
        ),
        _ => (seen(&shared.rate), format!("{done}{others}.")),
    };
    Some(Finding::new(kind, "contention", text, evidence))
}

/// Formats operations per second.
fn per_second(rate: f64) -> String {
    if rate > 0.0 { format!("{rate:.3e}/s") } else { "none at all".to_owned() }
}

/// Names the lock with the most acquisitions, where the intervals decide it.
fn lock(points: &[&ContentionPoint]) -> Option<Finding> {
    let best = points.iter().find(|point| point.over_best.is_none())?;
    let others = || points.iter().filter_map(|point| Some((point, point.over_best.as_ref()?)));
    let behind = |verdict: &Verdict| verdict.verdict == Answer::ABetter;
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
            seen(&best.rate),
            format!(
                "With {} workers contending for one lock, {} gives the most acquisitions.",
                best.workers, best.variant
            ),
        ),
        [] => return None,
        _ => (
            Kind::Doubtful,
            format!(
                "Which lock gives {} contending workers the most acquisitions is not decided between {} and {}.",
                best.workers,
                best.variant,
                list(&undecided)
            ),
        ),
    };
    Some(Finding::new(kind, "contention", text, evidence))
}

/// Reports FIFO locks whose rate is certainly far below that of locks that any worker may take.
fn held_up(load: &Contention, cpus: usize) -> Option<Finding> {
    if load.load != "lock" {
        return None;
    }
    let behind: Vec<(&ContentionPoint, f64)> = load
        .points
        .iter()
        .filter(|point| IN_TURN.contains(&point.variant.as_str()))
        .filter_map(|point| {
            let any = load.points.iter().filter(|other| other.workers == point.workers);
            let best = any
                .filter(|other| !IN_TURN.contains(&other.variant.as_str()))
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
            Kind::Advice,
            "Avoid FIFO locks (ticket, mcs) where there can be more workers than CPUs: a waiter that is not running \
             blocks all waiters behind it.",
        )
    } else {
        (
            Kind::Fact,
            "FIFO locks (ticket, mcs) were far slower than others, although each worker could have a CPU.",
        )
    };
    (!behind.is_empty()).then(|| Finding::new(kind, "contention", text.to_owned(), evidence))
}

fn plain(load: &Contention, points: &[&ContentionPoint], evidence: Vec<String>) -> Option<Finding> {
    let done: Vec<String> = points
        .iter()
        .filter_map(|point| {
            Some(format!("{:.2} times ({})", point.over_fewest.as_ref()?.ratio, point.variant))
        })
        .collect();
    let most = points.iter().max_by_key(|point| point.workers)?;
    let text = format!(
        "{}: {} {} do {} the operations of the smallest count.",
        load.load,
        most.workers,
        load.counted,
        done.join(", ")
    );
    Some(Finding::new(seen(&most.rate), "contention", text, evidence))
}

/// Reports the time of a round trip through pipes.
fn trip(load: &Contention) -> Option<Finding> {
    if load.load != "pipe" {
        return None;
    }
    let one = load.points.iter().find(|point| point.workers == 1 && point.rate.median > 0.0)?;
    let micros = |rate: f64| 1e6 / rate;
    let evidence =
        load.pairs.iter().map(|pair| format!("{}: {:.1} us", pair.title(), micros(pair.rate.median)));
    let index = load.unixbench.as_ref().map(index).unwrap_or_default();
    Some(Finding::new(
        seen(&one.rate),
        "contention",
        format!(
            "A round trip of 8 bytes through pipes takes {:.1} us where the scheduler places both processes{index}.",
            micros(one.rate.median)
        ),
        evidence.collect(),
    ))
}

fn index(unixbench: &UnixBench) -> String {
    let of = if unixbench.exact {
        "as UnixBench measures it".to_owned()
    } else {
        format!("from {} passes of {} s instead of ten of 10 s", unixbench.passes, unixbench.seconds)
    };
    format!("; UnixBench's index is {:.0}, {of}", unixbench.index)
}

fn peers(load: &Contention) -> impl Iterator<Item = Finding> {
    let ran = |peer: &&Peer| peer.ours.median > 0.0 && peer.theirs.median > 0.0;
    load.peers.iter().filter(ran).filter_map(|peer| {
        let (program, ratio) = (load.peer.as_ref()?, peer.ratio.as_ref()?);
        let text = format!(
            "{} with {} {}: the built-in load does {:.3} times the operations of {program}.",
            load.load,
            peer.workers,
            if peer.workers == 1 { load.counted.trim_end_matches('s') } else { &load.counted },
            ratio.median
        );
        let evidence = vec![format!("{} pairs, {}", peer.pairs, times(ratio))];
        Some(Finding::new(seen(ratio), "contention", text, evidence))
    })
}
