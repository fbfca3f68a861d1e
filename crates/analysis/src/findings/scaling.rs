//! Findings about how many workers to use, what limits scaling, and which points are above linear.

use super::{Evaluation, Finding, FindingKind, conditions::worker_count, kind_of_estimate};
use crate::{
    MetricAtWorkers, MetricByWorkers, Scaling, ScalingPoint,
    wording::{percent, times},
};
use manycore_experiment::{Record, record::id};
use manycore_stats::verdict::{Answer, DecisionRule, Verdict};
use manycore_text::{names::list, units::counted};
use manycore_topology::{CpuSet, Machine};

/// Efficiency below which the limits of scaling are listed.
pub(crate) const GOOD_EFFICIENCY: f64 = 0.97;

/// Idle share of the CPUs' time from which the CPUs are not what limits the work.
const IDLE: f64 = 0.2;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        evaluation.metric_by_workers.iter().filter_map(metric_by_workers).collect();
    let Some(scaling) = &evaluation.scaling else { return findings };
    findings.extend(scaling.points.iter().filter_map(superlinear));
    findings.extend(throughput(scaling, record, evaluation));
    findings.extend(worker_advice(record, scaling, evaluation));
    findings.extend(scalability_law(scaling));
    findings
}

fn finding(kind: FindingKind, text: String, evidence: Vec<String>) -> Finding {
    Finding::new(kind, "scaling", text, evidence)
}

/// Compares a metric that does not count work between the most workers and one.
fn metric_by_workers(metric: &MetricByWorkers) -> Option<Finding> {
    let most = metric.points.last()?;
    let over = most.relative_to_one.as_ref()?;
    let evidence = metric.points.iter().map(|MetricAtWorkers { workers, value, relative_to_one }| {
        let unit = &metric.metric.unit;
        let over = relative_to_one.as_ref().map(|over| format!(", {} that with one", times(over)));
        format!("{workers}: {} {unit}{}", value.median, over.unwrap_or_default())
    });
    let text = format!(
        "{} with {} {} is {} that with one.",
        metric.metric.name,
        most.workers,
        metric.worker_noun,
        times(over)
    );
    Some(finding(kind_of_estimate(over), text, evidence.collect()))
}

/// Warns about a speed-up that is certainly above linear. One that may be due to chance is not reported.
fn superlinear(point: &ScalingPoint) -> Option<Finding> {
    let superlinear = point.superlinear.as_ref().filter(|superlinear| !superlinear.within_noise)?;
    let text = format!(
        "The speed-up with {} is {} above linear: {}.",
        worker_count(point.workers),
        percent(point.efficiency.median - 1.0),
        superlinear.cause()
    );
    let evidence = vec![format!("speed-up {}, linear would be {:.2}", times(&point.speedup), point.linear)];
    Some(finding(FindingKind::Warning, text, evidence))
}

/// Returns the most telling point. For CPU-bound workers it is the point with as many workers as CPUs, or
/// the nearest below; for others it is the point with the most workers. Where a placement has too few CPUs for any
/// other number of workers, it is the smallest of these.
pub(crate) fn most_telling_point(scaling: &Scaling) -> Option<&ScalingPoint> {
    let has_cpus = |point: &&ScalingPoint| !scaling.is_cpu_bound() || point.workers <= scaling.cpus;
    let several = |point: &&ScalingPoint| point.workers > 1;
    let crowded = || scaling.placed_on.as_ref().and_then(|_| scaling.points.iter().find(several));
    scaling.points.iter().rfind(has_cpus).filter(several).or_else(crowded)
}

/// Returns what limits workers that are more than the CPUs of their placement.
fn placement_limit(full: &ScalingPoint, scaling: &Scaling) -> Option<String> {
    let cpus = scaling.placed_on.as_ref().map(CpuSet::len).filter(|cpus| full.workers > *cpus)?;
    Some(format!("the placement: {} for {}", counted(cpus, "CPU"), worker_count(full.workers)))
}

/// Returns ` on CPUs 0-3` for workers with such a placement.
pub(crate) fn on_placement(scaling: &Scaling) -> String {
    let on = |cpus: &CpuSet| format!(" on {} {}", if cpus.len() == 1 { "CPU" } else { "CPUs" }, cpus.brief());
    scaling.placed_on.as_ref().map(on).unwrap_or_default()
}

