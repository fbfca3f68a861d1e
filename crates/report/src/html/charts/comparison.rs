//! How the ratio of two variants settled with the number of pairs.

use crate::Named;
use crate::html::charts::Figure;
use manycore_analysis::compare;
use manycore_experiment::record::{Experiment, id};
use manycore_render::chart::{Axis, Lines, Mark, Point, Series, Style, swatch};
use manycore_stats::{Estimate, LEVEL};

/// Number of points of the curve.
const POINTS: usize = 10;

/// Minimum number of pairs for an interval.
const FEWEST: usize = 6;

pub(super) fn of(all: &[Named]) -> Vec<Figure> {
    all.iter().enumerate().filter_map(|(index, named)| settling(index, named, all)).collect()
}

fn settling(index: usize, named: &Named, all: &[Named]) -> Option<Figure> {
    let experiment = named.record.experiment(id::COMPARE)?;
    let estimates = prefixes(experiment)?;
    let most = estimates.last()?.n as f64;
    let counts: Vec<f64> = estimates.iter().map(|estimate| estimate.n as f64).rev().collect();
    let points = estimates.iter().map(|estimate| Point {
        x: estimate.n as f64,
        y: estimate.median,
        interval: estimate.interval,
        label: if estimate.n as f64 == most { format!("{:.3}", estimate.median) } else { String::new() },
    });
    let bare = |x: f64| Point { x, y: 1.0, interval: None, label: String::new() };
    let equal = Series {
        colour: 5,
        mark: Mark::Circle,
        style: Style::Ideal,
        points: vec![bare(FEWEST as f64), bare(most)],
    };
    let measured =
        Series { colour: index, mark: Mark::of(index), style: Style::Measured, points: points.collect() };
    let ends = estimates.iter().filter_map(|estimate| estimate.interval).flat_map(|(low, high)| [low, high]);
    let (number, label) = (index + 1, "Ratio of B over A by the number of pairs");
    let drawing = Lines {
        id: &format!("chart-comparison-{number}"),
        label,
        x_name: "pairs",
        y_name: "B over A",
        x: Axis::doublings_at(&counts, &counts, 0.08),
        y: Axis::linear(ends.collect::<Vec<_>>(), &[1.0], 6.0),
        upright: None,
        series: vec![equal, measured],
    }
    .draw();
    Some(Figure {
        title: crate::html::charts::titled("How the ratio settled (above 1: B is better)", named, all),
        caption:
            "The ratio of the first pairs, with its uncorrected 95 % interval. Only the planned interim \
                  analyses decide."
                .to_owned(),
        legend: vec![
            (swatch(Style::Measured, Mark::of(index), index), "B over A".to_owned()),
            (swatch(Style::Ideal, Mark::Circle, 5), "equal".to_owned()),
        ],
        drawing,
    })
}

/// Returns the estimates from the first few pairs up to all of them.
fn prefixes(experiment: &Experiment) -> Option<Vec<Estimate>> {
    compare(experiment)?;
    let side = |name: &str| {
        let is = |side: &String| side == name;
        experiment.treatments.iter().position(|treatment| treatment.factors.get("side").is_some_and(is))
    };
    let ratios = experiment.log_ratios(side("A")?, side("B")?);
    let growth = (ratios.len() as f64 / FEWEST as f64).powf(1.0 / (POINTS - 1) as f64);
    let mut counts: Vec<usize> = (0..POINTS)
        .map(|step| (FEWEST as f64 * growth.powi(step as i32)).round() as usize)
        .filter(|&count| (FEWEST..=ratios.len()).contains(&count))
        .chain([ratios.len()])
        .collect();
    counts.dedup();
    let estimate =
        |&count: &usize| Estimate::of_differences(&ratios[..count], LEVEL).map(|ratio| ratio.map(f64::exp));
    (counts.len() > 1).then(|| counts.iter().filter_map(estimate).collect())
}
