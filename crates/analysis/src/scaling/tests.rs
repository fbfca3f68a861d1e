//! Commands whose true behaviour is known, on two CPUs.

use crate::{Evaluation, FindingKind, Scaling};
use manycore_experiment::{
    Record,
    record::{CounterDelta, Direction, Experiment, Method, Metric, Sample, Treatment, factor, id},
};
use manycore_testkit::SyntheticMachine;

/// Behaviour of a command: for `n` copies, their seconds and the CPU time in them.
type Truth = fn(f64) -> (f64, f64);

/// Returns ten rounds of `counts` copies while other work keeps `others` CPUs busy. The value is that of
/// `metric`, or the wall time.
fn record(counts: &[usize], truth: Truth, others: f64, metric: Option<(Direction, Truth)>) -> Record {
    let sample = |block: usize, treatment: usize, workers: usize| {
        // Up to 0.8 % of deterministic noise that differs between samples.
        let wobble = 1.0 + ((block * 7 + treatment * 3) % 5) as f64 / 500.0;
        let (seconds, cpu) = truth(workers as f64);
        let seconds = seconds * wobble;
        let value = metric.map_or(seconds, |(_, value)| value(workers as f64).0 * wobble);
        let work = match metric {
            None => workers as f64,
            Some((Direction::Higher, _)) => value * seconds,
            Some((Direction::Lower, _)) => workers as f64 * seconds / value,
        };
        let per_worker = vec![seconds; workers];
        let wall_ns = (seconds * 1e9) as u64;
        let counters = counters(seconds, cpu, others);
        Sample {
            block,
            treatment,
            wall_ns,
            work,
            per_worker,
            values: vec![value],
            counters,
            ..Sample::default()
        }
    };
    let rounds =
        (0..10).flat_map(|block| counts.iter().enumerate().map(move |(index, &n)| (block, index, n)));
    let (name, better) = metric.map_or(("wall", Direction::Lower), |(better, _)| ("figure", better));
    let experiment = Experiment {
        id: id::SCALING.to_owned(),
        method: Method::WholeRun,
        unit: "runs".to_owned(),
        parameters: [("counted".to_owned(), "copies".to_owned())].into(),
        metrics: vec![Metric { name: name.to_owned(), unit: "s".to_owned(), better }],
        treatments: counts
            .iter()
            .map(|&workers| Treatment { name: workers.to_string(), workers, ..Treatment::default() })
            .collect(),
        samples: rounds.map(|(block, index, n)| sample(block, index, n)).collect(),
    };
    let base = SyntheticMachine { blocks: 0, ..SyntheticMachine::guest() }.record();
    let record = Record { subcommand: "scale".to_owned(), experiments: vec![experiment], ..base };
    record.check().unwrap();
    record
}

/// Returns the counters of a sample that used `cpu` seconds of CPU time, beside others that use a share of two CPUs.
fn counters(seconds: f64, cpu: f64, others: f64) -> CounterDelta {
    let busy = f64::midpoint(cpu, others * seconds).min(seconds);
    CounterDelta {
        span_ns: (seconds * 1e9) as u64,
        cpu_ns: Some((cpu * 1e9) as u64),
        busy_ticks: vec![(busy * 100.0).round() as u32; 2],
        steal_ticks: vec![0; 2],
        ..CounterDelta::default()
    }
}

fn scaling(record: &Record) -> Scaling {
    Evaluation::from_record(record).scaling.unwrap()
}

fn texts(record: &Record) -> Vec<String> {
    Evaluation::from_record(record).findings.into_iter().map(|finding| finding.text).collect()
}

const SLEEPS: Truth = |_| (1.0, 0.001);
const COMPUTES: Truth = |n| ((n / 2.0).max(1.0), n);
const HALF: Truth = |n| ((n / 4.0).max(1.0), n / 2.0);

/// Regression test: four sleeping copies on two CPUs do four times the work of one; the report blamed the
/// baseline.
#[test]
fn work_that_waits_scales_beyond_the_cpus() {
    let record = record(&[1, 2, 4, 8], SLEEPS, 0.0, None);
    let scaling = scaling(&record);
    assert!(scaling.is_waiting());
    let last = scaling.points.last().unwrap();
    assert!((last.speedup.median - 8.0).abs() < 0.1 && (last.linear - 8.0).abs() < 1e-9, "{last:?}");
    assert!(scaling.points.iter().all(|point| (point.efficiency.median - 1.0).abs() < 0.01));
    let texts = texts(&record);
    assert!(texts.iter().any(|text| text.contains("waits otherwise")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("above") || text.contains("limits")), "{texts:?}");
    assert_eq!(scaling.usl, None, "the law of CPUs does not apply to work that waits for something else");
}

#[test]
fn work_that_computes_half_of_its_time_can_fill_the_cpus_twice() {
    let scaling = scaling(&record(&[1, 2, 4, 8], HALF, 0.0, None));
    let linear: Vec<f64> = scaling.points.iter().map(|point| (point.linear * 10.0).round() / 10.0).collect();
    assert_eq!(linear, [1.0, 2.0, 4.0, 4.0]);
    assert!(scaling.points.iter().all(|point| (point.efficiency.median - 1.0).abs() < 0.02), "{scaling:?}");
}

#[test]
fn cpu_bound_work_is_limited_by_cpus() {
    let scaling = scaling(&record(&[1, 2, 4], COMPUTES, 0.0, None));
    assert!(scaling.is_cpu_bound());
    assert!(
        (scaling.points[2].linear - 2.0).abs() < 0.01
            && (scaling.points[2].efficiency.median - 1.0).abs() < 0.01
    );
}

