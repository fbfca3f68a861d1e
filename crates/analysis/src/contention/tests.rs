//! Evaluation of synthetic measurements, to the last digit.

use super::*;
use crate::{Evaluation, FindingKind};
use manycore_experiment::record::id;
use manycore_stats::verdict::Answer;

/// Variant, workers, further factors, rate.
type TreatmentSpec<'a> = (&'a str, usize, &'a [(&'a str, &'a str)], f64);

/// Returns an experiment of ten blocks whose treatments do as many operations per second as their rate.
fn experiment(name: &str, treatments: &[TreatmentSpec]) -> Experiment {
    let samples = (0..10usize).flat_map(|block| {
        treatments.iter().enumerate().map(move |(treatment, &(_, workers, _, rate))| Sample {
            block,
            treatment,
            wall_ns: 1_000_000_000,
            work: rate,
            per_worker: (0..workers).map(|_| rate / workers as f64).collect(),
            ..Sample::default()
        })
    });
    Experiment {
        id: format!("{}{name}", id::CONTENTION),
        method: Method::Slices { slice_ns: 1_000_000_000, settle_ns: 0 },
        unit: "additions".to_owned(),
        parameters: std::collections::BTreeMap::new(),
        metrics: Vec::new(),
        samples: samples.collect(),
        treatments: treatments
            .iter()
            .enumerate()
            .map(|(index, &(variant, workers, factors, _))| Treatment {
                name: format!("{index}"),
                workers,
                factors: factors
                    .iter()
                    .chain(&[("variant", variant)])
                    .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                latency: None,
            })
            .collect(),
    }
}

fn evaluated(experiments: Vec<Experiment>) -> Evaluation {
    let machine = manycore_topology::Machine {
        online: "0-1".parse().unwrap(),
        ..manycore_topology::Machine::default()
    };
    Evaluation::from_record(&Record {
        experiments,
        machine,
        subcommand: "bench".to_owned(),
        ..Record::default()
    })
}

fn counter(shared: f64, padded: f64) -> Evaluation {
    evaluated(vec![experiment(
        "counter",
        &[
            ("shared", 1, &[], 100.0),
            ("shared", 2, &[], 100.0 * shared),
            ("padded", 1, &[], 100.0),
            ("padded", 2, &[], 100.0 * padded),
        ],
    )])
}

#[test]
fn rates_are_total_per_worker_and_relative() {
    let evaluation = counter(0.4, 1.98);
    let [one, two, .., padded] = &evaluation.contention[0].points[..] else { panic!("four points") };
    assert_eq!((one.rate.median, one.rate_per_worker.median, one.fairness), (100.0, 100.0, None));
    assert_eq!((two.rate.median, two.rate_per_worker.median, two.fairness), (40.0, 20.0, Some(1.0)));
    assert!(one.relative_to_smallest.is_none());
    let verdict = two.relative_to_smallest.as_ref().unwrap();
    assert!((verdict.ratio - 0.4).abs() < 1e-12 && verdict.answer == Answer::ABetter, "{verdict:?}");
    assert!((padded.relative_to_smallest.as_ref().unwrap().ratio - 1.98).abs() < 1e-12);
}

#[test]
fn advice_against_a_contended_counter() {
    let advice = |evaluation: &Evaluation| {
        let of = |finding: &&crate::Finding| finding.topic == "contention";
        evaluation.findings.iter().filter(of).map(|f| (f.kind, f.text.clone())).collect::<Vec<_>>()
    };
    let dear = advice(&counter(0.4, 1.98));
    assert_eq!(dear[0].0, FindingKind::Advice);
    assert!(dear[0].1.contains("2 workers on one atomic do 0.40 times the work of one"), "{dear:?}");
    assert!(dear[0].1.contains("padded: 1.98 times"), "{dear:?}");
    let cheap = advice(&counter(1.97, 1.98));
    assert!(cheap.iter().all(|(kind, _)| *kind == FindingKind::Fact), "{cheap:?}");
}

fn lock(ticket: &[(usize, f64)]) -> Vec<(FindingKind, String)> {
    let others = ticket.iter().map(|&(workers, _)| ("spin", workers, &[][..], 1000.0));
    let ticket = ticket.iter().map(|&(workers, rate)| ("ticket", workers, &[][..], rate));
    let evaluation = evaluated(vec![experiment("lock", &others.chain(ticket).collect::<Vec<_>>())]);
    let held_up = evaluation.findings.into_iter().filter(|finding| finding.text.contains("FIFO locks"));
    held_up.map(|finding| (finding.kind, finding.evidence.concat())).collect()
}

