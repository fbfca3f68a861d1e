//! Charts of a density: the latency and the resources by number of instances, the path of the search, and the tails.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, requests::tail_chart, titled},
};
use manycore_analysis::{CountTail, Density, ResourceTrend, VariantDensity};
use manycore_render::chart::{Axis, LineChart, Mark, Point, Series, Style, legend_sample};

/// Maximum number of resources with a chart, of each variant.
const MAX_RESOURCES: usize = 4;
/// Number of ticks of a vertical axis, about.
const TICKS: f64 = 5.0;

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let mut figures = Vec::new();
    for (number, named) in all.iter().enumerate() {
        let Some(density) = &named.evaluation.density else { continue };
        let id = |what: &str| format!("chart-density-{what}-{}", number + 1);
        let titled = |title: &str| titled(title, named, all);
        figures.extend(by_count(&id("ratio"), &titled, density));
        figures.push(path(&id("path"), &titled, density));
        for (index, variant) in density.variants.iter().enumerate() {
            let name = density.prefix(variant);
            figures.extend(tails(
                &id(&format!("tails-{index}")),
                &titled(&format!("{name}Latency of all requests")),
                variant,
            ));
            let moving = variant.resources.moving().into_iter().take(MAX_RESOURCES).enumerate();
            figures.extend(moving.map(|(place, trend)| {
                let title = titled(&format!("{name}{}", trend.name));
                resource(&id(&format!("resource-{index}-{place}")), &title, trend, &counts(density))
            }));
        }
    }
    figures
}

/// Returns all counts that were measured, and 1.
fn counts(density: &Density) -> Vec<f64> {
    let measured =
        density.variants.iter().flat_map(|variant| &variant.counts).map(|count| count.count as f64);
    std::iter::once(1.0).chain(measured).collect()
}

fn legend(density: &Density) -> Vec<(maud::Markup, String)> {
    let variants = density.variants.iter().enumerate().filter(|_| density.variants.len() > 1);
    variants
        .map(|(index, variant)| {
            (legend_sample(Style::Measured, Mark::of_series(index), index), variant.label.clone())
        })
        .collect()
}

fn by_count(id: &str, titled: &dyn Fn(&str) -> String, density: &Density) -> Option<ChartFigure> {
    let figure = &density.figure;
    let over = if density.limit_ms.is_some() { "the limit" } else { "alone" };
    let point = |count: &manycore_analysis::InstanceCount| {
        let ratio = count.ratio.filter(|_| !count.has_failed)?;
        Some(Point { x: count.count as f64, y: ratio, interval: count.interval, label: String::new() })
    };
    let mut series: Vec<Series> = density
        .variants
        .iter()
        .enumerate()
        .map(|(index, variant)| Series {
            colour: index,
            mark: Mark::of_series(index),
            style: Style::Measured,
            points: variant.counts.iter().filter_map(point).collect(),
        })
        .collect();
    let points: Vec<&Point> = series.iter().flat_map(|series| &series.points).collect();
    if points.is_empty() {
        return None;
    }
    let xs = counts(density);
    let ends = |point: &&Point| point.interval.map_or([point.y; 2], |(low, high)| [low, high]);
    let ys: Vec<f64> = points.iter().flat_map(ends).collect();
    let limit = density.ratio_limit;
    let (first, last) = xs.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
    let bound = |x: f64, label: String| Point { x, y: limit, interval: None, label };
    let line = vec![bound(first, density.bound.clone()), bound(last, String::new())];
    let colour = series.len();
    series.insert(0, Series { colour, mark: Mark::of_series(colour), style: Style::Ideal, points: line });
    let title = titled(&format!("{figure} over {over}, by number of instances"));
    let drawing = LineChart {
        id,
        label: &title,
        x_name: "instances",
        y_name: &format!("{figure} over {over}"),
        x: Axis::log2(xs),
        y: Axis::fitting(&[ys, vec![limit]].concat(), TICKS),
        vertical_line: None,
        series,
    }
    .draw();
    let caption = format!(
        "The dotted line is the bound, {}. Whiskers are the intervals (99 %) that decide on which side of it a count is. \
         Counts that failed have no point.",
        density.bound
    );
    Some(ChartFigure { title, caption, legend: legend(density), drawing })
}

