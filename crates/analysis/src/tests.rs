//! Evaluation of synthetic machines whose true behaviour is known.

use super::*;
use manycore_experiment::record::{CounterDelta, Record};
use manycore_stats::verdict::Answer;
use manycore_testkit::{SlowCause, SyntheticMachine};

fn evaluate(world: &SyntheticMachine) -> Evaluation {
    let record = world.record();
    record.check().unwrap();
    Evaluation::from_record(&record)
}

fn texts(evaluation: &Evaluation, kind: FindingKind, topic: &str) -> Vec<String> {
    let of = |finding: &&Finding| finding.kind == kind && finding.topic == topic;
    evaluation.findings.iter().filter(of).map(|finding| finding.text.clone()).collect()
}

/// Returns a quiet guest, so that a test finds only what it adds.
fn quiet() -> SyntheticMachine {
    SyntheticMachine { noise: 0.005, steal: 0.0, ..SyntheticMachine::guest() }
}

fn point(evaluation: &Evaluation, workers: usize) -> &ScalingPoint {
    let points = &evaluation.scaling.as_ref().unwrap().points;
    points.iter().find(|point| point.workers == workers).unwrap()
}

#[test]
fn a_known_effect_of_pinning_is_found_with_its_size() {
    for (pinned, answer) in [(1.10, Answer::BBetter), (0.90, Answer::ABetter), (1.0, Answer::Equivalent)] {
        let verdict = evaluate(&SyntheticMachine { pinned, ..quiet() }).affinity.unwrap().verdict.unwrap();
        assert_eq!(verdict.answer, answer, "{pinned}");
        assert!((verdict.ratio - pinned).abs() < 0.01, "{verdict:?}");
    }
}

#[test]
fn the_noise_floor_grows_with_the_noise() {
    let floor = |noise| evaluate(&SyntheticMachine { noise, ..quiet() }).noise[0].floor.unwrap();
    assert!(floor(0.1) > 5.0 * floor(0.005));
    assert_eq!(evaluate(&quiet()).noise.iter().map(|noise| noise.workers).collect::<Vec<_>>(), [1, 2]);
}

/// One worker that loses 15 % makes a machine that scales perfectly look 1.18 times as fast. This explains
/// the 4.61x on four CPUs of a published table.
#[test]
fn each_cause_of_a_superlinear_point_is_named_and_no_other() {
    for (slow_cause, cause) in [
        (SlowCause::Steal(0.15), "(steal)"),
        (SlowCause::RunDelay(0.15), "(run delay)"),
        (SlowCause::Throttle(0.15), "cgroup quota"),
        (SlowCause::Frequency(0.15), "faster with all at work"),
        (SlowCause::SlowCpu(0.15), "a second of CPU time did"),
    ] {
        // Bare metal, because the kernel reports frequencies there.
        let evaluation = evaluate(&SyntheticMachine { slow_cause, hypervisor: None, ..quiet() });
        let superlinear = point(&evaluation, 2).superlinear.as_ref().unwrap();
        assert!(!superlinear.within_noise, "{slow_cause:?}");
        assert_eq!(superlinear.causes.len(), 1, "{slow_cause:?}: {:?}", superlinear.causes);
        assert!(superlinear.causes[0].contains(cause), "{slow_cause:?}: {:?}", superlinear.causes);
        let warnings = texts(&evaluation, FindingKind::Warning, "scaling");
        assert!(warnings.iter().all(|text| text.contains(cause)), "{warnings:?}");
        assert_eq!(warnings.len(), 2, "two workers and four on two CPUs");
    }
}

#[test]
fn a_superlinear_point_without_a_recorded_cause_is_reported_as_such() {
    let evaluation = evaluate(&SyntheticMachine { slow_cause: SlowCause::Hidden(0.15), ..quiet() });
    assert_eq!(point(&evaluation, 2).superlinear.as_ref().unwrap().causes, Vec::<String>::new());
    assert!(texts(&evaluation, FindingKind::Warning, "scaling")[0].ends_with("the record shows no cause."));
}

