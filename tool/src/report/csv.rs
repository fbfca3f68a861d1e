//! Tables for other programs, as comma-separated values (RFC 4180).

mod stream;

use super::{Named, sections};
use manycore_model::{
    evaluation::{Candidate, Circumstances, PairLatency, ScalingPoint, Superlinear, id},
    record::{Better, Sample},
    stats::Estimate,
    verdict::Verdict,
};

/// One file's name, its head and its rows for one record.
type Sheet = (&'static str, &'static str, fn(&Named) -> Vec<Vec<String>>);

/// The first five columns of `scaling.csv` are those that scripts around sysbench write.
const SHEETS: [Sheet; 15] = [
    (
        "scaling.csv",
        "threads,total_events,events_per_second,avg_latency_ms,speedup,seconds,events_per_second_low,\
         events_per_second_high,speedup_low,speedup_high,efficiency,efficiency_low,efficiency_high,\
         min_latency_ms,p95_latency_ms,p99_latency_ms,max_latency_ms,fairness,superlinear,used,steal,foreign,\
         run_delay,throttled,pressure,migrations_per_worker_second,preemptions_per_worker_second,frequency_khz,\
         events_per_cpu_second,thermal_events",
        scaling,
    ),
    ("cpus.csv", "threads,cpu,busy_share", cpus),
    ("noise.csv", "threads,ratio,ratio_low,ratio_high,pairs,noise_floor,detectable", noise),
    (
        "modes.csv",
        "experiment,program,mode,seconds,seconds_low,seconds_high,speedup,speedup_low,speedup_high,runs",
        modes,
    ),
    (
        "matrix.csv",
        "size,gflops,gflops_low,gflops_high,peak_gflops,processes,all_gflops,all_gflops_low,all_gflops_high,\
         speedup,speedup_low,speedup_high",
        matrix,
    ),
    ("affinity.csv", "process,side,round,seconds", affinity),
    ("latency.csv", "a,b,shared,latency_ns,fastest_ns,spread_ns,visits", latency),
    (
        "stream.csv",
        "kernel,stores,workers,bytes_per_second,bytes_per_second_low,bytes_per_second_high,over_one,over_one_low,\
         over_one_high",
        stream::kernels,
    ),
    (
        "stream_nodes.csv",
        "from_node,to_node,workers,bytes_per_second,bytes_per_second_low,bytes_per_second_high,idle_ns,idle_ns_low,\
         idle_ns_high,loaded_ns,loaded_ns_low,loaded_ns_high,load_bytes_per_second",
        stream::nodes,
    ),
    (
        "verdicts.csv",
        "question,verdict,ratio,ratio_low,ratio_high,pairs,p,noise_floor,seen_elsewhere",
        verdicts,
    ),
    (
        "sysbench.csv",
        "threads,manycore_events_per_second,sysbench_events_per_second,ratio,ratio_low,ratio_high,pairs",
        peers,
    ),
    (
        "contention.csv",
        "load,variant,workers,distance,cpus,unit,rate,rate_low,rate_high,ratio,ratio_low,ratio_high,fairness,program",
        contention,
    ),
    ("metrics.csv", "experiment,treatment,block,metric,unit,better,value", metrics),
    ("tuning.csv", "candidate,dropped_after_round,runs,over_today,over_today_low,over_today_high", tuning),
    (
        "samples.csv",
        "experiment,treatment,threads,block,start_seconds,wall_seconds,work,unit,work_per_second,cpu_seconds,\
         run_delay_seconds,migrations,voluntary_switches,involuntary_switches,busy_ticks,steal_ticks,\
         throttled_seconds,thermal_events,frequency_khz,pressure_seconds",
        samples,
    ),
];

/// Names of all files that [`csv`] can make.
pub const NAMES: [&str; SHEETS.len()] = {
    let mut names = [""; SHEETS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = SHEETS[at].0;
        at += 1;
    }
    names
};

/// File names and contents; the last column of each holds the record's name, so that several records fit
/// into the same tables. A table that no record fills is left out.
pub fn csv(all: &[Named]) -> Vec<(String, String)> {
    SHEETS
        .iter()
        .map(|&(name, head, rows)| {
            let mut text = format!("{head},record\n");
            for named in all {
                for row in rows(named) {
                    let cells = row.iter().chain([&named.name]).map(|cell| quoted(cell));
                    text.push_str(&cells.collect::<Vec<_>>().join(","));
                    text.push('\n');
                }
            }
            (name.to_owned(), text)
        })
        .filter(|(_, text)| text.lines().count() > 1)
        .collect()
}

/// A cell, in quotes where it holds what ends a cell or a row.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// A number with twelve digits, which is more than any clock gives and the same on every machine; empty where
/// there is none.
fn cell(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into().filter(|value| value.is_finite()) else { return String::new() };
    format!("{value:.11e}").parse().map_or_else(|_| String::new(), |rounded: f64| rounded.to_string())
}

fn ends(interval: Option<(f64, f64)>) -> [String; 2] {
    [cell(interval.map(|ends| ends.0)), cell(interval.map(|ends| ends.1))]
}

