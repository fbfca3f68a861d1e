//! How the ratio of two variants settled with the number of pairs.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::compare;
use manycore_experiment::record::{Direction, Experiment, factor, id};
use manycore_render::chart::{Axis, LineChart, Mark, Point, Series, Style, legend_sample};
use manycore_stats::{Estimate, FAMILY_LEVEL};

/// Number of points of the curve.
const CURVE_POINTS: usize = 10;

/// Minimum number of pairs for an interval.
const MIN_PAIRS: usize = 6;

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter().enumerate().filter_map(|(index, named)| ratio_by_pairs(index, named, all)).collect()
}

fn ratio_by_pairs(index: usize, named: &NamedEvaluation, all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let experiment = named.record.experiment(id::COMPARE)?;
    let estimates = estimates_by_pairs(experiment)?;
    let counts: Vec<f64> = estimates.iter().map(|estimate| estimate.n as f64).rev().collect();
    let ends = estimates.iter().filter_map(|estimate| estimate.interval).flat_map(|(low, high)| [low, high]);
    let drawing = LineChart {
        id: &format!("chart-comparison-{}", index + 1),
        label: "Ratio of B over A by the number of pairs",
        x_name: "pairs",
        y_name: "B over A",
        x: Axis::log2_at(&counts, &counts, 0.08),
        y: Axis::linear(ends.collect::<Vec<_>>(), &[1.0], 6.0),
        vertical_line: None,
        series: vec![equal(*counts.first()?), measured(index, &estimates)],
    }
    .draw();
    let better = if is_lower_better(experiment) { "below" } else { "above" };
    let title = format!("How the ratio settled ({better} 1: B is better)");
    Some(ChartFigure {
        title: titled(&title, named, all),
        caption: "The ratio of the pairs so far, each with a 95 % interval of its own.".to_owned(),
        legend: vec![
            (legend_sample(Style::Measured, Mark::of_series(index), index), "B over A".to_owned()),
            (legend_sample(Style::Ideal, Mark::Circle, 5), "equal".to_owned()),
        ],
        drawing,
    })
}

/// Returns the line at 1, up to so many pairs.
fn equal(most: f64) -> Series {
    let at = |x: f64| Point { x, y: 1.0, interval: None, label: String::new() };
    Series {
        colour: 5,
        mark: Mark::Circle,
        style: Style::Ideal,
        points: vec![at(MIN_PAIRS as f64), at(most)],
    }
}

/// Returns the estimates of a record, of which the last has a label.
fn measured(index: usize, estimates: &[Estimate]) -> Series {
    let point = |(at, estimate): (usize, &Estimate)| Point {
        x: estimate.n as f64,
        y: estimate.median,
        interval: estimate.interval,
        label: if at + 1 == estimates.len() { format!("{:.3}", estimate.median) } else { String::new() },
    };
    let points = estimates.iter().enumerate().map(point).collect();
    Series { colour: index, mark: Mark::of_series(index), style: Style::Measured, points }
}

/// Returns whether the primary metric is better if it is lower.
fn is_lower_better(experiment: &Experiment) -> bool {
    experiment.metrics.first().is_some_and(|metric| metric.better == Direction::Lower)
}

/// Returns the estimates from the first few pairs up to all of them.
fn estimates_by_pairs(experiment: &Experiment) -> Option<Vec<Estimate>> {
    compare(experiment)?;
    let side = |name: &str| {
        let is = |side: &String| side == name;
        experiment
            .treatments
            .iter()
            .position(|treatment| treatment.factors.get(factor::VARIANT).is_some_and(is))
    };
    // Rates, of which a higher one is better; a metric of which a lower value is better is their reciprocal.
    let sign = if is_lower_better(experiment) { -1.0 } else { 1.0 };
    let rates = experiment.log_ratios(side("A")?, side("B")?);
    let ratios: Vec<f64> = rates.into_iter().map(|ratio| sign * ratio).collect();
    let growth = (ratios.len() as f64 / MIN_PAIRS as f64).powf(1.0 / (CURVE_POINTS - 1) as f64);
    let mut counts: Vec<usize> = (0..CURVE_POINTS)
        .map(|step| (MIN_PAIRS as f64 * growth.powi(step as i32)).round() as usize)
        .filter(|&count| (MIN_PAIRS..=ratios.len()).contains(&count))
        .chain([ratios.len()])
        .collect();
    counts.dedup();
    let estimate = |&count: &usize| {
        Estimate::from_differences(&ratios[..count], FAMILY_LEVEL).map(|ratio| ratio.map(f64::exp))
    };
    (counts.len() > 1).then(|| counts.iter().filter_map(estimate).collect())
}
