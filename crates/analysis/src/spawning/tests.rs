use super::*;
use crate::{Evaluation, FindingKind};
use manycore_testkit::SyntheticMachine;
use manycore_topology::CpuSet;

fn guest(work: Work) -> Record {
    let record = SyntheticMachine { steal: 0.0, ..SyntheticMachine::guest() }.spawn(work);
    record.check().unwrap();
    record
}

/// Returns the findings about light processes, each as its kind and its text.
fn findings(record: &Record) -> Vec<(FindingKind, String)> {
    let found = Evaluation::from_record(record).findings;
    found.into_iter().filter(|finding| finding.topic == "spawn").map(|one| (one.kind, one.text)).collect()
}

fn has_finding(record: &Record, kind: FindingKind, part: &str) -> bool {
    findings(record).iter().any(|(of, text)| *of == kind && text.contains(part))
}

#[test]
fn every_runtime_has_its_capacity_and_lowest_limit() {
    let all = evaluate(&guest(Work::Idle));
    let capacities: Vec<(u64, u64)> =
        all.iter().map(|light| light.capacity.as_ref().map(|c| (c.count, c.by_memory)).unwrap()).collect();
    // 70 % of 8 GiB less the fixed part, over the true bytes of each including the kernel's.
    let memory = (8u64 << 30) as f64 * 0.7;
    let holds = |fixed: f64, bytes: f64| (memory - fixed) / bytes;
    let truths = [holds(31e6, 2677.0), holds(4e6, 2715.0), holds(3e6, 26_000.0)];
    for ((_, by_memory), truth) in capacities.iter().zip(truths) {
        assert!((*by_memory as f64 / truth - 1.0).abs() < 0.001, "{by_memory} {truth}");
    }
    assert_eq!([capacities[0].0, capacities[2].0], [2_097_100, 32_384]);
    assert_eq!(capacities[1].0, capacities[1].1, "nothing but memory bounds Go");
    let record = guest(Work::Idle);
    assert!(has_finding(
        &record,
        FindingKind::Answer,
        "Erlang/OTP 25 (ERTS 13.1.5): 2.09e6 processes fit under +P (2.23e6 in memory)."
    ));
    assert!(has_finding(
        &record,
        FindingKind::Advice,
        "threads: kernel.pid_max limits the number to 32,384 threads"
    ));
    assert!(!has_finding(&record, FindingKind::Advice, "go:"));
}

#[test]
fn capacity_test_confirms_or_contradicts() {
    let mut record = guest(Work::Idle);
    assert!(has_finding(
        &record,
        FindingKind::Fact,
        "beam: with 1.00 GB, 3.61e5 processes were alive of 3.61e5"
    ));
    record.light_processes[0].runs[2].alive = 200_000;
    assert!(has_finding(
        &record,
        FindingKind::Warning,
        "beam: with 1.00 GB, 2e5 processes were alive of 3.61e5 predicted"
    ));
}

#[test]
fn figures_that_differ_from_the_runtimes_are_reported() {
    let record = guest(Work::Idle);
    let differ = |name: &str| has_finding(&record, FindingKind::Warning, &format!("{name}: 1e6"));
    assert!(differ("go") && !differ("beam"), "{:?}", findings(&record));
    let spin = guest(Work::Spin);
    assert!(
        !has_finding(&spin, FindingKind::Warning, "measured figures"),
        "a start of milliseconds, and 3 MB"
    );
    let mut slow = guest(Work::Idle);
    slow.light_processes[0].runs[1].reported_start_seconds = Some(1.2);
    assert!(has_finding(&slow, FindingKind::Warning, "beam: 1e6 processes: measured figures"));
}

fn mismatched(count: usize, cpus: &str, quota_cpus: Option<f64>) -> Option<SchedulerMismatch> {
    let cpus: CpuSet = cpus.parse().unwrap();
    let schedulers = Schedulers { count: Some(count), cpus, quota_cpus, ..Schedulers::default() };
    mismatch(Runtime::Beam, &schedulers)
}

