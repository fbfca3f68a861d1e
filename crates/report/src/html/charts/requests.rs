//! The latency of the requests of each variant, by how few requests took longer.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
    sections::requests::{kinds, title},
};
use manycore_analysis::RequestDistribution;
use manycore_render::chart::{Axis, LineChart, Mark, Point, Series, Style, legend_sample};
use maud::Markup;

/// Least distance between two labels of an axis, as part of its length.
const MIN_LABEL_DISTANCE: f64 = 0.06;

/// Returns a chart for each kind of requests of each record.
pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let mut figures = Vec::new();
    for (number, named) in all.iter().enumerate() {
        for (index, of_kind) in kinds(&named.evaluation.requests).enumerate() {
            let id = format!("chart-requests-{}-{}", number + 1, index + 1);
            figures.extend(figure(&id, of_kind, named, all));
        }
    }
    figures
}

fn figure(
    id: &str,
    of_kind: &[RequestDistribution],
    named: &NamedEvaluation,
    all: &[NamedEvaluation],
) -> Option<ChartFigure> {
    let series: Vec<Series> = of_kind.iter().enumerate().map(|(index, one)| line(index, one)).collect();
    let title = title(of_kind);
    let unit = of_kind.first().map_or("", |one| one.unit.as_str());
    let drawing = tail_chart(id, &title, if unit.is_empty() { "latency" } else { unit }, series)?;
    let sign = |index| legend_sample(Style::Measured, Mark::of_series(index), index);
    Some(ChartFigure {
        title: titled(&title, named, all),
        caption: "At 100 is the latency that one request in 100 exceeds: p99. The requests of all runs together, \
                  without intervals; the table above compares the runs. Between the figures that the load generator \
                  prints, the line is interpolated."
            .to_owned(),
        legend: of_kind.iter().enumerate().map(|(index, one)| (sign(index), one.label.clone())).collect(),
        drawing,
    })
}

/// Draws latencies by how few requests take longer. `None` with fewer than two latencies.
pub(super) fn tail_chart(id: &str, title: &str, unit: &str, series: Vec<Series>) -> Option<Markup> {
    let points = || series.iter().flat_map(|series| &series.points);
    let latencies: Vec<f64> = points().map(|point| point.y).filter(|latency| *latency > 0.0).collect();
    let rarities: Vec<f64> = points().map(|point| point.x).collect();
    if latencies.len() < 2 {
        return None;
    }
    let decades: Vec<f64> = std::iter::once(2.0).chain((1..16).map(|power| 10_f64.powi(power))).collect();
    let chart = LineChart {
        id,
        label: title,
        x_name: "one of so many requests takes longer",
        y_name: unit,
        x: Axis::log2_at(&rarities, &decades, MIN_LABEL_DISTANCE),
        y: Axis::log2(latencies),
        vertical_line: None,
        series,
    };
    Some(chart.draw())
}

fn line(index: usize, one: &RequestDistribution) -> Series {
    let point = |&(latency, share): &(f64, f64)| {
        let unit = &one.unit;
        let label = format!("{}: 1 of {:.0} takes longer than {latency:.3} {unit}", one.label, 1.0 / share);
        Point { x: 1.0 / share, y: latency, interval: None, label: label.trim_end().to_owned() }
    };
    Series {
        colour: index,
        mark: Mark::of_series(index),
        style: Style::Measured,
        points: one.curve.iter().map(point).collect(),
    }
}