fn estimate(estimate: Option<&Estimate>) -> Vec<String> {
    let [low, high] = ends(estimate.and_then(|estimate| estimate.interval));
    vec![cell(estimate.map(|estimate| estimate.median)), low, high]
}

fn points(named: &Named) -> impl Iterator<Item = &ScalingPoint> {
    named.evaluation.scaling.iter().flat_map(|scaling| &scaling.points)
}

fn scaling(named: &Named) -> Vec<Vec<String>> {
    let row = |point: &ScalingPoint| {
        let latency = point.latency;
        let mut row = vec![
            point.workers.to_string(),
            cell(point.events),
            cell(point.rate.median),
            cell(latency.map(|times| times.mean_ms)),
            cell(point.speedup.median),
            cell(point.seconds),
        ];
        row.extend(ends(point.rate.interval));
        row.extend(ends(point.speedup.interval));
        row.extend(estimate(Some(&point.efficiency)));
        row.extend([
            cell(latency.map(|times| times.min_ms)),
            cell(latency.map(|times| times.p95_ms)),
            cell(latency.map(|times| times.p99_ms)),
            cell(latency.map(|times| times.max_ms)),
            cell(point.fairness),
            point.superlinear.as_ref().map_or_else(String::new, Superlinear::cause),
        ]);
        row.extend(circumstances(&point.circumstances));
        row
    };
    points(named).map(row).collect()
}

fn circumstances(around: &Circumstances) -> [String; 11] {
    [
        around.used,
        around.steal,
        around.foreign,
        around.run_delay,
        around.throttled,
        around.pressure,
        around.migrations,
        around.preemptions,
        around.frequency_khz,
        around.rate_per_cpu_second,
        around.thermal_events.map(|events| events as f64),
    ]
    .map(cell)
}

fn cpus(named: &Named) -> Vec<Vec<String>> {
    let of_point = |point: &ScalingPoint| -> Vec<Vec<String>> {
        let row = |&(cpu, share): &(u32, f64)| vec![point.workers.to_string(), cpu.to_string(), cell(share)];
        point.cpu_share.iter().map(row).collect()
    };
    points(named).flat_map(of_point).collect()
}

fn noise(named: &Named) -> Vec<Vec<String>> {
    let rows = named.evaluation.noise.iter().map(|noise| {
        let mut row = vec![noise.workers.to_string()];
        row.extend(estimate(Some(&noise.ratio)));
        row.extend([noise.ratio.n.to_string(), cell(noise.floor), cell(noise.detectable)]);
        row
    });
    rows.collect()
}

fn modes(named: &Named) -> Vec<Vec<String>> {
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

fn matrix(named: &Named) -> Vec<Vec<String>> {
    let rows = named.evaluation.matrix.iter().map(|point| {
        let mut row = vec![point.size.to_string()];
        row.extend(estimate(Some(&point.one)));
        row.extend([cell(point.peak), point.processes.to_string()]);
        row.extend(estimate(point.all.as_ref()));
        row.extend(estimate(point.speedup.as_ref()));
        row
    });
    rows.collect()
}

fn affinity(named: &Named) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let Some(affinity) = &named.evaluation.affinity {
        for (side, letter, processes) in [("free", 'A', &affinity.free), ("bound", 'B', &affinity.bound)] {
            for (process, rounds) in processes.iter().enumerate() {
                rows.extend(rounds.iter().enumerate().map(|(round, &seconds)| {
                    let round = format!("{letter}{}", round + 1);
                    vec![format!("P{}", process + 1), side.to_owned(), round, cell(seconds)]
                }));
            }
        }
    }
    rows
}

fn latency(named: &Named) -> Vec<Vec<String>> {
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

fn metrics(named: &Named) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    // Visits to pairs are in a table of their own.
    for experiment in named.record.experiments.iter().filter(|experiment| experiment.id != id::LATENCY) {
        for sample in &experiment.samples {
            for (metric, value) in experiment.metrics.iter().zip(&sample.values) {
                let better = match metric.better {
                    Better::Higher => "higher",
                    Better::Lower => "lower",
                };
                rows.push(vec![
                    experiment.id.clone(),
                    experiment.treatments[sample.treatment].name.clone(),
                    sample.block.to_string(),
                    metric.name.clone(),
                    metric.unit.clone(),
                    better.to_owned(),
                    cell(Some(*value)),
                ]);
            }
        }
    }
    rows
}

