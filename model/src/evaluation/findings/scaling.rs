//! How many workers, what limits them, and which points cannot be believed.

use super::{Evaluation, Finding, Kind, conditions::workers};
use crate::{
    Machine, Record,
    evaluation::{
        Scaling, ScalingPoint, id, usable_cores,
        words::{list, percent, times},
    },
    verdict::{Answer, Rule, Verdict},
};

/// Efficiency below which a limit is looked for.
const GOOD_EFFICIENCY: f64 = 0.97;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let Some(scaling) = &evaluation.scaling else { return Vec::new() };
    let mut findings: Vec<Finding> = scaling.points.iter().filter_map(superlinear).collect();
    findings.extend(full_width(scaling, record, evaluation));
    findings.extend(enough(record, scaling, evaluation));
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
        let text = format!(
            "The speed-up with {} is above what their CPUs can give; this is a fault of the baseline, no merit: \
             {}.",
            workers(point.workers),
            superlinear.cause()
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

/// Limits that the record shows; those with a size are at least a third of the work that is missing.
fn limits(full: &ScalingPoint, scaling: &Scaling, record: &Record, evaluation: &Evaluation) -> Vec<String> {
    let missing = 1.0 - full.efficiency.median;
    let explains = |share: &f64| *share > missing / 3.0;
    let (around, machine) = (&full.circumstances, &record.machine);
    let mut limits = structure(machine, scaling.cpus);
    // On hybrid machines the CPUs that were measured alone are not those that all together are.
    let clock =
        evaluation.clock.as_ref().filter(|_| machine.core_kinds.len() < 2).and_then(|clock| clock.ratio);
    let surely = clock.filter(|ratio| ratio.interval.is_some_and(|(_, high)| high < 1.0));
    if let Some(slower) = surely.map(|ratio| 1.0 - ratio.median).filter(explains) {
        limits.push(format!("the CPUs' clock is {} slower when all are at work", percent(slower)));
    }
    if around.thermal_events.is_some_and(|events| events > 0) {
        limits.push("the CPUs were slowed down because they were too hot".to_owned());
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

/// Limits that lie in what the machine is.
fn structure(machine: &Machine, cpus: usize) -> Vec<String> {
    let mut limits = Vec::new();
    let cores = usable_cores(machine);
    if cores > 0 && cpus > cores {
        limits.push(format!("{cpus} CPUs are {cores} cores with SMT siblings, which share their units"));
    }
    if machine.core_kinds.len() > 1 {
        let kinds: Vec<String> =
            machine.core_kinds.iter().map(|kind| format!("{} {}", kind.cpus.len(), kind.name)).collect();
        limits.push(format!("the CPUs are of several kinds ({}), and the slower ones do less", list(&kinds)));
    }
    if let Some(quota) = machine.allowed.quota_cpus.filter(|&quota| quota < cpus as f64) {
        limits.push(format!("a quota allows {quota:.2} CPUs' worth of time"));
    }
    let isolated = machine.isolated.intersection(&machine.usable());
    if !isolated.is_empty() {
        limits.push(format!("the scheduler spreads no work over the isolated CPUs {isolated}"));
    }
    limits
}

/// The fewest workers beyond which the most that were tried did not do more; or that the most did more.
fn enough(record: &Record, scaling: &Scaling, evaluation: &Evaluation) -> Option<Finding> {
    let experiment = record.experiment(id::SCALING)?;
    let index = |count| experiment.treatments.iter().position(|treatment| treatment.workers == count);
    let floor = crate::evaluation::noise::floor(&evaluation.noise, scaling.cpus);
    let best = scaling.points.iter().max_by(|a, b| a.speedup.median.total_cmp(&b.speedup.median))?.workers;
    let most = scaling.points.last()?.workers;
    let against = |few: usize, many: usize| {
        Verdict::of(&experiment.log_ratios(index(few)?, index(many)?), Rule::of(experiment), floor)
    };
    // A gain within the margin is no reason for more workers.
    let more = |verdict: &Verdict| verdict.verdict == Answer::BBetter && !verdict.is_within_margin();
    let no_more = |verdict: &Verdict| verdict.verdict == Answer::ABetter || verdict.is_within_margin();
    let count = scaling
        .points
        .iter()
        .map(|point| point.workers)
        .find(|&count| count == best || against(count, best).is_some_and(|verdict| no_more(&verdict)))?;
    if count == most {
        let verdict = against(scaling.cpus, most).filter(more)?;
        let text =
            format!("Use more workers than CPUs for work like this: {most} did more than {}.", scaling.cpus);
        let evidence = vec![ratio(&verdict, &format!("{most} over {}", scaling.cpus))];
        return Some(Finding::new(Kind::Advice, "scaling", text, evidence));
    }
    let verdict = against(count, most).filter(no_more)?;
    let mean = |count: usize| {
        let point = scaling.points.iter().find(|point| point.workers == count)?;
        Some(format!("mean event {:.2} ms with {}", point.latency?.mean_ms, workers(count)))
    };
    let as_many = if count == scaling.cpus { ", as many as CPUs," } else { "" };
    let text = format!("Use {}{as_many} for work that computes: {most} did not do more.", workers(count));
    let mut evidence = vec![ratio(&verdict, &format!("{most} over {count}"))];
    evidence.extend([count, most].into_iter().filter_map(mean));
    Some(Finding::new(Kind::Advice, "scaling", text, evidence))
}

/// A verdict's ratio in words.
pub(super) fn ratio(verdict: &Verdict, what: &str) -> String {
    format!("{what}: {}", verdict.ratio_in_words())
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
        vec![fit.contention_in_words(), fit.coherence_in_words()],
    ))
}