/// Reports the throughput of many workers in total, and what limits it.
fn throughput(scaling: &Scaling, record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let Some(full) = most_telling_point(scaling) else { return Vec::new() };
    let share = percent(full.efficiency.median);
    let of = match scaling.demand {
        Some(_) if scaling.is_cpu_bound() => format!("{share} efficiency for each CPU in use"),
        Some(demand) => format!(
            "{share} of what is possible. One uses a CPU for {} of its time and waits otherwise, so that more workers \
             than CPUs can do more",
            percent(demand)
        ),
        None => format!("{share} of linear"),
    };
    // It is the question of `scale`, and one of many of `eval`.
    let kind = match kind_of_estimate(&full.speedup) {
        FindingKind::Fact if record.subcommand == "scale" => FindingKind::Answer,
        kind => kind,
    };
    let (workers, on) = (worker_count(full.workers), on_placement(scaling));
    let mut findings = vec![finding(
        kind,
        format!("{workers} do {:.2} times the work of one{on}: {of}.", full.speedup.median),
        vec![format!("speed-up {}", times(&full.speedup))],
    )];
    let by_placement = placement_limit(full, scaling);
    let is_limited = full.efficiency.interval.is_some_and(|(_, high)| high < GOOD_EFFICIENCY);
    if is_limited || by_placement.is_some() {
        let others = if is_limited { limits(full, scaling, record, evaluation) } else { Vec::new() };
        let causes: Vec<String> = by_placement.into_iter().chain(others).collect();
        let text = match &causes[..] {
            [] => "The record does not show what limits scaling here.".to_owned(),
            causes => format!("What limits scaling here: {}.", list(causes)),
        };
        let evidence = format!("efficiency {share} with {}", worker_count(full.workers));
        findings.push(finding(FindingKind::Fact, text, vec![evidence]));
    }
    findings
}

/// Returns the limits that the record shows. A limit with a size is listed where it explains at least a
/// third of the missing work.
fn limits(full: &ScalingPoint, scaling: &Scaling, record: &Record, evaluation: &Evaluation) -> Vec<String> {
    let missing = 1.0 - full.efficiency.median;
    let explains = |share: &f64| *share > missing / 3.0;
    let (counters, machine, usable) = (&full.counters, &record.machine, scaling.usable(&record.machine));
    if let Some(idle) = idle(full, &usable).filter(|idle| !scaling.is_cpu_bound() && *idle > IDLE) {
        let idle = format!(
            "the CPUs were idle for {} of the time, so the workers waited for something other than a CPU",
            percent(idle)
        );
        return vec![idle];
    }
    let mut limits = machine_limits(machine, &usable, full.workers.min(scaling.cpus));
    // On hybrid machines, the CPUs that were measured alone differ from the average of all CPUs.
    let clock =
        evaluation.clock.as_ref().filter(|_| machine.core_kinds.len() < 2).and_then(|clock| clock.ratio);
    let surely = clock.filter(|ratio| ratio.interval.is_some_and(|(_, high)| high < 1.0));
    if let Some(slower) = surely.map(|ratio| 1.0 - ratio.median).filter(explains) {
        limits.push(format!("the CPU clock is {} slower when all CPUs are busy", percent(slower)));
    }
    if counters.thermal_events.is_some_and(|events| events > 0) {
        limits.push("the CPUs were slowed down because they were too hot".to_owned());
    }
    for (name, share) in [
        ("the hypervisor takes {} of the time (steal)", counters.steal),
        ("workers wait {} of the time for a CPU (run delay)", counters.run_delay),
        ("other work uses {} of the time", counters.other_work),
        ("a quota throttles the workers for {} of the time", counters.throttled),
    ] {
        if let Some(share) = share.filter(explains) {
            limits.push(name.replace("{}", &percent(share)));
        }
    }
    limits
}

/// Returns the share of the usable CPUs' time in which they were idle.
fn idle(point: &ScalingPoint, usable: &CpuSet) -> Option<f64> {
    let busy: Vec<f64> =
        point.cpu_share.iter().filter(|(cpu, _)| usable.contains(*cpu)).map(|&(_, share)| share).collect();
    manycore_stats::mean(&busy).map(|busy| 1.0 - busy)
}