#[test]
fn noise_alone_gives_no_warning_of_superlinear_points() {
    for seed in 0..20 {
        let evaluation = evaluate(&SyntheticMachine { seed, ..SyntheticMachine::guest() });
        let sure =
            evaluation.scaling.iter().flat_map(|scaling| &scaling.points).filter(|point| {
                point.superlinear.as_ref().is_some_and(|superlinear| !superlinear.within_noise)
            });
        assert!(sure.count() <= 1, "seed {seed}");
    }
}

#[test]
fn a_negligible_excess_is_noise() {
    for (lost, within) in [(0.04, false), (0.01, true)] {
        let evaluation = evaluate(&SyntheticMachine { slow_cause: SlowCause::SlowCpu(lost), ..quiet() });
        assert_eq!(point(&evaluation, 2).superlinear.as_ref().unwrap().within_noise, within, "{lost}");
    }
}

#[test]
fn efficiency_is_of_the_cpus_in_use() {
    let evaluation = evaluate(&quiet());
    let (full, twice) = (point(&evaluation, 2), point(&evaluation, 4));
    assert!((full.efficiency.median - full.speedup.median / 2.0).abs() < 1e-12);
    assert!(
        (twice.efficiency.median - twice.speedup.median / 2.0).abs() < 1e-12,
        "four workers use two CPUs"
    );
}

#[test]
fn the_law_is_fitted_from_five_points_up_to_the_cpus_only() {
    for (cpus, fitted) in [(2, false), (8, false), (16, true)] {
        let evaluation = evaluate(&SyntheticMachine { cpus, ..SyntheticMachine::server() });
        assert_eq!(evaluation.scaling.as_ref().unwrap().usl.is_some(), fitted, "{cpus}");
        assert_eq!(evaluation.findings.iter().any(|f| f.text.contains("Universal Scalability Law")), fitted);
    }
    let giant = evaluate(&SyntheticMachine::large_server());
    let fit = giant.scaling.as_ref().unwrap().usl.as_ref().unwrap();
    assert!((fit.law.contention - 0.002).abs() < 0.000_3, "{fit:?}");
    assert!(fit.contention.0 <= 0.002 && 0.002 <= fit.contention.1, "{fit:?}");
    assert!((fit.law.coherence - 4e-6).abs() < 1e-6, "{fit:?}");
}

#[test]
fn twice_as_many_workers_are_advised_only_where_they_do_more() {
    let advice = |oversubscribed| {
        texts(&evaluate(&SyntheticMachine { oversubscribed, ..quiet() }), FindingKind::Advice, "scaling")
    };
    assert!(advice(0.9)[0].starts_with("Use 2 workers, as many as CPUs,"));
    assert!(advice(1.0)[0].starts_with("Use 2 workers, as many as CPUs,"));
    assert!(advice(1.2)[0].starts_with("Use more workers than CPUs"));
    let unsure = evaluate(&SyntheticMachine { oversubscribed: 1.2, blocks: 5, ..quiet() });
    assert_eq!(texts(&unsure, FindingKind::Advice, "scaling"), Vec::<String>::new());
}

#[test]
fn a_negligible_gain_is_not_advice_for_more_workers() {
    let world =
        SyntheticMachine { oversubscribed: 1.008, noise: 0.001, steal: 0.0, ..SyntheticMachine::guest() };
    let advice = texts(&evaluate(&world), FindingKind::Advice, "scaling");
    assert!(!advice.iter().any(|text| text.contains("more workers than CPUs")), "{advice:?}");
}

#[test]
fn processes_on_other_cpus_give_a_warning_and_no_pinning_advice() {
    let evaluation = evaluate(&SyntheticMachine { off_cpu_checks: 3, pinned: 1.1, ..quiet() });
    assert_eq!(evaluation.affinity.as_ref().unwrap().off_cpu_checks, 3);
    assert!(texts(&evaluation, FindingKind::Warning, "affinity")[0].contains("seen on other CPUs"));
    assert_eq!(texts(&evaluation, FindingKind::Advice, "affinity"), Vec::<String>::new());
}