#[test]
fn schedulers_are_compared_with_cpus_and_quota() {
    assert_eq!(mismatched(4, "0-3", None), None);
    assert_eq!(mismatched(4, "0-3", Some(4.0)), None);
    assert_eq!(mismatched(2, "0-3", Some(1.5)), None, "a fraction of a CPU counts as one more scheduler");
    let wrong = mismatched(4, "0-3", Some(2.0)).unwrap();
    assert_eq!((wrong.more, wrong.by_quota, &*wrong.fix), (true, true, "erl +S 2:2"));
    let wrong = mismatched(8, "0-3", Some(16.0)).unwrap();
    assert_eq!((wrong.more, wrong.by_quota, wrong.fitting), (true, false, 4));
    let wrong = mismatched(2, "0-3", None).unwrap();
    assert_eq!((wrong.more, wrong.fitting), (false, 4));
    assert_eq!(mismatched(2, "", None), None, "the CPUs are unknown");
    let record = guest(Work::Idle);
    assert!(has_finding(
        &record,
        FindingKind::Warning,
        "go: 2 schedulers, and a quota limits CPU time to 1.00 CPUs"
    ));
    assert_eq!(
        Evaluation::from_record(&record).light_processes[1].mismatch.as_ref().unwrap().fix,
        "GOMAXPROCS=1"
    );
}

#[test]
fn work_on_half_of_the_cpus_is_reported() {
    let record = guest(Work::Spin);
    let all = evaluate(&record);
    let balance = |index: usize| all[index].runs[0].balance.clone().unwrap();
    assert!(balance(0).fairness.unwrap() > 0.999 && balance(0).scheduler_fairness.unwrap() > 0.999);
    assert!(balance(1).fairness.unwrap() < 0.65);
    assert_eq!((balance(0).queued, balance(1).queued), (Some(998.0), None));
    assert!(has_finding(
        &record,
        FindingKind::Warning,
        "go: 1,000 goroutines that compute did not use the CPUs evenly"
    ));
    assert!(!has_finding(&record, FindingKind::Warning, "beam: 1,000 processes that compute"));
    let stolen = SyntheticMachine { steal: 0.1, ..SyntheticMachine::guest() }.spawn(Work::Spin);
    assert!(has_finding(&stolen, FindingKind::Warning, "the hypervisor took 10 % of the CPU time"));
}

#[test]
fn fewer_than_cpus_need_not_be_even() {
    let mut record = guest(Work::Spin);
    record.light_processes[1].runs[0].alive = 1;
    assert!(!has_finding(&record, FindingKind::Warning, "evenly"));
}

#[test]
fn rounds_have_a_rate_and_percentiles() {
    let all = evaluate(&guest(Work::Io));
    let rounds = all[0].runs[0].file_rounds.clone().unwrap();
    assert!((rounds.per_second - 40_000.0).abs() < 1e-6);
    let near = |ns: Option<f64>, truth: f64| (ns.unwrap() / truth - 1.0).abs() < 0.02;
    assert!(near(rounds.p50_ns, 40_000.0) && near(rounds.p99_ns, 4e6), "{rounds:?}");
}

#[test]
fn names_include_the_work_where_it_differs() {
    let mut record = guest(Work::Idle);
    record.light_processes.extend(guest(Work::Spin).light_processes);
    let names: Vec<String> = evaluate(&record).into_iter().map(|light| light.name).collect();
    assert_eq!(names[0], "beam, idle");
    assert_eq!(names[3], "beam, spin");
}

#[test]
fn abnormal_ends_are_reported() {
    let mut record = guest(Work::Idle);
    record.light_processes[2].runs[2].ending =
        Ending::Refused { why: "Resource temporarily unavailable".to_owned() };
    assert!(has_finding(
        &record,
        FindingKind::Warning,
        "threads: 30,000 threads were requested; 30,000 were alive."
    ));
}

#[test]
fn a_record_without_light_processes_has_no_findings_about_them() {
    let record = SyntheticMachine { blocks: 4, ..SyntheticMachine::guest() }.record();
    assert_eq!((findings(&record), evaluate(&record)), (Vec::new(), Vec::new()));
}
