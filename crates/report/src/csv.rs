//! Tables for other programs, as comma-separated values (RFC 4180).

mod evaluated;
mod measured;
mod spawning;
mod stream;

use crate::NamedEvaluation;
use evaluated::{
    affinity, contention, cpus, latency, matrix, modes, noise, peers, requests, scaling, tuning, verdicts,
};
use manycore_stats::Estimate;
use measured::{metrics, samples};

/// File name, header and the function that returns the rows of one record.
type CsvTable = (&'static str, &'static str, fn(&NamedEvaluation) -> Vec<Vec<String>>);

/// The first five columns of `scaling.csv` are those that scripts around sysbench write.
const TABLES: [CsvTable; 19] = [
    (
        "scaling.csv",
        "threads,total_events,events_per_second,avg_latency_ms,speedup,seconds,events_per_second_low,\
         events_per_second_high,speedup_low,speedup_high,efficiency,efficiency_low,efficiency_high,\
         min_latency_ms,p95_latency_ms,p99_latency_ms,max_latency_ms,fairness,superlinear,used,steal,other_work,\
         run_delay,throttled,cpu_pressure,migrations_per_worker_second,preemptions_per_worker_second,frequency_khz,\
         events_per_cpu_second,thermal_events",
        scaling,
    ),
    ("cpus.csv", "threads,cpu,busy_share", cpus),
    ("noise.csv", "threads,ratio,ratio_low,ratio_high,pairs,noise_floor,minimum_detectable_effect", noise),
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
    ("affinity.csv", "process,mode,round,seconds", affinity),
    ("latency.csv", "a,b,shared,latency_ns,fastest_ns,spread_ns,visits", latency),
    (
        "stream.csv",
        "kernel,stores,workers,bytes_per_second,bytes_per_second_low,bytes_per_second_high,speedup,speedup_low,\
         speedup_high",
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
        "question,verdict,rate_of_b_over_a,rate_of_b_over_a_low,rate_of_b_over_a_high,pairs,p,margin,level,analysis,\
         analyses,noise_floor,off_cpu_checks",
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
    (
        "requests.csv",
        "variant,kind,unit,runs,requests,quantile,all_runs,per_run,per_run_low,per_run_high,ratio,ratio_low,ratio_high,pairs,\
         answer",
        requests,
    ),
    (
        "tuning.csv",
        "candidate,dropped_after_round,runs,relative_to_today,relative_to_today_low,relative_to_today_high",
        tuning,
    ),
    (
        "samples.csv",
        "experiment,treatment,threads,block,start_seconds,wall_seconds,work,unit,work_per_second,cpu_seconds,system_seconds,\
         run_delay_seconds,migrations,voluntary_switches,involuntary_switches,busy_ticks,steal_ticks,\
         throttled_seconds,thermal_events,frequency_khz,cpu_pressure_seconds",
        samples,
    ),
    (
        "spawn.csv",
        "runtime,version,work,purpose,requested,alive,ending,start_seconds,reported_start_seconds,end_seconds,pss_bytes,rss_bytes,\
         memory_limit_bytes,pss_bytes_each,rss_bytes_each,kernel_bytes_each,reported_bytes_each,jain_cpus,jain_schedulers,\
         running,queued,steal,rounds_per_second,round_p50_ns,round_p99_ns",
        spawning::runs,
    ),
    (
        "spawn_capacity.csv",
        "runtime,work,limit,max_count,bytes_each,bytes_each_low,bytes_each_high,fixed_bytes,memory_bytes,source,raise_command",
        spawning::capacities,
    ),
    ("spawn_cpus.csv", "runtime,work,run,second,cpu,busy_share", spawning::cpus),
];

/// Names of all files that [`csv`] can write.
pub const NAMES: [&str; TABLES.len()] = {
    let mut names = [""; TABLES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLES[at].0;
        at += 1;
    }
    names
};

/// Returns file names and contents. The last column of each table is the record's name, so that several
/// records fit into the same tables. Tables without rows are omitted.
pub fn csv(all: &[NamedEvaluation]) -> Vec<(String, String)> {
    TABLES
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

/// Quotes a cell where it contains a separator or a quote.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Formats a number with twelve digits, which exceeds the resolution of any clock and is the same on every
/// machine. Empty where there is no number.
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

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::{Record, record::RequestTimes, spawning::Work};
    use manycore_testkit::SyntheticMachine;

    fn names(record: Record) -> Vec<String> {
        csv(&[NamedEvaluation::new("it".to_owned(), record)]).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn light_processes_have_tables_of_their_own() {
        assert_eq!(names(SyntheticMachine::guest().spawn(Work::Idle)), ["spawn.csv", "spawn_capacity.csv"]);
        assert_eq!(
            names(SyntheticMachine::guest().spawn(Work::Spin)),
            ["spawn.csv", "spawn_capacity.csv", "spawn_cpus.csv"]
        );
    }

    #[test]
    fn every_table_has_a_listed_name() {
        let full = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.record();
        let of_studies = ["requests.csv", "tuning.csv", "spawn.csv", "spawn_capacity.csv", "spawn_cpus.csv"];
        let expected: Vec<&str> = NAMES.iter().copied().filter(|name| !of_studies.contains(name)).collect();
        assert_eq!(names(full.clone()), expected);
        for count in 0..full.experiments.len() {
            let mut part = full.clone();
            part.experiments.truncate(count);
            let names = names(part);
            assert!(names.iter().all(|name| NAMES.contains(&name.as_str())), "{names:?}");
        }
    }

    /// The second variant has twice the latency of the first.
    #[test]
    fn requests_have_a_row_for_each_variant_and_quantile() {
        let mut record = SyntheticMachine::guest().compare(2.0);
        for sample in &mut record.experiments[0].samples {
            let factor = if sample.treatment == 0 { 1.0 } else { 2.0 };
            let points = [(1.0, 500.0), (1.5, 900.0), (3.0, 990.0), (9.0, 1000.0)];
            let points = points.map(|(latency, count)| (latency * factor, count)).to_vec();
            sample.requests = vec![RequestTimes::new("get", "ms", 1000.0, points).unwrap()];
        }
        let tables = csv(&[NamedEvaluation::new("it".to_owned(), record)]);
        let (_, text) = tables.iter().find(|(name, _)| name == "requests.csv").unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
        let medians = rows.iter().filter(|row| row.get(column("quantile")) == Some(&"p50"));
        let latencies: Vec<f64> = medians.map(|row| row[column("all_runs")].parse().unwrap()).collect();
        let [a, b] = latencies[..] else { panic!("{text}") };
        assert!((a - 1.0).abs() < 1e-6 && (b - 2.0).abs() < 1e-6, "{text}");
    }
}