#[test]
fn nothing_is_advised_without_data() {
    let mut record = quiet().record();
    record.experiments.clear();
    record.interrupted = true;
    let evaluation = Evaluation::from_record(&record);
    assert_eq!(evaluation.findings.len(), 1, "{:?}", evaluation.findings);
    assert!(evaluation.findings[0].text.contains("interrupted"));
}

#[test]
fn too_few_blocks_give_no_verdict() {
    let evaluation = evaluate(&SyntheticMachine { blocks: 5, ..quiet() });
    let known = |noise: &NoiseFloor| {
        noise.ratio.interval.is_some() || noise.floor.is_some() || noise.minimum_detectable_effect.is_some()
    };
    // They are reported as too few.
    assert!(evaluation.noise.len() == 2 && !evaluation.noise.iter().any(known), "{:?}", evaluation.noise);
    let advice = evaluation.findings.iter().filter(|finding| finding.kind == FindingKind::Advice);
    let topics: Vec<&str> = advice.map(|finding| finding.topic).collect();
    assert!(topics.is_empty(), "{topics:?}");
}

#[test]
fn a_slow_blas_is_reported_from_figures_only() {
    let record = quiet().record();
    let ours = Evaluation::from_record(&record).matrix[0].one_gflops.median;
    let advice = |figures: &[(&str, String)]| {
        let mut record = record.clone();
        for experiment in record.experiments.iter_mut().filter(|e| e.id.starts_with("modes-python")) {
            experiment
                .parameters
                .extend(figures.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        let findings = Evaluation::from_record(&record).findings;
        findings
            .into_iter()
            .find(|f| f.topic == "matrix" && f.kind == FindingKind::Advice)
            .map(|finding| finding.text)
    };
    assert_eq!(advice(&[]), None);
    assert_eq!(advice(&[("blas_gflops", ours.to_string())]), None);
    let slow = ("blas_gflops", (ours / 10.0).to_string());
    assert!(advice(std::slice::from_ref(&slow)).unwrap().contains("Give NumPy an optimised BLAS"));
    let told = [slow, ("blas_kernel", "SkylakeX".to_owned()), ("blas_kernel_gflops", ours.to_string())];
    assert!(advice(&told).unwrap().starts_with("Set OPENBLAS_CORETYPE=SkylakeX for NumPy"));
}

#[test]
fn the_peak_is_known_for_known_cores_only() {
    let known = evaluate(&quiet());
    let peak = known.matrix[0].peak_gflops.unwrap();
    assert!((peak - 2.6 * 32.0).abs() < 1.0, "{peak}");
    let unknown = evaluate(&SyntheticMachine { cpu_id: "Unknown/1/2".to_owned(), ..quiet() });
    assert_eq!(unknown.matrix[0].peak_gflops, None);
}

/// Regression test: "85.6 GFLOPS, 136 % of the core's peak of 63". Another guest had slowed the clock down
/// while it was measured.
#[test]
fn a_peak_that_products_exceed_is_unknown() {
    let mut record = quiet().record();
    let products = record.experiments.iter_mut().find(|experiment| experiment.id == id::MATRIX).unwrap();
    let peak = Evaluation::from_record(&quiet().record()).matrix[0].peak_gflops.unwrap();
    let most = Evaluation::from_record(&quiet().record())
        .matrix
        .iter()
        .map(|point| point.one_gflops.median)
        .fold(0.0, f64::max);
    for sample in &mut products.samples {
        sample.work *= 1.36 * peak / most;
    }
    let evaluation = Evaluation::from_record(&record);
    assert!(evaluation.matrix.iter().all(|point| point.peak_gflops.is_none()), "{:?}", evaluation.matrix);
}

#[test]
fn findings_are_sorted_by_weight() {
    let evaluation =
        evaluate(&SyntheticMachine { slow_cause: SlowCause::Steal(0.2), ..SyntheticMachine::guest() });
    assert!(evaluation.findings.is_sorted_by_key(|finding| finding.kind));
}

/// Regression test: a CPU that the worker never had in a slice counted as one of 0 Hz, so that half of the
/// CPUs halved the clock of one worker alone: "the CPUs ran 96 % faster with all at work".
#[test]
fn a_slice_without_a_cpu_is_no_clock_of_zero_hertz() {
    let mut record = quiet().record();
    let clock = record.experiments.iter_mut().find(|experiment| experiment.id == id::CLOCK).unwrap();
    for sample in &mut clock.samples {
        let workers = clock.treatments[sample.treatment].workers as u64;
        let cpu_ns = if sample.treatment == 0 { 0 } else { sample.wall_ns * workers };
        sample.counters =
            CounterDelta { span_ns: sample.wall_ns, cpu_ns: Some(cpu_ns), ..CounterDelta::default() };
        if cpu_ns == 0 {
            sample.work = 0.0;
        }
    }
    let clock = Evaluation::from_record(&record).clock.unwrap();
    assert!((clock.ratio.unwrap().median - 1.0).abs() < 0.01, "{clock:?}");
    assert!(clock.alone.iter().all(|(_, hz)| hz.median > 1e9), "{clock:?}");
}

/// Regression test: "one worker alone lost 104 % of its time". The kernel counts a wait when it ends,
/// including the part before the sample.
#[test]
fn no_share_of_time_is_above_one() {
    let mut record = quiet().record();
    let scaling = record.experiments.iter_mut().find(|experiment| experiment.id == id::SCALING).unwrap();
    for sample in &mut scaling.samples {
        let span = sample.counters.span_ns;
        sample.counters.run_delay_ns = Some(span * 8);
        sample.counters.throttled_ns = Some(span * 9);
        sample.counters.cpu_pressure_ns = Some(span * 2);
        sample.counters.busy_ticks = vec![1000; 2];
    }
    let evaluation = Evaluation::from_record(&record);
    for point in &evaluation.scaling.unwrap().points {
        let around = &point.counters;
        for share in [
            around.cpu_time,
            around.steal,
            around.other_work,
            around.run_delay,
            around.throttled,
            around.cpu_pressure,
        ] {
            assert!(share.is_some_and(|share| (0.0..=1.0).contains(&share)), "{around:?}");
        }
    }
    let told = evaluation.findings.iter().flat_map(|finding| finding.evidence.iter().chain([&finding.text]));
    for text in told {
        for share in text.split(" %").filter_map(|before| before.rsplit(' ').next()?.parse::<f64>().ok()) {
            assert!(share <= 100.0, "{text}");
        }
    }
}

/// Returns a record in which other work took this share of both CPUs in all samples of the scaling
/// experiment.
fn beside_others(world: &SyntheticMachine, share: f64) -> Record {
    let mut record = world.record();
    let scaling = record.experiments.iter_mut().find(|experiment| experiment.id == id::SCALING).unwrap();
    for sample in &mut scaling.samples {
        let span = sample.counters.span_ns as f64;
        sample.counters.cpu_ns = Some((span * 2.0 * (1.0 - share)) as u64);
        sample.counters.busy_ticks = vec![(span / 1e7) as u32; 2];
        sample.counters.steal_ticks = vec![0; 2];
    }
    record
}

/// Regression test: "use more workers than CPUs" was advised at 91 % load by other work.
#[test]
fn no_advice_with_other_work() {
    let world = SyntheticMachine { oversubscribed: 1.3, pinned: 1.1, ..quiet() };
    let kinds = |share: f64| -> Vec<FindingKind> {
        Evaluation::from_record(&beside_others(&world, share))
            .findings
            .iter()
            .map(|finding| finding.kind)
            .collect()
    };
    assert!(kinds(0.05).contains(&FindingKind::Advice) && kinds(0.05).contains(&FindingKind::Fact));
    let evaluation = Evaluation::from_record(&beside_others(&world, 0.91));
    assert!(
        !kinds(0.91).contains(&FindingKind::Advice) && !kinds(0.91).contains(&FindingKind::Fact),
        "{:?}",
        kinds(0.91)
    );
    let warnings = texts(&evaluation, FindingKind::Warning, "conditions");
    let withheld = warnings.iter().find(|text| text.starts_with("No advice on")).unwrap();
    assert!(
        withheld.contains("scaling")
            && withheld.contains("other work took 91 % of the CPU time (limit for advice 10 %)")
    );
    let marked = evaluation.findings.iter().filter(|finding| finding.kind == FindingKind::Doubtful);
    assert!(marked.clone().count() > 3);
    assert!(
        marked
            .filter_map(|finding| finding.evidence.last())
            .all(|last| last.starts_with("during the measurement "))
    );
}

/// Regression test: the best lock differed from run to run, with "too few samples" as the evidence.
#[test]
fn a_lock_is_the_best_only_where_that_is_shown() {
    let best = |blocks: usize, alike: bool| {
        let mut record = SyntheticMachine { blocks, ..quiet() }.record();
        let lock = record.experiments.iter_mut().find(|e| e.id == format!("{}lock", id::CONTENTION)).unwrap();
        if alike {
            let [spin, mutex] = ["spin, 2 free", "mutex, 2 free"].map(|name| lock.treatment(name).unwrap());
            let of_spin: Vec<f64> = lock.samples_of(spin).map(|sample| sample.work).collect();
            for sample in lock.samples.iter_mut().filter(|sample| sample.treatment == mutex) {
                let wobble = if sample.block % 2 == 0 { 1.05 } else { 0.95 };
                sample.work = of_spin[sample.block] * wobble;
            }
        }
        let find = |finding: &&Finding| finding.topic == "contention" && finding.text.contains("lock");
        Evaluation::from_record(&record)
            .findings
            .iter()
            .find(find)
            .map(|finding| (finding.kind, finding.text.clone()))
    };
    let (kind, text) = best(20, false).unwrap();
    assert!(kind == FindingKind::Fact && text.contains("spin gives"), "{text}");
    for (blocks, alike) in [(5, false), (20, true)] {
        let (kind, text) = best(blocks, alike).unwrap();
        assert!(kind == FindingKind::Doubtful && text.contains("is inconclusive"), "{kind:?} {text}");
    }
}

/// Regression test: a lock that was never acquired was reported as "0.000e0/s".
#[test]
fn a_lock_that_was_never_acquired_is_reported_in_words() {
    let mut record = quiet().record();
    let lock = record.experiments.iter_mut().find(|e| e.id == format!("{}lock", id::CONTENTION)).unwrap();
    let idle: Vec<usize> = (0..lock.treatments.len())
        .filter(|&index| {
            lock.treatments[index].factors["variant"] == "ticket" && lock.treatments[index].workers == 2
        })
        .collect();
    for sample in lock.samples.iter_mut().filter(|sample| idle.contains(&sample.treatment)) {
        (sample.work, sample.per_worker) = (0.0, vec![0.0; 2]);
    }
    let findings = Evaluation::from_record(&record).findings;
    let all: Vec<&String> = findings.iter().flat_map(|f| f.evidence.iter().chain([&f.text])).collect();
    assert!(
        !all.iter().any(|text| text.contains("0.000e0") || text.contains("inf") || text.contains("NaN")),
        "{all:?}"
    );
    assert!(all.iter().any(|text| text.contains("ticket: none at all")), "{all:?}");
}

/// The noise of a machine is a condition of its figures, which a table shows.
#[test]
fn noise_is_not_a_finding() {
    let evaluation = evaluate(&SyntheticMachine::guest());
    assert!(!evaluation.noise.is_empty());
    assert!(evaluation.findings.iter().all(|finding| finding.topic != "noise"));
    assert!(evaluation.findings.iter().all(|finding| !finding.text.contains("within the noise")));
}
