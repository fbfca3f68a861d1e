//! Rates by number of workers for each way of sharing, and by distance.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{ContentionPair, ContentionPoint, LoadContention};
use manycore_render::{
    chart::{Axis, Bar, BarChart, Group, LineChart, Mark, Point, Series, Style, legend_sample},
    figure::{interval, number},
};
use manycore_topology::TopologyDistance;

/// Minimum distance between the labels of the horizontal axis, as a share of the axis.
const MIN_LABEL_DISTANCE: f64 = 0.075;

/// A load with its number in the page, which makes the ids of drawings unique.
type NumberedLoad<'a> = (usize, &'a NamedEvaluation, &'a LoadContention);

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let loads =
        all.iter().flat_map(|named| named.evaluation.contention.iter().map(move |load| (named, load)));
    let loads: Vec<NumberedLoad> = loads.enumerate().map(|(nth, (named, load))| (nth, named, load)).collect();
    loads.iter().flat_map(|load| rates(load, all).into_iter().chain(distances(load, all))).collect()
}

/// Returns the distinct variants in their order.
fn variants<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut variants: Vec<&str> = Vec::new();
    for name in names {
        if !variants.contains(&name) {
            variants.push(name);
        }
    }
    variants
}

fn rates((nth, named, load): &NumberedLoad, all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let variants = variants(load.points.iter().map(|point| point.variant.as_str()));
    let counts: Vec<f64> = load.points.iter().map(|point| point.workers as f64).collect();
    if counts.iter().all(|&count| Some(&count) == counts.first()) {
        return None;
    }
    let series: Vec<Series> = variants
        .iter()
        .enumerate()
        .map(|(index, variant)| {
            let points = load.points.iter().filter(|point| point.variant == *variant);
            let points = points.map(at).filter(|point| point.y.is_finite() && point.y > 0.0).collect();
            Series { colour: index, mark: Mark::of_series(index), style: Style::Measured, points }
        })
        .collect();
    let values: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.y).collect();
    let (id, title) = (
        format!("chart-contention-{nth}"),
        format!(
            "{}: millions of {} per second over the number of {}",
            load.load, load.unit, load.worker_noun
        ),
    );
    let drawing = LineChart {
        id: &id,
        label: &title,
        x_name: &load.worker_noun,
        y_name: "millions per second",
        x: Axis::log2_at(&counts, &counts, MIN_LABEL_DISTANCE),
        y: Axis::log2(values),
        vertical_line: None,
        series,
    };
    let legend = variants.iter().enumerate().map(|(index, variant)| {
        (legend_sample(Style::Measured, Mark::of_series(index), index), (*variant).to_owned())
    });
    Some(ChartFigure {
        title: titled(&title, named, all),
        caption: "Both axes double with each step. A rising line gains from more CPUs; a falling line loses more to \
                  contention than it gains. Bars are 95 % intervals."
            .to_owned(),
        legend: legend.collect(),
        drawing: drawing.draw(),
    })
}

fn at(point: &ContentionPoint) -> Point {
    let rate = point.rate.map(|rate| rate / 1e6);
    Point { x: point.workers as f64, y: rate.median, interval: rate.interval, label: String::new() }
}

fn distances((nth, named, load): &NumberedLoad, all: &[NamedEvaluation]) -> Option<ChartFigure> {
    if load.pairs.is_empty() {
        return None;
    }
    let variants = variants(load.pairs.iter().map(|pair| pair.variant.as_str()));
    let group = |(index, variant): (usize, &&str)| {
        let of = load.pairs.iter().filter(|pair| pair.variant == **variant);
        Group { name: (*variant).to_owned(), bars: of.map(|pair| bar(pair, index)).collect() }
    };
    let (id, title) = (
        format!("chart-distance-{nth}"),
        format!("{}: {} per second of two tasks, by what their CPUs share", load.load, load.unit),
    );
    let chart = BarChart {
        id: &id,
        label: &title,
        axis_name: "millions per second",
        groups: variants.iter().enumerate().map(group).collect(),
        reference: None,
    };
    Some(ChartFigure {
        title: titled(&title, named, all),
        caption: "Longer is faster. The text beside a bar is the rate. Whiskers are 95 % intervals."
            .to_owned(),
        legend: Vec::new(),
        drawing: chart.draw(),
    })
}

/// Returns a name that fits beside a bar.
fn shown(pair: &ContentionPair) -> String {
    if pair.distance == Some(TopologyDistance::Llc) {
        "same last cache".to_owned()
    } else {
        pair.title().to_owned()
    }
}

fn bar(pair: &ContentionPair, colour: usize) -> Bar {
    let rate = pair.rate.map(|rate| rate / 1e6);
    Bar {
        name: shown(pair),
        value: if rate.median.is_finite() { rate.median } else { 0.0 },
        interval: rate.interval,
        words: format!("{} ({})", number(rate.median), interval(&rate, number)),
        colour,
    }
}