/// The counts in the order in which they were measured.
fn path(id: &str, titled: &dyn Fn(&str) -> String, density: &Density) -> ChartFigure {
    let series = density.variants.iter().enumerate().map(|(index, variant)| Series {
        colour: index,
        mark: Mark::of_series(index),
        style: Style::Measured,
        points: variant
            .path
            .iter()
            .enumerate()
            .map(|(at, &count)| Point {
                x: at as f64 + 1.0,
                y: count as f64,
                interval: None,
                label: String::new(),
            })
            .collect(),
    });
    let steps = density.variants.iter().map(|variant| variant.path.len()).max().unwrap_or(1);
    let title = titled("Path of the search");
    let drawing = LineChart {
        id,
        label: &title,
        x_name: "step",
        y_name: "instances",
        x: Axis::linear((1..=steps).map(|step| step as f64), &[1.0], TICKS.min(steps as f64 - 1.0).max(1.0)),
        y: Axis::log2(counts(density)),
        vertical_line: None,
        series: series.collect(),
    }
    .draw();
    let caption = "The number of instances is doubled until it is above the bound, and then halved between the last count \
                   within it and the first one above it, on a logarithmic scale."
        .to_owned();
    ChartFigure { title, caption, legend: legend(density), drawing }
}

fn tails(id: &str, title: &str, variant: &VariantDensity) -> Option<ChartFigure> {
    let name = |tail: &CountTail| {
        if tail.count == 1 { "alone".to_owned() } else { format!("{} instances", tail.count) }
    };
    let line = |(index, tail): (usize, &CountTail)| Series {
        colour: index,
        mark: Mark::of_series(index),
        style: Style::Measured,
        points: tail
            .curve
            .iter()
            .map(|&(latency, share)| Point {
                x: 1.0 / share,
                y: latency,
                interval: None,
                label: format!("{}: 1 of {:.0} takes longer than {latency:.3} ms", name(tail), 1.0 / share),
            })
            .collect(),
    };
    let series: Vec<Series> = variant.tails.iter().enumerate().map(line).collect();
    let drawing = tail_chart(id, title, "ms", series)?;
    let sign = |index| legend_sample(Style::Measured, Mark::of_series(index), index);
    let caption = "The observed instance alone, at the last count within the bound, and at the first one above it; all slices \
                   together."
        .to_owned();
    let legend = variant.tails.iter().enumerate().map(|(index, tail)| (sign(index), name(tail))).collect();
    Some(ChartFigure { title: title.to_owned(), caption, legend, drawing })
}

fn resource(id: &str, title: &str, trend: &ResourceTrend, xs: &[f64]) -> ChartFigure {
    let alone = Point { x: 1.0, y: trend.alone, interval: None, label: String::new() };
    let at_count = trend.at_each_count.iter().filter(|change| change.count > 1).map(|change| Point {
        x: change.count as f64,
        y: trend.alone + change.mean,
        interval: change.interval.map(|(low, high)| (trend.alone + low, trend.alone + high)),
        label: String::new(),
    });
    let points: Vec<Point> = std::iter::once(alone).chain(at_count).collect();
    let ends = |point: &Point| point.interval.map_or([point.y; 2], |(low, high)| [low, high]);
    let ys: Vec<f64> = points.iter().flat_map(ends).collect();
    let series = vec![Series { colour: 0, mark: Mark::of_series(0), style: Style::Measured, points }];
    let x = Axis::log2(xs.iter().copied());
    let y = Axis::fitting(&ys, TICKS);
    let drawing = LineChart {
        id,
        label: title,
        x_name: "instances",
        y_name: &trend.unit,
        x,
        y,
        vertical_line: None,
        series,
    }
    .draw();
    let caption = trend.correlation.map_or_else(String::new, |rho| {
        format!("Rank correlation with the latency over the counts: {rho:+.2}. That is no proof of a cause.")
    });
    ChartFigure { title: title.to_owned(), caption, legend: Vec::new(), drawing }
}
