//! What the runs of each variant look like: modes, outliers, drift, a slow start.

use super::{Finding, FindingKind};
use crate::{
    Distribution, WorseRuns,
    wording::{is_time, percent},
};
use manycore_experiment::record::Metric;
use manycore_text::{names::list, units::counted};

/// Number of variants whose groups of runs have a sentence each.
const MAX_SENTENCES: usize = 2;

pub(crate) fn find(distributions: &[Distribution]) -> Vec<Finding> {
    let finding = |kind, text| Finding::new(kind, "comparison", text, Vec::new());
    let mut found = groups(distributions);
    found.extend(drift(distributions).map(|text| finding(FindingKind::Fact, text)));
    found.extend(distributions.iter().filter_map(start).map(|text| finding(FindingKind::Advice, text)));
    found
}

/// Two modes, or outliers: a sentence for each variant, or one for all where there are many.
fn groups(distributions: &[Distribution]) -> Vec<Finding> {
    let of = |has_modes: bool| {
        let found: Vec<(&Distribution, WorseRuns)> = distributions
            .iter()
            .filter(|one| one.shape.has_modes == has_modes)
            .filter_map(|one| Some((one, one.shape.worse_runs?)))
            .collect();
        let finding = |text, evidence| Finding::new(FindingKind::Fact, "comparison", text, evidence);
        if found.len() <= MAX_SENTENCES {
            return found.iter().map(|(one, worse)| finding(sentence(one, worse), Vec::new())).collect();
        }
        let names = list(&found.iter().map(|(one, _)| one.label.clone()).collect::<Vec<_>>());
        let text = if has_modes {
            format!("The runs of {names} are of two kinds.")
        } else {
            format!("Some runs of {names} stand apart.")
        };
        let each = |(one, worse): &(&Distribution, WorseRuns)| {
            let (size, label) = (size(one, worse), &one.label);
            format!("{label}: {} of {} {size}", worse.runs, one.n)
        };
        vec![finding(text, found.iter().map(each).collect())]
    };
    [of(true), of(false)].concat()
}

fn sentence(one: &Distribution, worse: &WorseRuns) -> String {
    let (label, runs, n, size) = (&one.label, worse.runs, one.n, size(one, worse));
    if one.shape.has_modes {
        let share = percent(worse.share);
        return format!("The runs of {label} are of two kinds: {runs} of {n} ({share}) {size}.");
    }
    let (stand, they) = if runs == 1 { ("stands", "it") } else { ("stand", "they") };
    format!("{runs} of the {n} runs of {label} {stand} apart: {they} {size}.")
}

fn size(one: &Distribution, worse: &WorseRuns) -> String {
    than_the_others(&one.metric, worse)
}

/// Returns how much worse a group of runs is: `take 5.0 times as long as the others`.
pub(crate) fn than_the_others(metric: &Metric, worse: &WorseRuns) -> String {
    let (many, one) = match (is_time(metric), worse.ratio < 1.0) {
        (true, _) => ("take", "takes"),
        (false, true) => ("do", "does"),
        (false, false) => ("have", "has"),
    };
    let verb = if worse.runs == 1 { one } else { many };
    let times = if worse.ratio >= 1.95 || worse.ratio < 0.1 {
        format!("{:.1} times", worse.ratio)
    } else {
        format!("{:.2} times", worse.ratio)
    };
    if is_time(metric) {
        format!("{verb} {times} as long as the others")
    } else {
        format!("{verb} {times} the {} of the others", metric.name)
    }
}

/// Drift of all variants is that of the machine; pairs cancel it.
fn drift(distributions: &[Distribution]) -> Option<String> {
    let drifting: Vec<(&str, f64)> =
        distributions.iter().filter_map(|one| Some((one.label.as_str(), one.shape.drift?))).collect();
    let change = |ratio: f64| {
        format!("{} {}", percent((ratio - 1.0).abs()), if ratio > 1.0 { "higher" } else { "lower" })
    };
    let each: Vec<String> =
        drifting.iter().map(|(label, ratio)| format!("{label} {}", change(*ratio))).collect();
    let name = &distributions.first()?.metric.name;
    (!drifting.is_empty()).then(|| {
        format!(
            "The runs drift: {name} in the last third of the runs, relative to the first third: {}. Each round has one \
             run of every variant, so the comparison allows for it.",
            each.join(", ")
        )
    })
}