#[test]
fn fifo_locks_with_preempted_waiters_are_reported() {
    assert_eq!(lock(&[(1, 1000.0), (2, 60.0)]), [], "a fair lock is expected to be slower");
    let [(kind, evidence)] = &lock(&[(1, 1000.0), (2, 60.0), (4, 1.0)])[..] else { panic!("one finding") };
    assert_eq!(*kind, FindingKind::Advice);
    assert!(evidence.contains("ticket, 4 workers") && !evidence.contains("2 workers"), "{evidence}");
    let stolen = lock(&[(1, 1000.0), (2, 1.0)]);
    assert_eq!(stolen[0].0, FindingKind::Fact);
}

#[test]
fn pairs_are_listed_by_distance() {
    let evaluation = evaluated(vec![experiment(
        "pipe",
        &[
            ("processes", 1, &[("distance", "same"), ("cpus", "0")], 100.0),
            ("processes", 1, &[("distance", "core"), ("cpus", "0,1")], 50.0),
        ],
    )]);
    let [same, siblings] = &evaluation.contention[0].pairs[..] else { panic!("two pairs") };
    assert_eq!((same.title(), same.cpus.as_str()), ("same CPU", "0"));
    assert_eq!((siblings.distance, siblings.title()), (Some(TopologyDistance::Core), "SMT siblings"));
    assert!((siblings.relative_to_nearest.unwrap().median - 0.5).abs() < 1e-12);
}

/// Ten passes of 1,000 to 10,000: those of 1,000, 2,000 and 3,000 do not count.
#[test]
fn the_index_drops_the_worst_third_and_takes_the_geometric_mean() {
    let mut passes = experiment("pipe", &[("processes", 1, &[], 1.0)]);
    for (index, sample) in passes.samples.iter_mut().enumerate() {
        sample.work = 1000.0 * (index + 1) as f64;
    }
    let index = |experiment: Experiment| evaluated(vec![experiment]).contention[0].unixbench.clone().unwrap();
    let short = index(passes.clone());
    let product: f64 = (4..=10).map(|thousand| 1000.0 * f64::from(thousand)).product();
    assert!((short.rate - product.powf(1.0 / 7.0)).abs() < 1e-6, "{short:?}");
    assert!((short.index - short.rate / 400.0).abs() < 1e-9);
    assert!(!short.exact, "ten passes of one second are not ten passes of ten");
    passes.method = Method::Slices { slice_ns: 10_000_000_000, settle_ns: 0 };
    assert!(index(passes).exact);
}

#[test]
fn a_peer_is_compared_in_pairs() {
    let of = |load: &str, blocks: usize| {
        let mut beside = beside(load);
        beside.samples.retain(|sample| sample.block < blocks);
        let ours = experiment(load, &[("threads", 2, &[], 90.0)]);
        let [load] = &evaluated(vec![ours, beside]).contention[..] else { panic!("one load") };
        load.clone()
    };
    let load = of("sem-sysv", usize::MAX);
    assert_eq!(load.other_program.as_deref(), Some("stress-ng 0.15.06"));
    let ratio = load.against_other[0].ratio.as_ref().unwrap();
    assert!((ratio.median - 0.9).abs() < 1e-12 && ratio.interval.is_some());
    let few = &of("sem-sysv", 2).against_other[0];
    assert_eq!((few.pairs, few.ratio.as_ref()), (2, None), "too few pairs for an interval");
    assert_eq!(of("sem", usize::MAX).against_other[0].ratio, None, "the operation differs");
}

/// Returns the built-in load interleaved with stress-ng.
fn beside(load: &str) -> Experiment {
    let mut beside = experiment(
        load,
        &[
            ("threads", 2, &[("program", "manycore")], 90.0),
            ("threads", 2, &[("program", "stress-ng")], 100.0),
        ],
    );
    beside.id = format!("{}{load}", id::CONTENTION_PEER);
    beside.parameters.insert("version".to_owned(), "stress-ng 0.15.06".to_owned());
    beside
}