fn tuning(named: &Named) -> Vec<Vec<String>> {
    let candidates = named.evaluation.tuning.iter().flat_map(|tuning| &tuning.candidates);
    let row = |candidate: &Candidate| {
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

fn verdicts(named: &Named) -> Vec<Vec<String>> {
    let row = |question: String, verdict: &Verdict, elsewhere: String| {
        let [low, high] = ends(verdict.interval);
        let answer = serde_json::to_value(verdict.verdict).unwrap_or_default();
        vec![
            question,
            answer.as_str().unwrap_or_default().to_owned(),
            cell(verdict.ratio),
            low,
            high,
            verdict.pairs.to_string(),
            cell(verdict.p),
            verdict.noise_floor.map_or_else(String::new, cell),
            elsewhere,
        ]
    };
    let modes = named.evaluation.modes.iter().filter_map(|modes| {
        let verdict = modes.processes_over_threads.as_ref()?;
        Some(row(format!("{}: processes (b) over threads (a)", modes.id), verdict, String::new()))
    });
    let affinity = named.evaluation.affinity.iter().filter_map(|affinity| {
        let verdict = affinity.verdict.as_ref()?;
        Some(row("affinity: bound (b) over free (a)".to_owned(), verdict, affinity.elsewhere.to_string()))
    });
    let comparison = named.evaluation.comparison.iter().map(|comparison| {
        row(format!("{} (b) over {} (a)", comparison.b, comparison.a), &comparison.verdict, String::new())
    });
    let finalists = named.evaluation.tuning.iter().flat_map(|tuning| &tuning.finalists);
    let finalists = finalists.map(|finalist| {
        row(format!("{} (b) over today (a)", finalist.name), &finalist.verdict, String::new())
    });
    modes.chain(affinity).chain(comparison).chain(finalists).collect()
}

fn peers(named: &Named) -> Vec<Vec<String>> {
    let rows = named.evaluation.peers.iter().map(|peer| {
        let mut row = vec![peer.workers.to_string(), cell(peer.ours.median), cell(peer.theirs.median)];
        row.extend(estimate(Some(&peer.ratio)));
        row.push(peer.ratio.n.to_string());
        row
    });
    rows.collect()
}

/// Ratios are over the fewest workers, over the first distance, or of ours over the program.
fn contention(named: &Named) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for load in &named.evaluation.contention {
        let start = |variant: &str, workers: &str, distance: &str, cpus: &str| {
            [&load.load, variant, workers, distance, cpus, &load.unit].map(str::to_owned)
        };
        for point in &load.points {
            let over = point.over_fewest.as_ref();
            let ratio =
                over.map(|over| Estimate { median: over.ratio, interval: over.interval, n: over.pairs });
            let start = start(&point.variant, &point.workers.to_string(), "", "");
            let end = [cell(point.fairness), String::new()];
            rows.push(whole(start, &point.rate, ratio.as_ref(), end));
        }
        for pair in &load.pairs {
            let start = start(&pair.variant, "", pair.title(), &pair.cpus);
            rows.push(whole(start, &pair.rate, pair.over_nearest.as_ref(), Default::default()));
        }
        for peer in &load.peers {
            let program = load.peer.clone().unwrap_or_default();
            let start = start("", &peer.workers.to_string(), "", "");
            rows.push(whole(start, &peer.ours, Some(&peer.ratio), [String::new(), program]));
        }
    }
    rows
}

fn whole(start: [String; 6], rate: &Estimate, ratio: Option<&Estimate>, end: [String; 2]) -> Vec<String> {
    start.into_iter().chain(estimate(Some(rate))).chain(estimate(ratio)).chain(end).collect()
}

fn samples(named: &Named) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for experiment in &named.record.experiments {
        for sample in &experiment.samples {
            let Some(treatment) = experiment.treatments.get(sample.treatment) else { continue };
            let mut row = vec![
                experiment.id.clone(),
                treatment.name.clone(),
                treatment.workers.to_string(),
                sample.block.to_string(),
                cell(sample.start_ns as f64 / 1e9),
                cell(sample.wall_ns as f64 / 1e9),
                cell(sample.work),
                experiment.unit.clone(),
                cell(sample.rate()),
            ];
            row.extend(around(sample));
            rows.push(row);
        }
    }
    rows
}

fn around(sample: &Sample) -> [String; 11] {
    let around = &sample.around;
    let count = |count: Option<u64>| cell(count.map(|count| count as f64));
    let seconds = |ns: Option<u64>| cell(ns.map(|ns| ns as f64 / 1e9));
    let ticks = |ticks: &[u32]| {
        let sum: u64 = ticks.iter().copied().map(u64::from).sum();
        if ticks.is_empty() { String::new() } else { sum.to_string() }
    };
    [
        seconds(around.cpu_ns),
        seconds(around.run_delay_ns),
        count(around.migrations),
        count(around.voluntary_switches),
        count(around.involuntary_switches),
        ticks(&around.busy_ticks),
        ticks(&around.steal_ticks),
        seconds(around.throttled_ns),
        count(around.thermal_events),
        count(around.frequency_khz),
        seconds(around.pressure_ns),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_model::{Record, synthetic::World};

    fn names(record: Record) -> Vec<String> {
        csv(&[Named::judge("it".to_owned(), record)]).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn every_table_has_a_listed_name() {
        let full = World { blocks: 12, ..World::guest() }.record();
        let of_studies = ["metrics.csv", "tuning.csv"];
        let expected: Vec<&str> = NAMES.iter().copied().filter(|name| !of_studies.contains(name)).collect();
        assert_eq!(names(full.clone()), expected);
        for count in 0..full.experiments.len() {
            let mut part = full.clone();
            part.experiments.truncate(count);
            let names = names(part);
            assert!(names.iter().all(|name| NAMES.contains(&name.as_str())), "{names:?}");
        }
    }
}
