//! The distribution of each variant, and its runs in the order made.

use crate::sections::{NamedEvaluation, Table, comparison};
use manycore_analysis::{Distribution, Statistic};
use manycore_experiment::record::{Direction, Experiment, id};
use manycore_render::{
    figure::{ABSENT, number, optional},
    table::Align,
};
use manycore_stats::Estimator;

/// Maximum number of signs of a strip; several runs are then one sign.
const MAX_SIGNS: usize = 60;

/// Signs from the lowest to the highest value.
const SIGNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The quantiles of the worse tail.
const TAIL: [Estimator; 3] = [Estimator::P90, Estimator::P95, Estimator::P99];

pub(super) fn tables(named: &NamedEvaluation) -> Vec<Table> {
    let distributions = &named.evaluation.distributions;
    let Some(experiment) = named.record.experiment(id::COMPARE).filter(|_| !distributions.is_empty()) else {
        return Vec::new();
    };
    let mut tables = vec![figures(distributions)];
    if distributions.iter().any(|one| one.n > 1) {
        tables.push(strips(experiment, distributions));
    }
    tables.push(intervals(distributions));
    tables
}

/// Returns how the metric of distributions is called with its unit, and the factor of values in that unit.
pub fn name_and_scale(distributions: &[Distribution]) -> (String, f64) {
    let Some(first) = distributions.first() else { return (String::new(), 1.0) };
    let medians = distributions.iter().map(|one| one.median.value);
    comparison::metric_in_unit(&first.metric, comparison::smallest(medians))
}

fn figures(distributions: &[Distribution]) -> Table {
    let (name, scale) = name_and_scale(distributions);
    let reached: Vec<Estimator> = TAIL
        .into_iter()
        .filter(|quantile| distributions.iter().any(|one| one.quantile(*quantile).is_some()))
        .collect();
    let mut head = vec!["runs", "mean", "std dev", "min", "median"];
    head.extend(reached.iter().map(|quantile| quantile.name()));
    head.push("max");
    let mut table = Table::numeric(format!("Distribution of {name}"), ("variant", Align::Left), &head);
    let figure = |value: f64| number(value * scale);
    table.rows =
        distributions
            .iter()
            .map(|one| {
                let mut row = vec![one.label.clone(), one.n.to_string(), figure(one.mean.value)];
                row.extend([one.standard_deviation, one.min, one.median.value].map(figure));
                row.extend(reached.iter().map(|quantile| {
                    optional(one.quantile(*quantile).map(|found| found.value * scale), number)
                }));
                row.push(figure(one.max));
                row
            })
            .collect();
    if !reached.is_empty() && distributions.iter().any(|one| one.metric.better == Direction::Higher) {
        table.notes.push("p90, p95, p99: what 90, 95 and 99 % of the runs reach.".to_owned());
    }
    table
}

fn intervals(distributions: &[Distribution]) -> Table {
    let (name, scale) = name_and_scale(distributions);
    let mut head = vec!["mean", "median"];
    head.extend(TAIL.iter().map(|quantile| quantile.name()));
    let mut table = Table::numeric(format!("95 % intervals of {name}"), ("variant", Align::Left), &head);
    table.is_detail = true;
    let ends = |figure: Option<Statistic>| {
        figure.and_then(|figure| figure.interval).map_or_else(
            || ABSENT.to_owned(),
            |(low, high)| format!("{} to {}", number(low * scale), number(high * scale)),
        )
    };
    table.rows = distributions
        .iter()
        .map(|one| {
            let tail = TAIL.iter().map(|quantile| ends(one.quantile(*quantile)));
            let fixed = [one.label.clone(), ends(Some(one.mean)), ends(Some(one.median))];
            fixed.into_iter().chain(tail).collect()
        })
        .collect();
    let needed =
        TAIL.map(|quantile| format!("{} for {quantile}", quantile.least_pairs(manycore_stats::FAMILY_LEVEL)));
    table.notes.push(format!("Intervals of quantiles need {} runs.", needed.join(", ")));
    table
}

fn strips(experiment: &Experiment, distributions: &[Distribution]) -> Table {
    let mut table = Table::numeric("Runs in the order made", ("variant", Align::Left), &[]);
    table.head.push(("lowest ▁ to highest █".to_owned(), Align::Left));
    let (low, high) = distributions
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one.min), high.max(one.max)));
    let most = distributions.iter().map(|one| one.n.div_ceil(MAX_SIGNS)).max().unwrap_or(1);
    table.rows = distributions
        .iter()
        .map(|one| {
            let worse: fn(f64, f64) -> f64 =
                if one.metric.better == Direction::Higher { f64::min } else { f64::max };
            vec![one.label.clone(), strip(&one.values(experiment), (low, high), worse)]
        })
        .collect();
    if most > 1 {
        table.notes.push(format!("Each sign is the worst of {most} runs."));
    }
    table
}

/// Returns one sign for each value, or for the worst of a few, between the ends of all strips. The scale is logarithmic
/// where it can be, so that one far value does not level all others.
fn strip(values: &[f64], (low, high): (f64, f64), worse: fn(f64, f64) -> f64) -> String {
    let scale = |value: f64| if low > 0.0 { value.ln() } else { value };
    let span = scale(high) - scale(low);
    let sign = |value: f64| {
        let share = if span > 0.0 { (scale(value) - scale(low)) / span } else { 0.0 };
        SIGNS[((share * SIGNS.len() as f64) as usize).min(SIGNS.len() - 1)]
    };
    let in_sign = values.len().div_ceil(MAX_SIGNS).max(1);
    values.chunks(in_sign).filter_map(|chunk| chunk.iter().copied().reduce(worse).map(sign)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_a_sign_and_many_runs_are_a_line_of_limited_length() {
        assert_eq!(strip(&[1.0, 2.0, 4.0, 8.0, 1.0], (1.0, 8.0), f64::max), "▁▃▆█▁");
        assert_eq!(strip(&[2.0, 2.0], (2.0, 2.0), f64::max), "▁▁");
        assert_eq!(strip(&[0.0, 1.0], (0.0, 1.0), f64::max), "▁█");
        let many: Vec<f64> = (1..=1000).map(f64::from).collect();
        let line = strip(&many, (1.0, 1000.0), f64::max);
        assert!(line.chars().count() <= MAX_SIGNS && line.ends_with('█'), "{line}");
    }
}
