use super::*;
use crate::{Evaluation, FindingKind, summary::summarize};
use manycore_experiment::Record;
use manycore_testkit::{SyntheticMachine, hosts::InstanceHost};

/// A host of so many CPUs.
fn host(cpus: usize) -> InstanceHost {
    InstanceHost::new(cpus, 0.5, 0.3, 1e9, 7)
}

fn record(cpus: &[usize]) -> Record {
    SyntheticMachine::server().density(cpus.iter().map(|&cpus| host(cpus)).collect())
}

fn texts(record: &Record, kind: FindingKind) -> Vec<String> {
    let findings = Evaluation::from_record(record).findings.into_iter();
    findings
        .filter(|finding| finding.kind == kind && finding.topic == "density")
        .map(|finding| finding.text)
        .collect()
}

#[test]
fn the_answer_follows_from_the_samples_of_the_record() {
    let record = record(&[16]);
    let truth = host(16).true_density(1.1, 512);
    let density = Evaluation::from_record(&record).density.unwrap();
    let [variant] = &density.variants[..] else { panic!() };
    let LargestCount { estimate, low, high } = variant.answer;
    assert!(low <= truth && truth <= high.unwrap(), "{truth}: {:?}", variant.answer);
    assert_eq!(variant.path[..3], [2, 4, 8]);
    assert_eq!(variant.pairs, record.experiments[0].samples.len() / 2);
    let [answer] = &texts(&record, FindingKind::Answer)[..] else { panic!() };
    let expected =
        format!("{} instances fit within p99 < +10% (95 %: {low} to {}).", estimate.unwrap(), high.unwrap());
    assert!(answer.starts_with(&expected), "{answer}");
    let first = &summarize(&record, &Evaluation::from_record(&record))[0];
    assert_eq!((first.section, &first.line), ("density", answer));
    assert_eq!(variant.tails.iter().map(|tail| tail.count).min(), Some(1));
}

#[test]
fn the_resource_that_moves_with_the_tail_is_named_with_the_next_step() {
    let facts = texts(&record(&[16]), FindingKind::Fact);
    let [fact] = &facts[..] else { panic!("{facts:?}") };
    assert!(fact.contains("run delay") || fact.contains("memory bandwidth"), "{fact}");
    assert!(fact.contains("To try next: "), "{fact}");
}

#[test]
fn a_variant_that_holds_more_is_an_answer_with_an_interval() {
    let record = record(&[16, 64]);
    let density = Evaluation::from_record(&record).density.unwrap();
    let [difference] = &density.differences[..] else { panic!() };
    assert_eq!((difference.answer, difference.label.as_str()), (DensityAnswer::More, "B"));
    let truth = host(64).true_density(1.1, 512) as i64 - host(16).true_density(1.1, 512) as i64;
    assert!(difference.low.unwrap() <= truth && truth <= difference.high.unwrap(), "{truth}: {difference:?}");
    assert!(texts(&record, FindingKind::Answer)[0].starts_with("B holds more instances than A: +"));
    let same = Evaluation::from_record(&self::record(&[16, 16])).density.unwrap().differences.remove(0);
    assert!(matches!(same.answer, DensityAnswer::Same | DensityAnswer::Inconclusive), "{same:?}");
}

#[test]
fn a_count_that_failed_is_above_the_bound() {
    let mut record = record(&[16]);
    let experiment = &mut record.experiments[0];
    // Everything above four instances failed.
    let fails = |sample: &Sample| experiment.treatments[sample.treatment].workers > 4;
    let blocks: Vec<usize> =
        experiment.samples.iter().filter(|sample| fails(sample)).map(|sample| sample.block).collect();
    let first = blocks[0];
    experiment.samples.retain(|sample| sample.block <= first);
    let last = experiment.samples.last_mut().unwrap();
    (last.exit_codes, last.values) = (vec![1], vec![0.0; 4]);
    let failed = &mut experiment.treatments[last.treatment].factors;
    failed.insert(factor::FAILURE.to_owned(), "no more\u{1b} memory".to_owned());
    let density = Evaluation::from_record(&record).density.unwrap();
    let variant = &density.variants[0];
    assert_eq!((variant.answer.low, variant.answer.high, variant.is_complete), (4, Some(7), false));
    assert!(variant.counts.last().unwrap().has_failed);
    let answer = &texts(&record, FindingKind::Answer)[0];
    assert!(answer.contains("The search was not finished"), "{answer}");
    let findings = Evaluation::from_record(&record).findings;
    let evidence = findings.into_iter().flat_map(|finding| finding.evidence).collect::<Vec<_>>();
    assert!(evidence.contains(&"8 instances: failed (no more\u{fffd} memory)".to_owned()), "{evidence:?}");
    assert!(texts(&record, FindingKind::Warning).is_empty());
}

#[test]
fn without_a_limit_the_answer_says_how_many_were_measured() {
    let answer = &texts(&record(&[4096]), FindingKind::Answer)[0];
    assert!(
        answer.starts_with("At least 512 instances fit within p99 < +10%: that is the largest"),
        "{answer}"
    );
}

/// The record of an absolute bound that a lone instance breaks.
#[test]
fn a_bound_that_is_broken_alone_is_said() {
    let mut record = record(&[16]);
    record.experiments[0].parameters.insert(parameter::BOUND.to_owned(), "p99 < 1us".to_owned());
    for (block, sample) in record.experiments[0].samples.iter_mut().enumerate() {
        (sample.block, sample.treatment) = (block, 0);
    }
    let answer = &texts(&record, FindingKind::Answer)[0];
    assert!(answer.starts_with("A lone instance is above p99 < 0.001ms already."), "{answer}");
}