/// Returns the limits that follow from the machine itself, for workers that use `cpus` of the usable CPUs.
fn machine_limits(machine: &Machine, usable: &CpuSet, cpus: usize) -> Vec<String> {
    let mut limits = Vec::new();
    let cores = machine.cores.iter().filter(|core| core.cpus.intersects(usable)).count();
    if cores > 0 && cpus > cores {
        limits.push(format!("{cpus} CPUs are {cores} cores with SMT siblings, which share their units"));
    }
    if machine.core_kinds.len() > 1 {
        let kinds: Vec<String> =
            machine.core_kinds.iter().map(|kind| format!("{} {}", kind.cpus.len(), kind.name)).collect();
        limits.push(format!("the CPUs are of several kinds ({}), and the slower ones do less", list(&kinds)));
    }
    if let Some(quota) = machine.allowed.quota_cpus.filter(|&quota| quota < cpus as f64) {
        limits.push(format!("a quota limits CPU time to {quota:.2} CPUs"));
    }
    let isolated = machine.isolated.intersection(usable);
    if !isolated.is_empty() {
        limits.push(format!("the scheduler does not balance work onto the isolated CPUs {isolated}"));
    }
    limits
}

/// Returns the smallest number of workers beyond which the largest number did not do more, or reports that
/// the largest number did more.
fn worker_advice(record: &Record, scaling: &Scaling, evaluation: &Evaluation) -> Option<Finding> {
    let experiment = record.experiment(id::SCALING)?;
    let index = |count| experiment.treatments.iter().position(|treatment| treatment.workers == count);
    let floor = crate::noise::floor(&evaluation.noise, scaling.cpus);
    let best = scaling.points.iter().max_by(|a, b| a.speedup.median.total_cmp(&b.speedup.median))?.workers;
    let most = scaling.points.last()?.workers;
    let against = |few: usize, many: usize| {
        Verdict::new(
            &experiment.log_ratios(index(few)?, index(many)?),
            DecisionRule::from_parameters(&experiment.parameters),
            floor,
        )
    };
    // A gain that may lie within the margin does not justify more workers.
    let more = |verdict: &Verdict| verdict.is_better_beyond_margin();
    let no_more = |verdict: &Verdict| verdict.answer == Answer::ABetter || verdict.is_within_margin();
    let counts = || scaling.points.iter().map(|point| point.workers);
    let count = counts()
        .find(|&count| count == best || against(count, best).is_some_and(|verdict| no_more(&verdict)))?;
    if count == most {
        // The number of CPUs itself may not be among the numbers that were measured.
        let base = counts().rfind(|&count| count <= scaling.cpus && count < most)?;
        let verdict = against(base, most).filter(more).filter(|_| most > scaling.cpus)?;
        let text = if base == scaling.cpus {
            format!("Use more workers than CPUs for work like this: {most} did more than {base}.")
        } else {
            format!("Use more than {} for work like this: {most} did more.", worker_count(base))
        };
        return Some(finding(
            FindingKind::Advice,
            text,
            vec![ratio(&verdict, &format!("{most} over {base}"))],
        ));
    }
    let verdict = against(count, most).filter(no_more)?;
    let mean = |count: usize| {
        let point = scaling.points.iter().find(|point| point.workers == count)?;
        Some(format!("mean event {:.2} ms with {}", point.event_times?.mean_ms, worker_count(count)))
    };
    let as_many = if count == scaling.cpus && scaling.is_cpu_bound() { ", as many as CPUs," } else { "" };
    let like = if scaling.is_cpu_bound() { "CPU-bound work" } else { "work like this" };
    let text = format!("Use {}{as_many} for {like}: {most} did not do more.", worker_count(count));
    let mut evidence = vec![ratio(&verdict, &format!("{most} over {count}"))];
    evidence.extend([count, most].into_iter().filter_map(mean));
    Some(finding(FindingKind::Advice, text, evidence))
}

/// Formats the ratio of a verdict.
pub(super) fn ratio(verdict: &Verdict, what: &str) -> String {
    format!("{what}: {}", verdict.ratio_in_words())
}

fn scalability_law(scaling: &Scaling) -> Option<Finding> {
    let fit = scaling.usl.as_ref()?;
    let peak = match fit.law.peak().filter(|peak| *peak < 4.0 * scaling.cpus as f64) {
        Some(peak) => format!("throughput peaks at {peak:.0} workers"),
        None => "no peak of throughput is in sight".to_owned(),
    };
    Some(Finding::new(
        FindingKind::Fact,
        "scaling",
        format!(
            "By the Universal Scalability Law, {} of the work is serialised (contention), and {peak}.",
            percent(fit.law.contention)
        ),
        vec![fit.contention_in_words(), fit.coherence_in_words()],
    ))
}
