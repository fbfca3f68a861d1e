//! Evaluation of synthetic latency matrices whose true values are known.

use super::*;
use crate::{Evaluation, Finding, FindingKind};
use manycore_experiment::record::id;
use manycore_testkit::{SyntheticMachine, distance_ns, latency_experiment};
use manycore_topology::machine::Group;
use proptest::prelude::*;

/// Returns a machine with 16 CPUs below one last-level cache, for which the kernel reports no further
/// structure.
fn flat() -> Machine {
    SyntheticMachine { smt: false, blocks: 0, ..SyntheticMachine::server() }.record().machine
}

/// Evaluates a record that contains only a latency matrix.
fn evaluated(
    machine: &Machine,
    truth: &dyn Fn(CpuId, CpuId, TopologyDistance) -> f64,
    noise: f64,
    seed: u64,
) -> Evaluation {
    let mut record = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record();
    record.machine = machine.clone();
    record.experiments = vec![latency_experiment(machine, truth, noise, 10, seed)];
    record.check().unwrap();
    Evaluation::from_record(&record)
}

fn latency_findings(evaluation: &Evaluation) -> Vec<&Finding> {
    evaluation.findings.iter().filter(|finding| finding.topic == "latency").collect()
}

fn names(groups: &[CpuSet]) -> Vec<String> {
    groups.iter().map(ToString::to_string).collect()
}

#[test]
fn pairs_are_sorted_by_what_they_share() {
    let machine = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record().machine;
    let evaluation = evaluated(&machine, &distance_ns, 0.01, 1);
    let latency = evaluation.latency.as_ref().unwrap();
    assert_eq!((latency.pairs.len(), latency.possible_pairs, latency.max_visits), (120, 120, 10));
    let at: Vec<(TopologyDistance, usize)> =
        latency.distances.iter().map(|at| (at.distance, at.pairs)).collect();
    assert_eq!(at, [(TopologyDistance::Core, 8), (TopologyDistance::Llc, 112)]);
    assert!((latency.distances[0].median_ns - 9.0).abs() < 0.1);
    assert!(latency.noise.unwrap() < 0.01, "{:?}", latency.noise);
    let findings = latency_findings(&evaluation);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0]
            .text
            .starts_with("Core-to-core latency is 9.0 ns between SMT siblings and 48 ns between CPUs of one")
    );
}

#[test]
fn two_hidden_clusters_are_found() {
    let truth = |a: CpuId, b: CpuId, _| if a / 8 == b / 8 { 48.0 } else { 112.0 };
    let evaluation = evaluated(&flat(), &truth, 0.03, 2);
    let latency = evaluation.latency.as_ref().unwrap();
    assert_eq!(latency.unreported_groups.len(), 1);
    assert_eq!(names(&latency.unreported_groups[0].groups), ["0-7", "8-15"]);
    assert!(
        (latency.unreported_groups[0].inside_ns - 48.0).abs() < 1.0
            && (latency.unreported_groups[0].between_ns - 112.0).abs() < 2.0
    );
    let advice = latency_findings(&evaluation)
        .into_iter()
        .find(|finding| finding.kind == FindingKind::Advice)
        .unwrap();
    assert!(advice.text.contains("CPUs 0-7 and CPUs 8-15 are nearer to each other"), "{}", advice.text);
    assert!(advice.evidence[0].contains("2.3 times as long"), "{:?}", advice.evidence);
}

#[test]
fn hidden_siblings_are_named_as_such_and_clusters_around_them_do_not_hide_them() {
    let truth = |a: CpuId, b: CpuId, _| match (a % 8 == b % 8, a % 8 / 4 == b % 8 / 4) {
        (true, _) => 9.0,
        (_, true) => 40.0,
        _ => 90.0,
    };
    let evaluation = evaluated(&flat(), &truth, 0.03, 3);
    let latency = evaluation.latency.as_ref().unwrap();
    assert_eq!(latency.unreported_groups[0].groups.len(), 8);
    assert!(
        latency_findings(&evaluation)
            .iter()
            .any(|finding| finding.text.contains("as SMT siblings or cores with a common L2"))
    );
}

