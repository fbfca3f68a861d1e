//! Variants and their reference, metric by metric.

mod several;

use crate::sections::{NamedEvaluation, Table, compare, distribution, requests};
use manycore_analysis::{Comparison, MetricComparison, VariantComparison};
use manycore_experiment::record::Metric;
use manycore_render::{
    figure::{ABSENT, interval, number, percent, unit_of_time, with_interval},
    table::Align,
};
use manycore_stats::{Estimate, Estimator, verdict::Answer};
use manycore_text::units::{counted, decimals};

/// How a difference is called that is shown and too small to matter.
const SLIGHTLY: &str = "slightly";

/// Returns the heading where more than two variants were compared.
pub(super) fn title(all: &[NamedEvaluation]) -> Option<&'static str> {
    let mut comparisons = all.iter().filter_map(|named| named.evaluation.comparison.as_ref());
    comparisons.any(|comparison| comparison.only_other().is_none()).then_some("Variants")
}

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let comparison = named.evaluation.comparison.as_ref();
    let mut tables = comparison.map_or_else(Vec::new, |comparison| match comparison.only_other() {
        Some(other) => vec![of_pair(comparison, other)],
        None => several::tables(comparison),
    });
    if comparison.is_some() {
        tables.extend(distribution::tables(named));
        tables.extend(requests::tables(&named.evaluation));
    }
    tables.extend(several::race(&named.evaluation));
    tables
}

fn of_pair(comparison: &Comparison, other: &VariantComparison) -> Table {
    let (a, b) = (comparison.title(comparison.reference), comparison.title(other.treatment));
    let (over, is) = (format!("{b} over {a}"), format!("{b} is"));
    let by_estimator = format!("{over}{}", by(comparison));
    let head = [a, "95 % interval", b, "95 % interval", &by_estimator, "95 % interval", &is];
    let mut table = Table::numeric("Metrics", ("metric", Align::Left), &head);
    table.verdict_column = Some(table.head.len() - 1);
    table.rows =
        other.metrics.iter().map(|compared| row(compared, verdict(compared, other, comparison))).collect();
    table.notes.push(pairs(other));
    table.notes.extend(slight(comparison));
    table.notes.extend(match other.verdict.estimator {
        Estimator::Median => differing_medians(&other.metrics, &over),
        estimator => Some(meaning(estimator, &by_estimator)),
    });
    table
}

/// Explains a verdict on a difference that is too small to matter, where there is one.
fn slight(comparison: &Comparison) -> Option<String> {
    let is_slight = |other: &VariantComparison| {
        other.metrics.iter().any(|compared| verdict(compared, other, comparison).starts_with(SLIGHTLY))
    };
    let other = comparison.others.iter().find(|other| is_slight(other))?;
    Some(format!(
        "{SLIGHTLY}: the difference is real and within the margin of {}.",
        percent(other.verdict.rule.margin)
    ))
}

/// Says how B is. A difference of B from itself is neither better nor worse.
fn verdict(compared: &MetricComparison, other: &VariantComparison, comparison: &Comparison) -> &'static str {
    let is_small = compared.is_within(other.verdict.rule.margin);
    word(compared.answer, comparison.same_variants, is_small)
}

fn word(answer: Answer, is_same: bool, is_small: bool) -> &'static str {
    match answer {
        Answer::ABetter | Answer::BBetter | Answer::TradeOff if is_same => "chance",
        Answer::BBetter if is_small => "slightly better",
        Answer::ABetter if is_small => "slightly worse",
        Answer::BBetter => "better",
        Answer::ABetter => "worse",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive => "inconclusive",
        Answer::TradeOff => "a trade-off",
    }
}

fn pairs(other: &VariantComparison) -> String {
    let pairs = format!("{} of runs in random order.", counted(other.verdict.pairs, "pair"));
    match other.metrics.as_slice() {
        [first, _, ..] => format!(
            "{pairs} The answer is about {}; the other metrics are for information.",
            first.metric.name
        ),
        _ => pairs,
    }
}

/// ` by mean`, where ratios are not those of typical pairs.
pub fn by(comparison: &Comparison) -> String {
    match comparison.estimator() {
        Estimator::Median => String::new(),
        other => format!(" by {other}"),
    }
}