fn start(one: &Distribution) -> Option<String> {
    let slow = one.shape.slow_start?;
    let which =
        if slow == 1 { "first run of".to_owned() } else { format!("first {} of", counted(slow, "run")) };
    Some(format!(
        "The {which} {} {} the worst of all: warm up with more runs (--warmup {}).",
        one.label,
        if slow == 1 { "is" } else { "are" },
        slow + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Statistic};
    use manycore_experiment::record::Direction;

    fn of(label: &str, name: &str, better: Direction, shape: Shape) -> Distribution {
        let figure = Statistic { value: 1.0, interval: None };
        Distribution {
            label: label.to_owned(),
            treatment: 0,
            metric: Metric { name: name.to_owned(), unit: String::new(), better },
            n: 40,
            mean: figure,
            median: figure,
            standard_deviation: 0.0,
            min: 1.0,
            max: 1.0,
            tail: Vec::new(),
            shape,
        }
    }

    fn texts(all: &[Distribution]) -> Vec<String> {
        find(all).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn each_flag_is_a_sentence() {
        let group = |runs: usize, ratio| Some(WorseRuns { runs, share: runs as f64 / 40.0, ratio });
        let modes = Shape { has_modes: true, worse_runs: group(8, 5.0), ..Shape::default() };
        let one =
            Shape { worse_outliers: 1, worse_runs: group(1, 1.5), slow_start: Some(1), ..Shape::default() };
        assert_eq!(
            texts(&[of("A", "wall", Direction::Lower, modes), of("B", "wall", Direction::Lower, one)]),
            [
                "The runs of A are of two kinds: 8 of 40 (20 %) take 5.0 times as long as the others.",
                "1 of the 40 runs of B stands apart: it takes 1.50 times as long as the others.",
                "The first run of B is the worst of all: warm up with more runs (--warmup 2).",
            ]
        );
        let rate = Shape { worse_outliers: 2, worse_runs: group(2, 0.5), ..Shape::default() };
        assert_eq!(
            texts(&[of("A", "requests", Direction::Higher, rate)]),
            ["2 of the 40 runs of A stand apart: they do 0.50 times the requests of the others."]
        );
    }

    /// Regression test: a run that took 1.05 times as long was "far worse than the others".
    #[test]
    fn runs_that_stand_apart_are_described_by_their_number_and_factor() {
        let slow = WorseRuns { runs: 1, share: 0.025, ratio: 1.05 };
        let shape = Shape { worse_outliers: 1, worse_runs: Some(slow), ..Shape::default() };
        assert_eq!(
            texts(&[of("A", "wall", Direction::Lower, shape)]),
            ["1 of the 40 runs of A stands apart: it takes 1.05 times as long as the others."]
        );
    }

    #[test]
    fn many_variants_with_groups_of_runs_are_one_finding() {
        let slow = WorseRuns { runs: 8, share: 0.2, ratio: 2.0 };
        let shape = Shape { has_modes: true, worse_runs: Some(slow), ..Shape::default() };
        let all = ["A", "B", "C"].map(|label| of(label, "wall", Direction::Lower, shape));
        let [found] = &find(&all)[..] else { panic!() };
        assert_eq!(found.text, "The runs of A, B and C are of two kinds.");
        assert_eq!(found.evidence[2], "C: 8 of 40 take 2.0 times as long as the others");
    }

    #[test]
    fn drift_is_said_once() {
        let drifting = |ratio| Shape { drift: Some(ratio), ..Shape::default() };
        let both = [1.1, 1.2].map(|ratio| of("A", "wall", Direction::Lower, drifting(ratio)));
        let found = texts(&both);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("first third: A 10 % higher, A 20 % higher."), "{found:?}");
        assert!(texts(&[of("A", "wall", Direction::Lower, Shape::default())]).is_empty());
        assert!(texts(&[]).is_empty());
    }
}
