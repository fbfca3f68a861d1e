//! The answer of a comparison, in one sentence.

use super::{Finding, Kind};
use crate::{
    evaluation::{
        Comparison,
        words::{interval, percent},
    },
    verdict::Answer,
};

pub(super) fn find(comparison: &Comparison) -> Finding {
    let verdict = &comparison.verdict;
    let difference = verdict.ratio - 1.0;
    let metric = comparison.metrics.first().map_or("wall", |first| first.metric.name.as_str());
    let better = match (metric, difference > 0.0) {
        ("wall", true) => "faster".to_owned(),
        ("wall", false) => "slower".to_owned(),
        (name, true) => format!("better in {name}"),
        (name, false) => format!("worse in {name}"),
    };
    // Written in the direction of the difference: "2.0 % slower (95 %: 1.1 to 2.9 %)".
    let sign = if difference > 0.0 { 1.0 } else { -1.0 };
    let ends = verdict.interval.map(|(low, high)| {
        let (low, high) = (sign * (low - 1.0), sign * (high - 1.0));
        (low.min(high), low.max(high))
    });
    let ends = interval(ends, percent);
    let size = percent(difference.abs());
    let (kind, text) = match verdict.verdict {
        Answer::ABetter | Answer::BBetter => (Kind::Answer, format!("B is {size} {better} than A ({ends}).")),
        Answer::NoDifference => {
            let most = comparison.largest_admitted().map_or_else(|| "?".to_owned(), percent);
            (Kind::Answer, format!("No difference larger than {most} seen between A and B."))
        }
        Answer::NotEnough => (Kind::Answer, not_enough(comparison, &size, &better, &ends)),
    };
    let mut evidence = vec![
        format!("A: {}", comparison.a),
        format!("B: {}", comparison.b),
        format!("ratio B over A, higher is better: {}", verdict.ratio_in_words()),
    ];
    evidence.extend(comparison.detectable.map(|smallest| {
        format!("a true difference of {} would be found in four runs of five", percent(smallest))
    }));
    Finding::new(kind, "comparison", text, evidence)
}

fn not_enough(comparison: &Comparison, size: &str, better: &str, ends: &str) -> String {
    let more = comparison.more_pairs.unwrap_or(1);
    let seconds = (more as f64 * comparison.pair_seconds).max(1.0);
    let time = if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) };
    format!(
        "Not enough evidence: B may be {size} {better} than A ({ends}); about {more} more pairs ({time}) would do."
    )
}
