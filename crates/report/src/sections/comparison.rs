//! Variants A and B, metric by metric.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{Comparison, MetricComparison};
use manycore_render::{
    figure::{ABSENT, interval, number, percent, unit_of_time, with_interval},
    table::Align,
};
use manycore_stats::verdict::Answer;
use manycore_text::units::{counted, decimals};

/// How a difference is called that is shown and too small to matter.
const SLIGHTLY: &str = "slightly";

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    named.evaluation.comparison.iter().map(of_comparison).collect()
}

fn of_comparison(comparison: &Comparison) -> Table {
    let mut table = Table::numeric(
        "Metrics",
        ("metric", Align::Left),
        &["A", "95 % interval", "B", "95 % interval", "B over A", "95 % interval", "B is"],
    );
    table.verdict_column = Some(table.head.len() - 1);
    table.rows =
        comparison.metrics.iter().map(|compared| row(compared, verdict(compared, comparison))).collect();
    table.notes.push(pairs(comparison));
    if comparison.metrics.iter().any(|compared| verdict(compared, comparison).starts_with(SLIGHTLY)) {
        table.notes.push(format!(
            "{SLIGHTLY}: the difference is real and within the margin of {}.",
            percent(comparison.verdict.rule.margin)
        ));
    }
    table.notes.extend(differing_medians(&comparison.metrics));
    table
}

/// Says how B is. A difference of B from itself is neither better nor worse.
fn verdict(compared: &MetricComparison, comparison: &Comparison) -> &'static str {
    let is_small = compared.is_within(comparison.verdict.rule.margin);
    word(compared.answer, comparison.same_variants, is_small)
}

fn word(answer: Answer, is_same: bool, is_small: bool) -> &'static str {
    match answer {
        Answer::ABetter | Answer::BBetter if is_same => "chance",
        Answer::BBetter if is_small => "slightly better",
        Answer::ABetter if is_small => "slightly worse",
        Answer::BBetter => "better",
        Answer::ABetter => "worse",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive => "inconclusive",
    }
}

fn pairs(comparison: &Comparison) -> String {
    let pairs = format!("{} of runs in random order.", counted(comparison.verdict.pairs, "pair"));
    match comparison.metrics.as_slice() {
        [first, _, ..] => format!(
            "{pairs} The answer is about {}; the other metrics are for information.",
            first.metric.name
        ),
        _ => pairs,
    }
}

/// Explains why the ratio of a row is not that of its medians, where a reader would see it.
fn differing_medians(metrics: &[MetricComparison]) -> Option<String> {
    let differing: Vec<String> = metrics
        .iter()
        .filter_map(|compared| {
            Some(format!("{} {}", compared.metric.name, decimals(compared.differing_medians()?)))
        })
        .collect();
    (!differing.is_empty()).then(|| {
        format!(
            "B over A is the ratio within pairs of neighbouring runs. That of the two medians differs ({}), because the \
             speed of the machine changed during the run.",
            differing.join(", ")
        )
    })
}

fn row(compared: &MetricComparison, is: &str) -> Vec<String> {
    let metric = &compared.metric;
    let smallest = [compared.a.median, compared.b.median].into_iter().filter(|median| *median > 0.0);
    let (unit, scale) = match metric.unit.as_str() {
        "s" => unit_of_time(smallest.fold(f64::INFINITY, f64::min)),
        unit => (unit, 1.0),
    };
    let [a, b] = [compared.a, compared.b].map(|estimate| estimate.map(|value| value * scale));
    vec![
        if unit.is_empty() { metric.name.clone() } else { format!("{} in {unit}", metric.name) },
        number(a.median),
        interval(&a, number),
        number(b.median),
        interval(&b, number),
        compared.ratio.map_or_else(|| ABSENT.to_owned(), |estimate| decimals(estimate.median)),
        compared.ratio.map_or_else(|| ABSENT.to_owned(), |estimate| interval(&estimate, decimals)),
        is.to_owned(),
    ]
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let name = |(_, name): &(usize, String)| name.clone();
    let table = compare("B over A (95 % interval)", ("metric", Align::Left), all, name, |named| {
        let compared =
            named.evaluation.comparison.iter().flat_map(|comparison| {
                comparison.metrics.iter().map(move |one| (one, verdict(one, comparison)))
            });
        let cell = |(index, (one, is)): (usize, (&MetricComparison, &str))| {
            let ratio = one
                .ratio
                .map_or_else(|| ABSENT.to_owned(), |ratio| with_interval(&ratio, decimals, decimals));
            ((index, one.metric.name.clone()), format!("{ratio}, {is}"))
        };
        compared.enumerate().map(cell).collect()
    });
    vec![table]
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::record::{Direction, Metric};
    use manycore_stats::Estimate;

    fn metric(name: &str, unit: &str, [a, b, ratio]: [f64; 3]) -> MetricComparison {
        let around = |median: f64| Estimate { median, interval: Some((median * 0.9, median * 1.1)), n: 9 };
        MetricComparison {
            metric: Metric { name: name.to_owned(), unit: unit.to_owned(), better: Direction::Lower },
            a: around(a),
            b: around(b),
            ratio: Some(around(ratio)),
            answer: Answer::BBetter,
        }
    }

    #[test]
    fn times_of_one_row_have_one_unit() {
        let row = row(&metric("wall", "s", [0.001, 8.49e-4, 0.849]), "better");
        assert_eq!(row[..4], ["wall in ms", "1.000", "0.900 to 1.100", "0.849"]);
        let none = super::row(&metric("cpu", "s", [0.0, 0.0, 1.0]), "better");
        assert_eq!(none[..2], ["cpu in s", "0.000"]);
        assert_eq!(super::row(&metric("memory", "MiB", [0.01, 0.01, 1.0]), "better")[0], "memory in MiB");
    }

    /// Regression test: 44,843 and 41,322 differ by 8 %, and the answer said 37 % less.
    #[test]
    fn a_ratio_that_is_not_that_of_the_medians_is_explained() {
        let requests = metric("requests", "requests/s", [44_843.0, 41_322.0, 0.626]);
        let wall = metric("wall", "s", [1.0, 0.8, 0.8]);
        let note = differing_medians(&[requests, wall.clone()]).unwrap();
        assert!(note.contains("differs (requests 0.921), because"), "{note}");
        assert_eq!(differing_medians(&[wall]), None);
    }

    #[test]
    fn a_variant_is_not_better_than_itself() {
        assert_eq!(word(Answer::BBetter, false, false), "better");
        assert_eq!([Answer::ABetter, Answer::BBetter].map(|answer| word(answer, true, true)), ["chance"; 2]);
        assert_eq!(word(Answer::Equivalent, true, true), "equivalent");
    }

    /// Regression test: CPU time of 1.007 to 1.014 was "worse", with a margin of 2 % within which a difference does not
    /// matter.
    #[test]
    fn a_difference_within_the_margin_is_slight() {
        let ratio = |low, high| MetricComparison {
            ratio: Some(Estimate { median: 1.01, interval: Some((low, high)), n: 9 }),
            ..metric("cpu", "s", [1.0, 1.01, 1.01])
        };
        assert!(ratio(1.007, 1.014).is_within(0.02) && !ratio(1.007, 1.03).is_within(0.02));
        assert_eq!(word(Answer::ABetter, false, true), "slightly worse");
    }
}
