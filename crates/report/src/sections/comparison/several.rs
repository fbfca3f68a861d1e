//! More than two variants: one table for each metric, with the variants in the order of their ranking.

use super::{by, meaning, metric_in_unit, ratio, slight, smallest, verdict};
use crate::sections::{Table, tuning};
use manycore_analysis::{Comparison, Evaluation, VariantComparison};
use manycore_experiment::record::Metric;
use manycore_render::{
    figure::{ABSENT, interval, number},
    table::Align,
};
use manycore_stats::{Estimate, Estimator};
use manycore_text::units::counted;

pub(super) fn tables(comparison: &Comparison) -> Vec<Table> {
    let metrics = comparison.others.first().map_or(0, |other| other.metrics.len());
    let mut tables: Vec<Table> = (0..metrics).filter_map(|index| table(comparison, index)).collect();
    if let Some(first) = tables.first_mut() {
        first.notes.push(rounds(comparison, metrics));
        first.notes.extend(slight(comparison));
        let over = || format!("over {}{}", comparison.title(comparison.reference), by(comparison));
        first.notes.extend(match comparison.estimator() {
            Estimator::Median => None,
            estimator => Some(meaning(estimator, &over())),
        });
    }
    tables
}

/// The table of a race, where there was one.
pub(super) fn race(evaluation: &Evaluation) -> Option<Table> {
    if evaluation.race.is_empty() {
        return None;
    }
    let mut table =
        tuning::candidates(&evaluation.race, ["Race, best first", "variant", "rate over the reference"]);
    table.notes.push(
        "Ratios of a race are ratios of rates, and exploratory: the best of many looks better than it is. The reference \
         ran in every round."
            .to_owned(),
    );
    Some(table)
}

/// The table of one metric.
fn table(comparison: &Comparison, index: usize) -> Option<Table> {
    let of = |other: &'_ VariantComparison| other.metrics.get(index).cloned();
    let metric = &of(comparison.others.first()?)?.metric;
    let values: Vec<Estimate> =
        comparison.others.iter().filter_map(of).flat_map(|one| [one.a, one.b]).collect();
    let (name, scale) = metric_in_unit(metric, smallest(values.iter().map(|value| value.median)));
    let reference = comparison.title(comparison.reference);
    let over = format!("over {reference}{}", by(comparison));
    let head = [name.as_str(), "95 % interval", &over, "95 % interval", "is"];
    let mut table = Table::numeric(title(metric, index), ("variant", Align::Left), &head);
    table.verdict_column = Some(table.head.len() - 1);
    let order = comparison.ranking.iter().flatten();
    table.rows = order.filter_map(|&treatment| row(comparison, treatment, index, scale)).collect();
    Some(table)
}

/// Returns the title of a table: that of the first metric says how it is ordered.
fn title(metric: &Metric, index: usize) -> String {
    match index {
        0 => format!("{}, best first", metric.name),
        _ => metric.name.clone(),
    }
}

fn row(comparison: &Comparison, treatment: usize, index: usize, scale: f64) -> Option<Vec<String>> {
    // The places are those of the primary metric.
    let place = if index == 0 { format!("{}. ", comparison.place(treatment)) } else { String::new() };
    let name = format!("{place}{}", comparison.title(treatment));
    let value = |estimate: Estimate| {
        let scaled = estimate.map(|value| value * scale);
        [number(scaled.median), interval(&scaled, number)]
    };
    let cells = if treatment == comparison.reference {
        let compared = comparison.others.first()?.metrics.get(index)?;
        let [median, ends] = value(compared.a);
        [median, ends, ABSENT.to_owned(), ABSENT.to_owned(), "the reference".to_owned()]
    } else {
        let other = comparison.others.iter().find(|other| other.treatment == treatment)?;
        let compared = other.metrics.get(index)?;
        let ([median, ends], [ratio, bounds]) = (value(compared.b), ratio(compared));
        [median, ends, ratio, bounds, verdict(compared, other, comparison).to_owned()]
    };
    Some(std::iter::once(name).chain(cells).collect())
}

fn rounds(comparison: &Comparison, metrics: usize) -> String {
    let rounds = comparison.others.iter().map(|other| other.verdict.pairs).max().unwrap_or(0);
    let primary = comparison.others.first().and_then(|other| other.metrics.first());
    let about = primary.filter(|_| metrics > 1).map(|primary| {
        format!(" The answer is about {}; the other metrics are for information.", primary.metric.name)
    });
    format!(
        "{} in random order. The number of a variant is 1 plus the number of those that are proven to be better. The \
         intervals over {} hold jointly (Holm).{}",
        counted(rounds, "round"),
        comparison.title(comparison.reference),
        about.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    #[test]
    fn variants_are_rows_in_the_order_of_their_ranking() {
        let record =
            SyntheticMachine { blocks: 30, ..SyntheticMachine::guest() }.compare_variants(&[1.0, 1.5, 0.7]);
        let [table] = &tables(Evaluation::from_record(&record).comparison.as_ref().unwrap())[..] else {
            panic!()
        };
        let cells =
            |column: usize| -> Vec<&str> { table.rows.iter().map(|row| row[column].as_str()).collect() };
        assert_eq!(
            (cells(0), cells(5)),
            (vec!["1. B", "2. A", "3. C"], vec!["better", "the reference", "worse"])
        );
        assert_eq!(table.title, "wall, best first");
        assert_eq!(table.head[3].0, "over A");
    }
}
