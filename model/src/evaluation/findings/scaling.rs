//! How many workers, what limits them, and which points cannot be believed.

use super::{Evaluation, Finding, Kind, conditions::workers};
use crate::{
    Record,
    evaluation::{
        Scaling, ScalingPoint, id,
        words::{list, percent, times},
    },
    verdict::{Answer, Verdict},
};

/// Efficiency below which a limit is looked for.
const GOOD_EFFICIENCY: f64 = 0.97;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let Some(scaling) = &evaluation.scaling else { return Vec::new() };
    let mut findings: Vec<Finding> = scaling.points.iter().filter_map(superlinear).collect();
    findings.extend(full_width(scaling, record, evaluation));
    findings.extend(oversubscription(record, scaling, evaluation));
    findings.extend(law(scaling));
    findings
}

fn superlinear(point: &ScalingPoint) -> Option<Finding> {
    let superlinear = point.superlinear.as_ref()?;
    let mut evidence = vec![format!("speed-up {}", times(&point.speedup))];
    let (kind, text) = if superlinear.within_noise {
        evidence.extend(superlinear.causes.iter().map(|cause| format!("perhaps: {cause}")));
        let text = format!(
            "The speed-up with {} is {} above linear, which is within the noise: chance will do as the cause.",
            workers(point.workers),
            percent(point.efficiency.median - 1.0)
        );
        (Kind::Fact, text)
    } else {
        let cause = match &superlinear.causes[..] {
            [] => "cause not found".to_owned(),
            causes => list(causes),
        };
        let text = format!(
            "The speed-up with {} is above what their CPUs can give; this is a fault of the baseline, no merit: \
             {cause}.",
            workers(point.workers)
        );
        (Kind::Warning, text)
    };
    Some(Finding::new(kind, "scaling", text, evidence))
}

/// What all CPUs together give, and what keeps them from more.
fn full_width(scaling: &Scaling, record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let full = scaling.points.iter().find(|point| point.workers == scaling.cpus && point.workers > 1);
    let Some(full) = full else { return Vec::new() };
    let mut findings = vec![Finding::new(
        Kind::Fact,
        "scaling",
        format!(
            "{} do {:.2} times the work of one: {} of each CPU's share.",
            workers(full.workers),
            full.speedup.median,
            percent(full.efficiency.median)
        ),
        vec![format!("speed-up {}", times(&full.speedup))],
    )];
    let short = full.efficiency.interval.is_some_and(|(_, high)| high < GOOD_EFFICIENCY);
    if short {
        let causes = limits(full, scaling, record, evaluation);
        let text = match &causes[..] {
            [] => {
                "What keeps the CPUs from more was not found in the recorded conditions; the work touches no \
                   shared data, so look at the host or the firmware."
                    .to_owned()
            }
            causes => format!("What limits scaling here: {}.", list(causes)),
        };
        findings.push(Finding::new(
            Kind::Fact,
            "scaling",
            text,
            vec![format!("efficiency {} with {}", percent(full.efficiency.median), workers(full.workers))],
        ));
    }
    findings
}

/// Limits that the record shows, each at least a third of the work that is missing.
fn limits(full: &ScalingPoint, scaling: &Scaling, record: &Record, evaluation: &Evaluation) -> Vec<String> {
    let missing = 1.0 - full.efficiency.median;
    let explains = |share: &f64| *share > missing / 3.0;
    let around = &full.circumstances;
    let mut limits = Vec::new();
    let slower = evaluation.clock.as_ref().and_then(|clock| clock.ratio).map(|ratio| 1.0 - ratio.median);
    if let Some(slower) = slower.filter(explains) {
        limits.push(format!("the CPUs' clock is {} slower when all are at work", percent(slower)));
    }
    if record.machine.has_smt() && scaling.cpus > record.machine.cores.len() {
        limits.push(format!(
            "{} CPUs are {} cores with SMT siblings, which share their units",
            scaling.cpus,
            record.machine.cores.len()
        ));
    }
    for (name, share) in [
        ("the hypervisor takes {} of the time (steal)", around.steal),
        ("workers wait {} of the time for a CPU (run delay)", around.run_delay),
        ("other work uses {} of the time", around.foreign),
        ("a quota holds the workers back for {} of the time", around.throttled),
    ] {
        if let Some(share) = share.filter(explains) {
            limits.push(name.replace("{}", &percent(share)));
        }
    }
    limits
}

/// Twice as many workers as CPUs: does it pay?
fn oversubscription(record: &Record, scaling: &Scaling, evaluation: &Evaluation) -> Option<Finding> {
    let experiment = record.experiment(id::SCALING)?;
    let index = |count| experiment.treatments.iter().position(|treatment| treatment.workers == count);
    let (full, twice) = (index(scaling.cpus)?, index(scaling.cpus * 2)?);
    let floor = crate::evaluation::noise::floor(&evaluation.noise, scaling.cpus);
    let verdict = Verdict::of(&experiment.log_ratios(full, twice), floor)?;
    let (kind, text) = match verdict.verdict {
        Answer::BBetter => (
            Kind::Advice,
            format!(
                "Use more workers than CPUs for work like this: {} did more than {}.",
                scaling.cpus * 2,
                scaling.cpus
            ),
        ),
        Answer::ABetter | Answer::NoDifference => (
            Kind::Advice,
            format!(
                "Use as many workers as CPUs, {}, for work that computes: twice as many do not do more, and each \
                 event takes longer.",
                scaling.cpus
            ),
        ),
        Answer::NotEnough => return None,
    };
    let mean = |workers: usize| {
        let point = scaling.points.iter().find(|point| point.workers == workers)?;
        Some(format!("mean event {:.2} ms with {workers} workers", point.latency?.mean_ms))
    };
    let mut evidence = vec![ratio(&verdict, "twice as many over as many")];
    evidence.extend([scaling.cpus, scaling.cpus * 2].into_iter().filter_map(mean));
    Some(Finding::new(kind, "scaling", text, evidence))
}

/// A verdict's ratio in words.
pub(super) fn ratio(verdict: &Verdict, what: &str) -> String {
    let interval = verdict.interval.map_or_else(
        || "too few pairs for an interval".to_owned(),
        |(low, high)| format!("95 %: {low:.3} to {high:.3}"),
    );
    format!(
        "{what}: {:.3} ({interval}; {} pairs; noise floor {})",
        verdict.ratio,
        verdict.pairs,
        percent(verdict.noise_floor)
    )
}

fn law(scaling: &Scaling) -> Option<Finding> {
    let fit = scaling.usl.as_ref()?;
    let peak = match fit.law.peak().filter(|peak| *peak < 4.0 * scaling.cpus as f64) {
        Some(peak) => format!("more than {peak:.0} workers would do less work"),
        None => "no number of workers in reach does less work".to_owned(),
    };
    Some(Finding::new(
        Kind::Fact,
        "scaling",
        format!(
            "By the Universal Scalability Law {} of the work queues (contention) and {peak}.",
            percent(fit.law.contention)
        ),
        vec![
            format!(
                "contention {:.5}, 95 %: {:.5} to {:.5}",
                fit.law.contention, fit.contention.0, fit.contention.1
            ),
            format!(
                "coherence {:.2e}, 95 %: {:.2e} to {:.2e}",
                fit.law.coherence, fit.coherence.0, fit.coherence.1
            ),
        ],
    ))
}
