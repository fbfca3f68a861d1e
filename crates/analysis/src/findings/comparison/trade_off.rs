//! A variant that is better by one figure and worse by another one: both in one sentence.

use super::Wording;
use crate::{
    TradeOff, WorseRuns,
    findings::distribution::than_the_others,
    wording::{both, percent},
};
use manycore_stats::{Estimator, verdict::Answer};

/// Shares that have a name.
const NAMED_SHARES: [(f64, &str); 5] =
    [(0.5, "half"), (1.0 / 3.0, "a third"), (0.25, "a quarter"), (0.2, "a fifth"), (0.1, "a tenth")];

/// `A trade-off: B takes 3.0 % less time than A typically (...), but the mean of B is 80 % worse (...): a fifth of the runs
/// of B (20 of 100) take 5.0 times as long as the others.`
pub(super) fn sentence(wording: &Wording, trade_off: &TradeOff, measured: &str) -> String {
    let verdict = &wording.other.verdict;
    let typically = if verdict.estimator == Estimator::Median { " typically" } else { "" };
    let first = match verdict.rule.decide(verdict.interval) {
        _ if trade_off.median_pair.is_some() => {
            format!("{} in the median pair ({measured})", wording.change.than(wording.titles, wording.ratio))
        }
        Answer::Equivalent => format!(
            "{} are equivalent within {}{typically} ({measured})",
            both(wording.titles),
            percent(verdict.rule.margin)
        ),
        _ => format!("{}{typically} ({measured})", wording.change.than(wording.titles, wording.ratio)),
    };
    format!("A trade-off: {first}, but {}.", clause(wording, trade_off))
}

/// `the mean of B is 80 % worse (95 %: 35 to 120 % longer): a fifth of the runs of B ...`.
pub(super) fn clause(wording: &Wording, trade_off: &TradeOff) -> String {
    let [a, b] = wording.titles;
    let probably = if trade_off.is_proven { "" } else { "probably " };
    let how = if trade_off.b_is_worse { "worse" } else { "better" };
    let ratio = trade_off.ratio.median;
    let ends = trade_off.ratio.interval.map(|ends| {
        let confidence = format!("{:.1}", trade_off.confidence * 100.0);
        format!(" ({} %: {})", confidence.trim_end_matches(".0"), wording.change.bounds(ends))
    });
    let whose = if trade_off.b_has_worse_tail() { b } else { a };
    let runs = trade_off.worse_runs.as_ref().and_then(|runs| slow_runs(wording, whose, runs));
    format!(
        "{} of {b} is {probably}{} {how}{}{}",
        figure(trade_off.estimator),
        percent((ratio - 1.0).abs()),
        ends.unwrap_or_default(),
        runs.unwrap_or_default()
    )
}

fn figure(estimator: Estimator) -> String {
    match estimator {
        Estimator::Median => "the typical run".to_owned(),
        Estimator::Mean => "the mean".to_owned(),
        Estimator::Max => "the worst of ten runs".to_owned(),
        quantile => format!("the {quantile}"),
    }
}

fn slow_runs(wording: &Wording, whose: &str, runs: &WorseRuns) -> Option<String> {
    let metric = &wording.other.metrics.first()?.metric;
    let count = runs.runs as f64 / runs.share;
    let which = match runs.runs {
        1 => format!("1 of the {count:.0} runs of {whose}"),
        several => format!("{} of the runs of {whose} ({several} of {count:.0})", share(runs.share)),
    };
    Some(format!(": {which} {}", than_the_others(metric, runs)))
}

/// `a fifth`, `13 %`.
fn share(share: f64) -> String {
    let named = NAMED_SHARES.iter().find(|(named, _)| (share / named - 1.0).abs() < 0.05);
    named.map_or_else(|| percent(share), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_said_as_people_say_them() {
        assert_eq!([0.2, 0.194, 0.5, 0.13].map(share), ["a fifth", "a fifth", "half", "13 %"]);
    }
}
