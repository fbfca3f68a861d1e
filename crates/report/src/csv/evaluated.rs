//! Rows of the evaluation.

use crate::sections::requests::word;
use crate::{
    NamedEvaluation,
    csv::{cell, ends, estimate},
    sections,
};
use manycore_analysis::{PairLatency, ScalingPoint, SchedulerCounters, Superlinear, TuneCandidate};
use manycore_stats::{Estimate, verdict::Verdict};

fn points(named: &NamedEvaluation) -> impl Iterator<Item = &ScalingPoint> {
    named.evaluation.scaling.iter().flat_map(|scaling| &scaling.points)
}

pub(super) fn scaling(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let row = |point: &ScalingPoint| {
        let event_times = point.event_times;
        let mut row = vec![
            point.workers.to_string(),
            cell(point.events),
            cell(point.rate.median),
            cell(event_times.map(|times| times.mean_ms)),
            cell(point.speedup.median),
            cell(point.seconds),
        ];
        row.extend(ends(point.rate.interval));
        row.extend(ends(point.speedup.interval));
        row.extend(estimate(Some(&point.efficiency)));
        row.extend([
            cell(event_times.map(|times| times.min_ms)),
            cell(event_times.map(|times| times.p95_ms)),
            cell(event_times.map(|times| times.p99_ms)),
            cell(event_times.map(|times| times.max_ms)),
            cell(point.fairness),
            point.superlinear.as_ref().map_or_else(String::new, Superlinear::cause),
        ]);
        row.extend(counters(&point.counters));
        row
    };
    points(named).map(row).collect()
}

fn counters(counters: &SchedulerCounters) -> [String; 11] {
    [
        counters.cpu_time,
        counters.steal,
        counters.other_work,
        counters.run_delay,
        counters.throttled,
        counters.cpu_pressure,
        counters.migrations_per_second,
        counters.preemptions_per_second,
        counters.frequency_khz,
        counters.rate_per_cpu_second,
        counters.thermal_events.map(|events| events as f64),
    ]
    .map(cell)
}

pub(super) fn cpus(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let of_point = |point: &ScalingPoint| -> Vec<Vec<String>> {
        let row = |&(cpu, share): &(u32, f64)| vec![point.workers.to_string(), cpu.to_string(), cell(share)];
        point.cpu_share.iter().map(row).collect()
    };
    points(named).flat_map(of_point).collect()
}

pub(super) fn noise(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let rows = named.evaluation.noise.iter().map(|noise| {
        let mut row = vec![noise.workers.to_string()];
        row.extend(estimate(Some(&noise.ratio)));
        row.extend([noise.ratio.n.to_string(), cell(noise.floor), cell(noise.minimum_detectable_effect)]);
        row
    });
    rows.collect()
}

pub(super) fn modes(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for modes in &named.evaluation.modes {
        for mode in &modes.modes {
            let mut row = vec![modes.id.clone(), sections::modes::program(modes), mode.name.clone()];
            row.extend(estimate(Some(&mode.seconds)));
            row.extend(estimate(Some(&mode.speedup)));
            row.push(mode.seconds.n.to_string());
            rows.push(row);
        }
    }
    rows
}

pub(super) fn matrix(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let rows = named.evaluation.matrix.iter().map(|point| {
        let mut row = vec![point.size.to_string()];
        row.extend(estimate(Some(&point.one_gflops)));
        row.extend([cell(point.peak_gflops), point.processes.to_string()]);
        row.extend(estimate(point.all_gflops.as_ref()));
        row.extend(estimate(point.speedup.as_ref()));
        row
    });
    rows.collect()
}

pub(super) fn affinity(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let Some(affinity) = &named.evaluation.affinity {
        for (mode, letter, processes) in
            [("unpinned", 'A', &affinity.unpinned_seconds), ("pinned", 'B', &affinity.pinned_seconds)]
        {
            for (process, rounds) in processes.iter().enumerate() {
                rows.extend(rounds.iter().enumerate().map(|(round, &seconds)| {
                    let round = format!("{letter}{}", round + 1);
                    vec![format!("P{}", process + 1), mode.to_owned(), round, cell(seconds)]
                }));
            }
        }
    }
    rows
}

pub(super) fn latency(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let pairs = named.evaluation.latency.iter().flat_map(|latency| &latency.pairs);
    let row = |pair: &PairLatency| {
        let shared = serde_json::to_value(pair.distance).unwrap_or_default();
        let mut row =
            vec![pair.a.to_string(), pair.b.to_string(), shared.as_str().unwrap_or_default().to_owned()];
        row.extend([pair.latency_ns, pair.fastest_ns, pair.spread_ns].map(cell));
        row.push(pair.visits.to_string());
        row
    };
    pairs.map(row).collect()
}

pub(super) fn tuning(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let candidates = named.evaluation.tuning.iter().flat_map(|tuning| &tuning.candidates);
    let row = |candidate: &TuneCandidate| {
        let mut row = vec![
            candidate.name.clone(),
            candidate.dropped.map_or_else(String::new, |round| round.to_string()),
            candidate.trials.to_string(),
        ];
        row.extend(estimate(candidate.ratio.as_ref()));
        row
    };
    candidates.map(row).collect()
}