/// Groups that the kernel reports are not found again, and SMT siblings inside groups do not hide the
/// groups.
#[test]
fn known_groups_are_not_hidden() {
    let mut machine = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record().machine;
    let truth = |a: CpuId, b: CpuId, distance| match distance {
        TopologyDistance::Core => 9.0,
        _ if a / 8 == b / 8 => 48.0,
        _ => 112.0,
    };
    let hidden = |machine: &Machine| evaluated(machine, &truth, 0.03, 4).latency.unwrap().unreported_groups;
    assert_eq!(names(&hidden(&machine)[0].groups), ["0-7", "8-15"]);
    machine.clusters = ["0-7", "8-15"].map(|cpus| Group { id: None, cpus: cpus.parse().unwrap() }).into();
    assert_eq!(hidden(&machine), []);
}

#[test]
fn one_bad_cpu_is_named_and_is_no_group() {
    let truth = |a: CpuId, b: CpuId, _| if a == 5 || b == 5 { 150.0 } else { 50.0 };
    let evaluation = evaluated(&flat(), &truth, 0.05, 5);
    let latency = evaluation.latency.as_ref().unwrap();
    assert_eq!(latency.distant_cpus.iter().map(|far| far.cpu).collect::<Vec<_>>(), [5]);
    assert!((latency.distant_cpus[0].ratio - 3.0).abs() < 0.2);
    assert_eq!(latency.unreported_groups, []);
    assert!(
        latency_findings(&evaluation)
            .iter()
            .any(|finding| finding.text.starts_with("CPU 5 is far from all other CPUs: its"))
    );
}

#[test]
fn false_siblings_are_a_warning_in_guests_only() {
    let machine = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record().machine;
    for (hypervisor, kind) in [(Some("KVM".to_owned()), FindingKind::Warning), (None, FindingKind::Fact)] {
        let mut machine = machine.clone();
        machine.system.hypervisor = hypervisor;
        let evaluation = evaluated(&machine, &|_, _, _| 50.0, 0.02, 6);
        let finding = latency_findings(&evaluation)
            .into_iter()
            .find(|finding| finding.text.contains("no nearer"))
            .unwrap();
        assert_eq!(finding.kind, kind);
        let noisy = evaluated(&machine, &|_, _, _| 50.0, 0.9, 6);
        assert!(
            !latency_findings(&noisy).iter().any(|finding| finding.text.contains("no nearer")),
            "the noise hides it"
        );
    }
}

#[test]
fn groups_within_noise_are_rejected() {
    let truth = |a: CpuId, b: CpuId, _| if a / 8 == b / 8 { 48.0 } else { 65.0 };
    assert_eq!(
        evaluated(&flat(), &truth, 0.02, 7).latency.unwrap().unreported_groups.len(),
        1,
        "a difference of a quarter is found where noise is low"
    );
    assert_eq!(evaluated(&flat(), &truth, 0.5, 7).latency.unwrap().unreported_groups, []);
}

#[test]
fn one_visit_gives_figures_without_noise() {
    let machine = flat();
    let mut record = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record();
    record.machine = machine.clone();
    let truth = |a: CpuId, b: CpuId, _| if a / 8 == b / 8 { 48.0 } else { 112.0 };
    record.experiments = vec![latency_experiment(&machine, &truth, 0.01, 1, 1)];
    let latency = Evaluation::from_record(&record).latency.unwrap();
    assert_eq!((latency.noise, latency.unreported_groups.len(), latency.pairs.len()), (None, 0, 120));
}

#[test]
fn visits_that_gave_nothing_or_were_elsewhere_do_not_count() {
    let machine = SyntheticMachine { blocks: 0, ..SyntheticMachine::guest() }.record().machine;
    let mut experiment = latency_experiment(&machine, &|_, _, _| 100.0, 0.0, 4, 1);
    experiment.samples[0].work = 0.0;
    experiment.samples[0].values = vec![0.0; 3];
    experiment.samples[1].counters.off_cpu_checks = Some(1);
    experiment.samples[1].values[0] = 5000.0;
    let evaluated = evaluate(&experiment, &machine).unwrap();
    assert_eq!((evaluated.pairs[0].visits, evaluated.max_visits, evaluated.noise), (2, 2, None));
    assert!((evaluated.pairs[0].latency_ns - 100.0).abs() < 1e-9);
    experiment.samples.clear();
    assert_eq!(evaluate(&experiment, &machine), None);
}

