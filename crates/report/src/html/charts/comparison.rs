//! How the ratio of each variant over the reference settled with the number of pairs.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
    sections::comparison::by,
};
use manycore_analysis::{Comparison, VariantComparison, settling};
use manycore_experiment::record::{Direction, Experiment, id};
use manycore_render::chart::{
    Axis, Course, CourseChart, CoursePoint, LineChart, Mark, Point, Series, Style, legend_sample,
};
use manycore_stats::Estimate;
use manycore_text::units::decimals;

/// Maximum number of variants in one chart.
const MAX_COURSES: usize = 16;

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter().enumerate().filter_map(|(index, named)| figure(index, named, all)).collect()
}

fn figure(index: usize, named: &NamedEvaluation, all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let experiment = named.record.experiment(id::COMPARE)?;
    let comparison = named.evaluation.comparison.as_ref()?;
    let figure = match comparison.only_other() {
        Some(other) => of_pair(index, experiment, comparison, other),
        None => of_several(index, experiment, comparison),
    }?;
    Some(ChartFigure { title: titled(&figure.title, named, all), ..figure })
}

fn of_pair(
    index: usize,
    experiment: &Experiment,
    comparison: &Comparison,
    other: &VariantComparison,
) -> Option<ChartFigure> {
    let estimates = settling(experiment, (comparison.reference, other.treatment));
    let over =
        format!("{} over {}", comparison.title(other.treatment), comparison.title(comparison.reference));
    let counts: Vec<f64> = estimates.iter().map(|estimate| estimate.n as f64).rev().collect();
    let (most, least) = (*counts.first()?, *counts.last()?);
    let ends = estimates.iter().filter_map(|estimate| estimate.interval).flat_map(|(low, high)| [low, high]);
    let drawing = LineChart {
        id: &format!("chart-comparison-{}", index + 1),
        label: &format!("Ratio of {over} by the number of pairs"),
        x_name: "pairs",
        y_name: &over,
        x: Axis::log2_at(&counts, &counts, 0.08),
        y: Axis::linear(ends.collect::<Vec<_>>(), &[1.0], 6.0),
        vertical_line: None,
        series: vec![equal(least, most), measured(index, &estimates)],
    }
    .draw();
    let title = format!(
        "How the ratio settled ({} 1: {} is better)",
        better(experiment),
        comparison.title(other.treatment)
    );
    Some(ChartFigure {
        title,
        caption: format!(
            "The ratio{} of the pairs so far, each with a 95 % interval of its own.",
            by(comparison)
        ),
        legend: vec![
            (legend_sample(Style::Measured, Mark::of_series(index), index), over.clone()),
            (legend_sample(Style::Ideal, Mark::Circle, 5), "equal".to_owned()),
        ],
        drawing,
    })
}

fn of_several(index: usize, experiment: &Experiment, comparison: &Comparison) -> Option<ChartFigure> {
    let reference = comparison.title(comparison.reference);
    let course = |(colour, other): (usize, &VariantComparison)| {
        let estimates = settling(experiment, (comparison.reference, other.treatment));
        let last = estimates.last()?;
        let ends = last.interval.map(|(low, high)| format!(" ({} to {})", decimals(low), decimals(high)));
        Some(Course {
            name: comparison.title(other.treatment).to_owned(),
            words: format!("{}x{}, {} rounds", decimals(last.median), ends.unwrap_or_default(), last.n),
            points: estimates.iter().map(point).collect(),
            colour,
        })
    };
    let courses: Vec<Course> =
        comparison.others.iter().enumerate().filter_map(course).take(MAX_COURSES).collect();
    if courses.is_empty() {
        return None;
    }
    let drawing = CourseChart {
        id: &format!("chart-comparison-{}", index + 1),
        label: &format!("Ratio of each variant over {reference} by the number of rounds"),
        x_name: "rounds",
        courses,
    }
    .draw();
    let better = better(experiment);
    Some(ChartFigure {
        title: format!("How the ratios over {reference} settled ({better} 1: better than {reference})"),
        caption: format!(
            "The ratio{} of the rounds so far; the band is its 95 % interval. The scales differ. Here each variant has an interval of its \
             own. Those in the table hold jointly and are wider.",
            by(comparison)
        ),
        legend: Vec::new(),
        drawing,
    })
}

fn point(estimate: &Estimate) -> CoursePoint {
    CoursePoint { x: estimate.n as f64, ratio: estimate.median, interval: estimate.interval }
}

/// Returns on which side of 1 a variant is better.
fn better(experiment: &Experiment) -> &'static str {
    match experiment.metrics.first().map(|metric| metric.better) {
        Some(Direction::Lower) => "below",
        Some(Direction::Higher) | None => "above",
    }
}

/// Returns the line at 1.
fn equal(least: f64, most: f64) -> Series {
    let at = |x: f64| Point { x, y: 1.0, interval: None, label: String::new() };
    Series { colour: 5, mark: Mark::Circle, style: Style::Ideal, points: vec![at(least), at(most)] }
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
