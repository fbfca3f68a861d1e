//! What the scheduler does, in words.

use super::{AutoDecision, AutoOutcome, ServiceEvent, ServiceReport};
use crate::counters::Counters;
use manycore_stats::verdict::Answer;
use manycore_text::units::{counted, percent};

/// Describes an event in one line; `None` for one that is shown with every interval only.
pub fn event(event: &ServiceEvent) -> Option<String> {
    Some(match event {
        ServiceEvent::Interval(_) => return None,
        ServiceEvent::Loaded { clusters, tasks: None } => {
            format!("the scheduler is in force for all tasks, on {}", counted(*clusters, "cluster"))
        }
        ServiceEvent::Loaded { clusters, tasks: Some(tasks) } => {
            format!(
                "the scheduler is in force for {}, on {}",
                counted(*tasks, "task"),
                counted(*clusters, "cluster")
            )
        }
        ServiceEvent::Reloaded(reason) => format!("the scheduler was loaded again ({reason})"),
        ServiceEvent::GroupGone(path) => {
            format!("the control group {path} has gone; its policy holds again if it is created again")
        }
        ServiceEvent::Auto(decision) => auto(decision),
        ServiceEvent::Refused { pid, why } => {
            format!("process {pid} stays with the kernel's scheduler: {why}")
        }
    })
}

/// Describes a decision in one line.
fn auto(AutoDecision { subject, outcome }: &AutoDecision) -> String {
    match outcome {
        AutoOutcome::Begun => format!("{subject}: spread and pack are compared, in slices of 2 s"),
        AutoOutcome::NoReading(why) => format!("{subject}: {why}; it is run again after 10 s"),
        AutoOutcome::NoProgress(pairs) => format!("{subject}: no progress in {pairs} pairs of slices"),
        AutoOutcome::OtherLoad(before, now) => {
            format!(
                "{subject}: the progress has changed from {before:.4} to {now:.4} per second: compared again"
            )
        }
        AutoOutcome::Decided(verdict, policy) => {
            let found = match verdict.answer {
                Answer::ABetter => "spread is shown to be better",
                Answer::BBetter => "pack is shown to be better",
                Answer::Equivalent => "they are equivalent",
                Answer::Inconclusive | Answer::TradeOff => "inconclusive",
            };
            let interval =
                verdict.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
            let (word, ratio, pairs) = (policy.word(), verdict.ratio, verdict.pairs);
            format!(
                "{subject}: {word}, because {found}: progress of pack to that of spread {ratio:.3}{interval}, {pairs} pairs"
            )
        }
    }
}

/// Describes an interval in one line: `12 s: 34 % busy, 4 of 16 CPUs idle, 120 wake-ups, half within 12 us, 99 % within 80 us`.
pub fn interval(report: &ServiceReport) -> String {
    let cpus: usize = report.clusters.iter().map(|(cpus, _)| cpus).sum();
    let Some(total) = Counters::total(report.clusters.iter().map(|(_, counters)| counters)) else {
        return String::new();
    };
    format!("{:.0} s: {}", report.at.as_secs_f64(), figures(&total, cpus, report))
}

/// Describes each cluster in one line.
pub fn clusters(report: &ServiceReport) -> Vec<String> {
    let each = report.clusters.iter().enumerate();
    each.map(|(index, (cpus, counters))| format!("  cluster {index}: {}", figures(counters, *cpus, report)))
        .collect()
}

fn figures(counters: &Counters, cpus: usize, report: &ServiceReport) -> String {
    let length = report.length.as_nanos() as f64 * cpus as f64;
    let mut words = vec![
        format!("{} busy", percent(counters.busy_ns as f64 / length.max(1.0))),
        format!("{} of {} idle", counters.idle_cpus, counted(cpus, "CPU")),
        format!("{} to idle CPUs", counters.direct),
        format!("{} queued", counters.queued),
    ];
    for (count, word) in [(counters.stolen, "taken from other clusters"), (counters.moved, "moved in")] {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    if let (Some(half), Some(most)) = (counters.wait_quantile_ns(0.5), counters.wait_quantile_ns(0.99)) {
        let [half, most] = [half, most].map(time);
        words.push(format!(
            "{}, half within {half}, 99 % within {most}",
            counted(counters.wakeups as usize, "wake-up")
        ));
    }
    words.join(", ")
}

/// Formats a time: `12 us`, `1.3 ms`, `2.5 s`.
fn time(ns: u64) -> String {
    let (scaled, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if scaled < 9.95 { format!("{scaled:.1} {unit}") } else { format!("{scaled:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{counters::WAITS, run::FixedPolicy};
    use manycore_stats::verdict::{DecisionRule, Verdict};
    use std::time::Duration;

    fn report() -> ServiceReport {
        let mut waits = [0; WAITS];
        (waits[0], waits[21]) = (98, 2);
        let counters = Counters {
            idle_cpus: 3,
            busy_ns: 1_000_000_000,
            direct: 90,
            queued: 10,
            stolen: 2,
            moved: 0,
            wakeups: 100,
            wait_ns: 0,
            waits,
            choices: 100,
            choice_ns: 20_000,
        };
        let second = Duration::from_secs(1);
        ServiceReport {
            at: 12 * second,
            length: second,
            clusters: vec![(4, counters.clone()), (4, counters)],
        }
    }

    #[test]
    fn an_interval_has_the_figures_of_all_clusters() {
        assert_eq!(
            interval(&report()),
            "12 s: 25 % busy, 6 of 8 CPUs idle, 180 to idle CPUs, 20 queued, 4 taken from other clusters, 200 wake-ups, \
             half within 1.3 us, 99 % within 49 us"
        );
        assert_eq!(
            clusters(&report())[1],
            "  cluster 1: 25 % busy, 3 of 4 CPUs idle, 90 to idle CPUs, 10 queued, 2 taken from other clusters, 100 \
             wake-ups, half within 1.3 us, 99 % within 49 us"
        );
    }

    #[test]
    fn decisions_have_their_figures() {
        let ratios: Vec<f64> = (0..12).map(|index| 0.2 + f64::from(index) / 100.0).collect();
        let verdict = Verdict::new(&ratios, DecisionRule::at_analysis(1, 3), None).unwrap();
        let outcome = AutoOutcome::Decided(Box::new(verdict), FixedPolicy::Pack);
        let decision = AutoDecision { subject: "all tasks".to_owned(), outcome };
        let words = event(&ServiceEvent::Auto(decision)).unwrap();
        let start =
            "all tasks: pack, because pack is shown to be better: progress of pack to that of spread 1.29";
        assert!(words.starts_with(start) && words.ends_with("12 pairs"), "{words}");
    }

    #[test]
    fn times_have_two_digits() {
        assert_eq!([900, 12_000, 1_280_000, 2_500_000_000].map(time), ["0.9 us", "12 us", "1.3 ms", "2.5 s"]);
    }
}
