//! What sharing costs, and what to do about it.

use super::{Finding, Kind, scaling::ratio};
use crate::{
    evaluation::{Contention, ContentionPoint, Evaluation, UnixBench, words::times},
    stats::Estimate,
    verdict::Answer,
};

/// Locks that go to whoever has waited longest.
const IN_TURN: [&str; 2] = ["ticket", "mcs"];

/// Share of the best other lock's rate below which such a lock waited for somebody who did not run.
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

/// A variant's point with the most workers that have a CPU each.
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

/// What all together do, against the fewest.
fn together(load: &Contention, cpus: usize) -> Option<Finding> {
    let points: Vec<&ContentionPoint> =
        variants(load).into_iter().filter_map(|variant| full(load, variant, cpus)).collect();
    let evidence = points.iter().filter_map(|point| {
        let verdict = point.over_fewest.as_ref()?;
        Some(ratio(
            verdict,
            &format!("{}, {} {} over the fewest", point.variant, point.workers, load.counted),
        ))
    });
    let evidence = evidence.collect();
    match load.load.as_str() {
        "counter" => counter(&points, evidence),
        "lock" => lock(&points, evidence),
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
        Answer::ABetter => (
            Kind::Advice,
            format!(
                "Let threads that count often have a counter per CPU, and add them up when somebody asks: {done}, so \
                 that sharing costs more than the other CPUs bring{others}."
            ),
        ),
        _ => (Kind::Fact, format!("{done}{others}.")),
    };
    Some(Finding::new(kind, "contention", text, evidence))
}

fn lock(points: &[&ContentionPoint], evidence: Vec<String>) -> Option<Finding> {
    let best = points.iter().max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))?;
    let each: Vec<String> = points
        .iter()
        .map(|point| {
            let fair = point.fairness.map(|index| format!(", fairness {index:.2}")).unwrap_or_default();
            format!("{} {:.3e}/s{fair}", point.variant, point.rate.median)
        })
        .collect();
    let text = format!(
        "{} workers that want one lock all the time get it most often with {} ({}).",
        best.workers,
        best.variant,
        each.join("; ")
    );
    Some(Finding::new(Kind::Fact, "contention", text, evidence))
}

/// Locks that are handed on in turn, where they are far behind those that anybody may take.
///
/// No cache line takes that long: the lock was given to a worker that was not running.
fn held_up(load: &Contention, cpus: usize) -> Option<Finding> {
    if load.load != "lock" {
        return None;
    }
    let behind: Vec<(&ContentionPoint, f64)> = load
        .points
        .iter()
        .filter(|point| IN_TURN.contains(&point.variant.as_str()))
        .filter_map(|point| {
            let anyone = load.points.iter().filter(|other| other.workers == point.workers);
            let best = anyone
                .filter(|other| !IN_TURN.contains(&other.variant.as_str()))
                .map(|other| other.rate.median)
                .max_by(f64::total_cmp)?;
            Some((point, point.rate.median / best)).filter(|&(_, share)| share < FAR_BEHIND)
        })
        .collect();
    let evidence = behind.iter().map(|(point, share)| {
        let Estimate { median, .. } = point.rate;
        format!(
            "{}, {} workers: {median:.3e}/s, {share:.1e} of the best lock that anybody may take",
            point.variant, point.workers
        )
    });
    let evidence = evidence.collect();
    let (kind, text) = if behind.iter().any(|(point, _)| point.workers > cpus) {
        (
            Kind::Advice,
            "Take no lock that is handed on in turn (ticket, mcs) where there can be more workers than CPUs: a waiter \
             that is not running holds up the line.",
        )
    } else {
        (
            Kind::Fact,
            "Locks that are handed on in turn (ticket, mcs) fell far behind, although each worker could have a CPU: a \
             waiter that is not running, because its CPU was taken or stolen, holds up the line.",
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
        "{}: {} {} do {} what the fewest do.",
        load.load,
        most.workers,
        load.counted,
        done.join(", ")
    );
    Some(Finding::new(Kind::Fact, "contention", text, evidence))
}

/// How long the way there and back takes.
fn trip(load: &Contention) -> Option<Finding> {
    if load.load != "pipe" {
        return None;
    }
    let one = load.points.iter().find(|point| point.workers == 1)?;
    let micros = |rate: f64| 1e6 / rate;
    let evidence =
        load.pairs.iter().map(|pair| format!("{}: {:.1} us", pair.title(), micros(pair.rate.median)));
    let index = load.unixbench.as_ref().map(index).unwrap_or_default();
    Some(Finding::new(
        Kind::Fact,
        "contention",
        format!(
            "8 bytes to another process and back through pipes take {:.1} us where the scheduler places both{index}.",
            micros(one.rate.median)
        ),
        evidence.collect(),
    ))
}

fn index(unixbench: &UnixBench) -> String {
    let of = if unixbench.exact {
        "as UnixBench measures it".to_owned()
    } else {
        format!("of {} passes of {} s instead of ten of 10 s", unixbench.passes, unixbench.seconds)
    };
    format!("; UnixBench's index is {:.0}, {of}", unixbench.index)
}

fn peers(load: &Contention) -> impl Iterator<Item = Finding> {
    load.peers.iter().filter_map(|peer| {
        let (program, ratio) = (load.peer.as_ref()?, peer.ratio.as_ref()?);
        let text = format!(
            "{} with {} {}: the built-in load does {:.3} times the operations of {program}.",
            load.load,
            peer.workers,
            if peer.workers == 1 { load.counted.trim_end_matches('s') } else { &load.counted },
            ratio.median
        );
        let evidence = vec![format!("{} pairs, {}", peer.pairs, times(ratio))];
        Some(Finding::new(Kind::Fact, "contention", text, evidence))
    })
}
