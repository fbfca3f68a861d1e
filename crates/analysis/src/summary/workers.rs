//! Lines about workers: scaling, CPU time, threads and processes, pinning.

use super::{Line, SummaryMark, found, next, ratio, workers};
use crate::{
    Evaluation, FindingKind, MetricByWorkers, ParallelMode, ParallelModes, ScalingPoint,
    findings::{GOOD_EFFICIENCY, most_telling_point, on_placement, program_name},
    wording::{percent, times},
};
use manycore_experiment::{Record, record::id};
use manycore_stats::verdict::{Answer, Verdict};

/// Share of CPU time above which it is worth a look what took it.
const TAKEN: f64 = 0.05;

pub(super) fn scaling(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let Some(scaling) = &evaluation.scaling else {
        return evaluation.metric_by_workers.as_ref().and_then(metric_by_workers);
    };
    if let Some(warning) = found(evaluation, FindingKind::Warning, "scaling") {
        return Some(
            Line::new(SummaryMark::Attention, warning).then(next::evaluate_again(record, id::SCALING)),
        );
    }
    let full = most_telling_point(scaling)?;
    let done = format!(
        "{} do {} the work of one{}",
        workers(full.workers),
        times(&full.speedup),
        on_placement(scaling)
    );
    let share = percent(full.efficiency.median);
    let own = |options| next::for_command(options, record);
    Some(match full.efficiency.interval {
        Some((low, _)) if low >= GOOD_EFFICIENCY => {
            Line::new(SummaryMark::Good, format!("{done}: {share} of what is possible."))
        }
        Some((_, high)) if high < GOOD_EFFICIENCY => {
            let options = if record.subcommand == "eval" { "scale" } else { "tune" };
            Line::new(SummaryMark::Attention, format!("{done}: {share} of what is possible."))
                .then(own(options))
        }
        _ => {
            let limit = percent(GOOD_EFFICIENCY);
            let text = format!(
                "{done}: whether this is more or less than {limit} of what is possible is inconclusive; a larger budget \
                 would decide it."
            );
            Line::new(SummaryMark::Neutral, text).then(next::evaluate_again(record, id::SCALING))
        }
    })
}

fn metric_by_workers(metric: &MetricByWorkers) -> Option<Line> {
    let most = metric.points.last()?;
    let over = most.relative_to_one.as_ref()?;
    let name = &metric.metric.name;
    let text =
        format!("{name} with {} {} is {} that with one.", most.workers, metric.worker_noun, times(over));
    Some(Line::new(SummaryMark::Neutral, text))
}

/// The counters are sums over all samples of a treatment: they have no interval.
pub(super) fn counters(evaluation: &Evaluation) -> Option<Line> {
    let full: &ScalingPoint = most_telling_point(evaluation.scaling.as_ref()?)?;
    let counters = &full.counters;
    let shares = [
        ("waiting for a CPU", counters.run_delay),
        ("steal", counters.steal),
        ("other work", counters.other_work),
        ("throttled", counters.throttled),
    ];
    let known: Vec<(&str, f64)> =
        shares.into_iter().filter_map(|(name, share)| Some((name, share?))).collect();
    let listed: Vec<String> =
        known.iter().map(|(name, share)| format!("{name} {}", percent(*share))).collect();
    let text = format!("With {}: {}.", workers(full.workers), listed.join(", "));
    Some(match known.iter().any(|(_, share)| *share > TAKEN) {
        _ if known.is_empty() => Line::new(
            SummaryMark::Neutral,
            "Unknown: the kernel of this machine does not report these counters.",
        ),
        true => Line::new(SummaryMark::Attention, text).then("manycore audit".to_owned()),
        false => Line::new(SummaryMark::Good, text),
    })
}

pub(super) fn modes(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let lines: Vec<(SummaryMark, String)> = evaluation.modes.iter().filter_map(mode).collect();
    let mark = lines.iter().map(|(mark, _)| *mark).max()?;
    let sentences: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    let yes = if mark == SummaryMark::Good { "Yes: " } else { "" };
    let open = evaluation.modes.iter().any(|modes| fastest(modes).is_some_and(|mode| !is_decided(mode)));
    let again = next::evaluate_again(record, "modes").filter(|_| open);
    let hint = if open { " More rounds would decide what is open." } else { "" };
    Some(Line::new(mark, format!("{yes}{}.{hint}", sentences.join("; "))).then(again))
}

fn fastest(modes: &ParallelModes) -> Option<&ParallelMode> {
    let parallel = modes.modes.iter().filter(|mode| mode.name != "serial");
    parallel.max_by(|a, b| a.speedup.median.total_cmp(&b.speedup.median))
}

/// Whether the interval is on one side of 1.
fn is_decided(mode: &ParallelMode) -> bool {
    mode.speedup.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
}

fn mode(modes: &ParallelModes) -> Option<(SummaryMark, String)> {
    let best = fastest(modes)?;
    let of = format!("{} with {}", times(&best.speedup), best.name);
    let (mark, text) = match best.speedup.interval {
        Some((low, _)) if low > 1.0 => (SummaryMark::Good, of),
        Some((_, high)) if high < 1.0 => (SummaryMark::Attention, format!("no, {of}")),
        _ => (SummaryMark::Neutral, format!("inconclusive, {of}")),
    };
    Some((mark, format!("{}: {text}", program_name(modes))))
}

pub(super) fn affinity(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let affinity = evaluation.affinity.as_ref()?;
    if affinity.off_cpu_checks > 0 {
        let text = format!(
            "Unknown: in {} of {} checks a pinned process was on another CPU, so something changes affinities.",
            affinity.off_cpu_checks, affinity.cpu_checks
        );
        return Some(Line::new(SummaryMark::Attention, text).then("manycore audit".to_owned()));
    }
    let verdict = affinity.verdict.as_ref()?;
    let done = format!("pinned processes do {} the work of unpinned ones", ratio(verdict));
    let small = if verdict.is_within_margin() { ", too little to matter" } else { "" };
    let own = next::for_command("tune", record);
    Some(match verdict.answer {
        Answer::BBetter if is_beyond(verdict) => {
            Line::new(SummaryMark::Attention, format!("Yes: {done}.")).then(own)
        }
        Answer::BBetter => Line::new(SummaryMark::Neutral, format!("A little: {done}{small}.")),
        Answer::ABetter if is_beyond(verdict) => {
            Line::new(SummaryMark::Good, format!("No, it harms: {done}."))
        }
        Answer::ABetter => Line::new(SummaryMark::Good, format!("No: {done}{small}.")),
        Answer::Equivalent => {
            let margin = percent(verdict.rule.margin);
            Line::new(SummaryMark::Good, format!("No: {done}, equivalent within {margin}."))
        }
        Answer::Inconclusive | Answer::TradeOff => {
            let text = format!("Inconclusive: {done}; more rounds would decide it.");
            Line::new(SummaryMark::Neutral, text).then(next::evaluate_again(record, id::AFFINITY))
        }
    })
}

fn is_beyond(verdict: &Verdict) -> bool {
    verdict.is_better_beyond_margin() || verdict.is_worse_beyond_margin()
}