#[test]
fn a_record_without_the_section_has_no_findings_about_it() {
    let mut record = SyntheticMachine::guest().record();
    record.experiments.retain(|experiment| experiment.id != id::LATENCY);
    assert_eq!(Evaluation::from_record(&record).latency, None);
}

#[test]
fn hundreds_of_cpus_are_evaluated_quickly() {
    let record = SyntheticMachine { blocks: 3, ..SyntheticMachine::large_server() }.record();
    let latency = Evaluation::from_record(&record).latency.unwrap();
    assert_eq!(latency.possible_pairs, 320 * 319 / 2);
    assert!(latency.pairs.len() <= 3000 && latency.pair_selection.is_some());
    assert_eq!(latency.cpus.len(), 320, "no CPU is left out");
}

proptest! {
    /// Noise alone is never taken for structure.
    #[test]
    fn noise_is_not_structure(noise in 0.001f64..0.6, seed in 0u64..10_000, cpus in 2u32..20) {
        let machine = SyntheticMachine { cpus, smt: false, blocks: 0, ..SyntheticMachine::server() }.record().machine;
        let latency = evaluated(&machine, &|_, _, _| 60.0, noise, seed).latency.unwrap();
        prop_assert_eq!(&latency.unreported_groups, &[]);
        prop_assert_eq!(&latency.distant_cpus, &[]);
    }

    /// Groups of any size are found exactly.
    #[test]
    fn hidden_groups_are_found_whatever_they_are(of in prop::collection::vec(0u32..4, 8..17), seed in 0u64..1000) {
        let members = |group: u32| (0..of.len() as CpuId).filter(|&cpu| of[cpu as usize] == group).collect::<CpuSet>();
        let mut expected: Vec<CpuSet> = (0..4).map(members).filter(|group| group.len() > 1).collect();
        prop_assume!(expected.len() > 1 && (0..4).all(|group| members(group).len() != 1));
        expected.sort_by_key(CpuSet::first);
        let cpus = of.len() as u32;
        let machine = SyntheticMachine { cpus, smt: false, blocks: 0, ..SyntheticMachine::server() }.record().machine;
        let truth = |a: CpuId, b: CpuId, _| if of[a as usize] == of[b as usize] { 30.0 } else { 90.0 };
        let latency = evaluated(&machine, &truth, 0.05, seed).latency.unwrap();
        prop_assert_eq!(&latency.unreported_groups[0].groups, &expected);
        prop_assert_eq!(&latency.distant_cpus, &[]);
    }
}

/// Regression test: visits without a figure were left out, so a pair's figure came from the best of its
/// visits.
#[test]
fn a_visit_without_a_figure_counts_as_longer_than_all_others() {
    assert_eq!(median_with_larger(&[3.0, 1.0, 2.0], 0), Some(2.0));
    assert_eq!(median_with_larger(&[3.0, 1.0, 2.0], 1), Some(2.5));
    assert_eq!(median_with_larger(&[3.0, 1.0, 2.0], 2), Some(3.0));
    assert_eq!(median_with_larger(&[3.0, 1.0, 2.0], 3), None);
    assert_eq!(median_with_larger(&[], 0), None);
}

#[test]
fn a_pair_with_mostly_empty_visits_has_no_figure() {
    let mut record = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record();
    let machine = record.machine.clone();
    let mut experiment = latency_experiment(&machine, &distance_ns, 0.01, 10, 1);
    let (mut silent, mut never_begun) = (0, 0);
    for sample in &mut experiment.samples {
        match sample.treatment {
            0 if silent < 6 => {
                (silent, sample.work, sample.counters.span_ns) = (silent + 1, 0.0, 100_000_000);
            }
            1 if never_begun < 6 => {
                (never_begun, sample.work, sample.counters.span_ns) = (never_begun + 1, 0.0, 500);
            }
            _ => {}
        }
    }
    record.experiments = vec![experiment];
    let evaluated = Evaluation::from_record(&record).latency.unwrap();
    assert_eq!(evaluated.pairs.len(), 119, "only the first pair has none");
}