/// A worker that gets half a CPU because of other work has not shown that it waits.
#[test]
fn demand_is_unknown_on_a_busy_machine() {
    let scaling = scaling(&record(&[1, 2, 4], |n| (2.0 * n, n), 1.9, None));
    assert_eq!(scaling.demand, None);
    assert!(!scaling.is_cpu_bound() && !scaling.is_waiting());
}

/// Regression test: "the work touches no shared data, so look at the host or the firmware" was reported for
/// any command.
#[test]
fn limits_are_only_those_that_the_record_shows() {
    // The clock shows nothing: the CPUs are fully used, at half of the speed.
    let computes = texts(&record(&[1, 2], |n| (n, n * n.max(1.0)), 0.0, None));
    assert!(computes.iter().any(|text| text.contains("does not show what limits scaling")), "{computes:?}");
    let disk = texts(&record(&[1, 2, 4], |n| (n, 0.01 * n), 0.0, None));
    assert!(disk.iter().any(|text| text.contains("the CPUs were idle for")), "{disk:?}");
    for text in computes.iter().chain(&disk) {
        assert!(!["firmware", "host ", "shared data"].iter().any(|word| text.contains(word)), "{text}");
    }
}

/// 1, 3 and 6 workers on two CPUs: no point has as many workers as CPUs.
#[test]
fn worker_counts_need_not_include_the_cpu_count() {
    let texts = texts(&record(&[1, 3, 6], SLEEPS, 0.0, None));
    assert!(
        texts.iter().any(|text| text.starts_with("Use more than one worker for work like this: 6 did more"))
    );
    assert!(texts.iter().any(|text| text.starts_with("6 workers do ")), "{texts:?}");
}

/// Regression test: a latency that stays the same with more copies was reported as "4.00 times the work of
/// one".
#[test]
fn a_lower_is_better_metric_is_not_work() {
    let record = record(&[1, 2, 4], SLEEPS, 0.0, Some((Direction::Lower, |n| (n.sqrt(), 0.0))));
    let evaluation = Evaluation::from_record(&record);
    assert_eq!(evaluation.scaling, None);
    let metric = evaluation.metric_by_workers.unwrap();
    let ratios: Vec<f64> =
        metric.points.iter().filter_map(|level| level.relative_to_one).map(|over| over.median).collect();
    assert!((ratios[0] - 2f64.sqrt()).abs() < 0.02 && (ratios[1] - 2.0).abs() < 0.02, "{ratios:?}");
    let fact = evaluation.findings.iter().find(|finding| finding.kind == FindingKind::Fact).unwrap();
    assert!(fact.text.starts_with("figure with 4 copies is 2.0"), "{}", fact.text);
    assert!(!texts(&record).iter().any(|text| text.contains("the work of one")));
}

/// Regression test: the time of a copy was taken for its work.
#[test]
fn copies_that_end_at_the_same_time_were_treated_alike() {
    let mut record = record(&[1, 2], SLEEPS, 0.0, None);
    let fair = scaling(&record).points[1].fairness.unwrap();
    assert!((fair - 1.0).abs() < 1e-9);
    for sample in &mut record.experiments[0].samples {
        sample.per_worker = vec![1.0, 1e6][..sample.per_worker.len()].to_vec();
    }
    let unfair = scaling(&record).points[1].fairness.unwrap();
    assert!((unfair - 0.5).abs() < 1e-3, "one did all in the time: {unfair}");
}

/// Regression test: with `--place cpus=0`, two copies were compared with two CPUs, and other work on the CPU beside them
/// was named as the limit.
#[test]
fn workers_are_compared_with_the_cpus_of_their_placement() {
    let mut record = record(&[1, 2], |n| (n, n), 0.0, None);
    let experiment = &mut record.experiments[0];
    for treatment in &mut experiment.treatments {
        treatment.factors.insert(factor::CPUS.to_owned(), "0".to_owned());
    }
    for sample in &mut experiment.samples {
        let ticks = sample.wall_ns as f64 / 1e7;
        sample.counters.busy_ticks = vec![ticks as u32, (0.64 * ticks) as u32];
    }
    let scaling = scaling(&record);
    assert_eq!((scaling.cpus, scaling.placed_on.map(|cpus| cpus.to_string())), (1, Some("0".to_owned())));
    assert!((scaling.points[1].linear - 1.0).abs() < 0.01, "{:?}", scaling.points[1]);
    let texts = texts(&record);
    let has = |words: &str| texts.iter().any(|text| text.contains(words));
    assert!(has("2 workers do 1.00 times the work of one on CPU 0: "), "{texts:?}");
    assert!(has("What limits scaling here: the placement: 1 CPU for 2 workers."), "{texts:?}");
    assert!(!has("other work uses"), "{texts:?}");
}

/// Regression test: the list of results and the page of `scale` began with a warning or with the noise floor.
#[test]
fn how_the_work_scales_is_the_answer_of_scale_only() {
    let scale = record(&[1, 2], COMPUTES, 0.0, None);
    let kinds = |record: &Record| -> Vec<FindingKind> {
        Evaluation::from_record(record).findings.into_iter().map(|finding| finding.kind).collect()
    };
    assert_eq!(kinds(&scale)[0], FindingKind::Answer);
    let eval = Record { subcommand: "eval".to_owned(), ..scale };
    assert!(!kinds(&eval).contains(&FindingKind::Answer));
}