pub(super) fn verdicts(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let row = |question: String, verdict: &Verdict, off_cpu_checks: String| {
        let [low, high] = ends(verdict.interval);
        let answer = serde_json::to_value(verdict.answer).unwrap_or_default();
        vec![
            question,
            answer.as_str().unwrap_or_default().to_owned(),
            cell(verdict.ratio),
            low,
            high,
            verdict.pairs.to_string(),
            cell(verdict.p),
            verdict.rule.margin.to_string(),
            verdict.rule.level.to_string(),
            verdict.rule.analysis.to_string(),
            verdict.rule.analyses.to_string(),
            verdict.noise_floor.map_or_else(String::new, cell),
            off_cpu_checks,
        ]
    };
    let modes = named.evaluation.modes.iter().filter_map(|modes| {
        let verdict = modes.processes_over_threads.as_ref()?;
        Some(row(format!("{}: processes (b) over threads (a)", modes.id), verdict, String::new()))
    });
    let affinity = named.evaluation.affinity.iter().filter_map(|affinity| {
        let verdict = affinity.verdict.as_ref()?;
        Some(row(
            "affinity: pinned (b) over unpinned (a)".to_owned(),
            verdict,
            affinity.off_cpu_checks.to_string(),
        ))
    });
    let comparison = named.evaluation.comparison.iter().flat_map(|comparison| {
        let reference = comparison.name(comparison.reference);
        comparison.others.iter().map(move |other| {
            let question = format!("{} (b) over {reference} (a)", comparison.name(other.treatment));
            row(question, &other.verdict, String::new())
        })
    });
    let finalists = named.evaluation.tuning.iter().flat_map(|tuning| &tuning.finalists);
    let finalists = finalists.map(|finalist| {
        row(format!("{} (b) over today (a)", finalist.name), &finalist.verdict, String::new())
    });
    modes.chain(affinity).chain(comparison).chain(finalists).collect()
}

pub(super) fn peers(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let rows = named.evaluation.sysbench.iter().map(|peer| {
        let mut row = vec![peer.workers.to_string(), cell(peer.built_in.median), cell(peer.other.median)];
        row.extend(estimate(peer.ratio.as_ref()));
        row.push(peer.pairs.to_string());
        row
    });
    rows.collect()
}

/// Rows of contention. Ratios are relative to the fewest workers, to the first distance, or of the built-in
/// load over the other program.
pub(super) fn contention(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for load in &named.evaluation.contention {
        let start = |variant: &str, workers: &str, distance: &str, cpus: &str| {
            [&load.load, variant, workers, distance, cpus, &load.unit].map(str::to_owned)
        };
        for point in &load.points {
            let over = point.relative_to_smallest.as_ref();
            let ratio =
                over.map(|over| Estimate { median: over.ratio, interval: over.interval, n: over.pairs });
            let start = start(&point.variant, &point.workers.to_string(), "", "");
            let end = [cell(point.fairness), String::new()];
            rows.push(contention_row(start, &point.rate, ratio.as_ref(), end));
        }
        for pair in &load.pairs {
            let start = start(&pair.variant, "", pair.title(), &pair.cpus);
            rows.push(contention_row(
                start,
                &pair.rate,
                pair.relative_to_nearest.as_ref(),
                Default::default(),
            ));
        }
        for peer in &load.against_other {
            let program = load.other_program.clone().unwrap_or_default();
            let start = start("", &peer.workers.to_string(), "", "");
            rows.push(contention_row(start, &peer.built_in, peer.ratio.as_ref(), [String::new(), program]));
        }
    }
    rows
}

fn contention_row(
    start: [String; 6],
    rate: &Estimate,
    ratio: Option<&Estimate>,
    end: [String; 2],
) -> Vec<String> {
    start.into_iter().chain(estimate(Some(rate))).chain(estimate(ratio)).chain(end).collect()
}

pub(super) fn requests(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for one in &named.evaluation.requests {
        for quantile in &one.quantiles {
            let (low, high) = quantile.per_run.interval.unzip();
            let (ratio_low, ratio_high) = quantile.ratio.and_then(|ratio| ratio.interval).unzip();
            let mut row = vec![
                one.label.clone(),
                one.name.clone(),
                one.unit.clone(),
                one.runs.to_string(),
                one.requests.to_string(),
                quantile.name.clone(),
            ];
            row.extend([Some(quantile.merged), Some(quantile.per_run.value), low, high].map(cell));
            row.extend([quantile.ratio.map(|ratio| ratio.median), ratio_low, ratio_high].map(cell));
            row.push(quantile.ratio.map_or_else(String::new, |ratio| ratio.n.to_string()));
            row.push(quantile.answer.map_or("", word).to_owned());
            rows.push(row);
        }
    }
    rows
}
