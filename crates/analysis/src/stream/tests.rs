use crate::{Evaluation, FindingKind, MemoryBandwidth};
use manycore_experiment::Record;
use manycore_testkit::SyntheticMachine;

/// A machine with two nodes of eight CPUs.
fn world() -> SyntheticMachine {
    SyntheticMachine { nodes: 2, ..SyntheticMachine::server() }
}

fn stream(record: &Record) -> MemoryBandwidth {
    Evaluation::from_record(record).stream.unwrap()
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 0.05
}

#[test]
fn every_kernel_has_its_rate_and_its_gain() {
    let streaming = stream(&world().record());
    let of = |title: &str, workers: usize| {
        let point = streaming.points.iter().find(|p| p.title() == title && p.workers == workers);
        point.unwrap_or_else(|| panic!("{title} {workers}")).clone()
    };
    assert!(near(of("read", 1).rate.median, 12e9));
    let all = of("triad, non-temporal", 8);
    assert!(near(all.speedup.unwrap().median, 5.0), "{all:?}");
    assert_eq!(of("read", 1).speedup, None);
    assert_eq!(streaming.measured_nodes, Some((0, 0)));
}

#[test]
fn a_route_combines_three_treatments() {
    let streaming = stream(&world().record());
    assert_eq!(streaming.nodes(), [vec![0, 1], vec![0, 1]]);
    let (near_by, far) = (streaming.route(0, 0).unwrap(), streaming.route(0, 1).unwrap());
    assert!(near(near_by.idle_ns.unwrap().median, 90.0) && near(far.idle_ns.unwrap().median, 140.0));
    assert!(near(near_by.loaded_ns.unwrap().median, 240.0), "{near_by:?}");
    assert!(near(far.rate.unwrap().median / near_by.rate.unwrap().median, 0.6));
    assert!(near_by.loaded_bytes_per_second.unwrap() > 1e9 && near_by.workers == 8);
}

#[test]
fn findings_contain_their_figures() {
    let evaluation = Evaluation::from_record(&world().record());
    let told: Vec<String> = evaluation
        .findings
        .iter()
        .filter(|finding| finding.topic == "stream")
        .map(|finding| finding.text.clone())
        .collect();
    let all = told.join("\n");
    for expected in ["GB/s", "node 1", "under load", "8 workers"] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
}

#[test]
fn one_number_of_workers_is_compared_to_no_other() {
    let mut record = world().record();
    for experiment in record.experiments.iter_mut().filter(|experiment| experiment.id == "stream") {
        let all: Vec<usize> = experiment.treatments.iter().map(|treatment| treatment.workers).collect();
        experiment.samples.retain(|sample| all[sample.treatment] == 8);
    }
    let told = |finding: &&crate::Finding| finding.topic == "stream" && finding.text.contains("8 workers");
    let evaluation = Evaluation::from_record(&record);
    let text = &evaluation.findings.iter().find(told).unwrap().text;
    assert!(text.ends_with("(read).") && !text.contains("alone"), "{text}");
}

#[test]
fn arrays_that_caches_hold_are_a_warning() {
    let mut record = world().record();
    assert!(!stream(&record).arrays_too_small());
    for experiment in &mut record.experiments {
        if let Some(bytes) = experiment.parameters.get_mut("array_bytes") {
            "1048576".clone_into(bytes);
        }
    }
    assert!(stream(&record).arrays_too_small());
    let warned = |finding: &crate::Finding| {
        finding.kind == FindingKind::Warning && finding.topic == "stream" && finding.text.contains("caches")
    };
    assert!(Evaluation::from_record(&record).findings.iter().any(warned));
}

#[test]
fn a_partial_record_is_evaluated() {
    let mut record = world().record();
    record.experiments.retain(|experiment| experiment.id != "stream" && experiment.id != "stream-nodes");
    let streaming = stream(&record);
    assert!(streaming.points.is_empty() && streaming.measured_nodes.is_none());
    assert!(streaming.routes.iter().all(|route| route.rate.is_none() && route.idle_ns.is_some()));
    record.experiments.retain(|experiment| !experiment.id.starts_with("stream"));
    assert_eq!(Evaluation::from_record(&record).stream, None);
}

#[test]
fn damaged_factors_and_values_are_left_out() {
    let mut record = world().record();
    for experiment in record.experiments.iter_mut().filter(|e| e.id.starts_with("stream")) {
        for treatment in &mut experiment.treatments {
            treatment.factors.insert("to".to_owned(), "-1".to_owned());
            treatment.factors.remove("kernel");
        }
        experiment.samples.iter_mut().for_each(|sample| sample.values.clear());
    }
    assert_eq!(Evaluation::from_record(&record).stream, None);
}