/// Says what the ratio is of, where it is not that of pairs.
fn meaning(estimator: Estimator, over: &str) -> String {
    let (figures, of_each) = match estimator {
        Estimator::Mean => ("means".to_owned(), "means, too".to_owned()),
        Estimator::Max => ("worst of each ten runs".to_owned(), "medians".to_owned()),
        other => (format!("{other} of the worse tail"), format!("{other}, too")),
    };
    format!(
        "{over}: the ratio of the {figures}, which was chosen before the run. The figures of each variant are {of_each}."
    )
}

/// Explains why the ratio of a row is not that of its medians, where a reader would see it.
fn differing_medians(metrics: &[MetricComparison], over: &str) -> Option<String> {
    let differing: Vec<String> = metrics
        .iter()
        .filter_map(|compared| {
            Some(format!("{} {}", compared.metric.name, decimals(compared.differing_medians()?)))
        })
        .collect();
    (!differing.is_empty()).then(|| {
        format!(
            "{over} is the ratio within pairs of neighbouring runs. That of the two medians differs ({}), as it does where \
             the speed of the machine changes during a run, or runs are of several kinds.",
            differing.join(", ")
        )
    })
}

/// Returns the name of a metric with the unit of its values, and the factor by which they are multiplied for it.
/// `smallest` is the smallest value above 0.
pub(super) fn metric_in_unit(metric: &Metric, smallest: f64) -> (String, f64) {
    let (unit, scale) = match metric.unit.as_str() {
        "s" => unit_of_time(smallest),
        unit => (unit, 1.0),
    };
    (if unit.is_empty() { metric.name.clone() } else { format!("{} in {unit}", metric.name) }, scale)
}

/// Returns the smallest value above 0.
pub(super) fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min)
}

fn row(compared: &MetricComparison, is: &str) -> Vec<String> {
    let (name, scale) =
        metric_in_unit(&compared.metric, smallest([compared.a.median, compared.b.median].into_iter()));
    let [a, b] = [compared.a, compared.b].map(|estimate| estimate.map(|value| value * scale));
    let mut row = vec![name, number(a.median), interval(&a, number), number(b.median), interval(&b, number)];
    row.extend(ratio(compared));
    row.push(is.to_owned());
    row
}

/// Returns the cells of a ratio and its interval.
fn ratio(compared: &MetricComparison) -> [String; 2] {
    let cell =
        |text: fn(&Estimate) -> String| compared.ratio.as_ref().map_or_else(|| ABSENT.to_owned(), text);
    [cell(|ratio| decimals(ratio.median)), cell(|ratio| interval(ratio, decimals))]
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let name = |(_, name): &(usize, String)| name.clone();
    let table = compare("B over A (95 % interval)", ("metric", Align::Left), all, name, |named| {
        let comparisons = named.evaluation.comparison.iter();
        let compared = comparisons.flat_map(|comparison| {
            comparison.others.iter().flat_map(move |other| {
                let of = move |one| (row_name(comparison, other, one), one, verdict(one, other, comparison));
                other.metrics.iter().map(of)
            })
        });
        let cell = |(index, (name, one, is)): (usize, (String, &MetricComparison, &str))| {
            let ratio = one
                .ratio
                .map_or_else(|| ABSENT.to_owned(), |ratio| with_interval(&ratio, decimals, decimals));
            ((index, name), format!("{ratio}, {is}"))
        };
        compared.enumerate().map(cell).collect()
    });
    vec![table]
}

/// Returns the name of a row: the metric and, of several variants, which one.
fn row_name(comparison: &Comparison, other: &VariantComparison, compared: &MetricComparison) -> String {
    let metric = &compared.metric.name;
    match comparison.only_other() {
        Some(_) => format!("{metric}{}", by(comparison)),
        None => format!("{}: {metric}{}", comparison.title(other.treatment), by(comparison)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::record::Direction;

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
    fn a_ratio_that_is_not_of_pairs_is_named() {
        let note = meaning(Estimator::Mean, "B over A by mean");
        assert!(
            note.starts_with("B over A by mean: the ratio of the means, which was chosen before"),
            "{note}"
        );
        assert!(meaning(Estimator::P99, "B over A").contains("the p99 of the worse tail"));
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
        let note = differing_medians(&[requests, wall.clone()], "B over A").unwrap();
        assert!(
            note.starts_with("B over A is the ratio")
                && note.contains("differs (requests 0.921), as it does"),
            "{note}"
        );
        assert_eq!(differing_medians(&[wall], "B over A"), None);
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
