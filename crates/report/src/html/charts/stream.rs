//! Bandwidth by number of workers, and maps from the CPUs of each node to the memory of each node.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{MemoryBandwidth, NodeRoute, StreamPoint};
use manycore_render::chart::{Axis, HeatMap, HeatRow, LineChart, Mark, Point, Series, Style, legend_sample};
use manycore_stats::mean;

/// Minimum distance between the labels of the horizontal axis, as a share of the axis.
const MIN_LABEL_DISTANCE: f64 = 0.075;

/// Maximum number of nodes whose cells have space for text.
const MAX_NODES_WITH_TEXT: usize = 10;

/// One of the maps.
struct NodeMap {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&NodeRoute) -> Option<f64>,
    show: fn(f64) -> String,
}

const MAPS: [NodeMap; 3] = [
    NodeMap {
        id: "chart-stream-nodes",
        title: "Read bandwidth from all CPUs of a node to the memory of a node, in GB/s",
        unit: "GB/s",
        value: |route| Some(route.rate?.median / 1e9),
        show: |rate| if rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") },
    },
    NodeMap {
        id: "chart-stream-idle",
        title: "Latency of a load from the memory of a node, idle, in ns",
        unit: "ns",
        value: |route| Some(route.idle_ns?.median),
        show: |time| format!("{time:.0}"),
    },
    NodeMap {
        id: "chart-stream-loaded",
        title: "Latency of such a load while the node's other CPUs read from that memory, in ns",
        unit: "ns",
        value: |route| Some(route.loaded_ns?.median),
        show: |time| format!("{time:.0}"),
    },
];

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter()
        .enumerate()
        .filter_map(|(index, named)| Some((index + 1, named, named.evaluation.stream.as_ref()?)))
        .flat_map(|(number, named, streaming)| {
            let maps = MAPS.iter().filter_map(move |figure| {
                Some(ChartFigure {
                    title: titled(figure.title, named, all),
                    caption: "Rows are the nodes of the CPUs, columns the nodes of the memory. The stronger the colour, \
                              the larger the figure. On the right is the mean of the row."
                        .to_owned(),
                    legend: Vec::new(),
                    drawing: map(figure, &format!("{}-{number}", figure.id), streaming)?,
                })
            });
            rates(number, named, streaming, all).into_iter().chain(maps)
        })
        .collect()
}

fn rates(
    number: usize,
    named: &NamedEvaluation,
    streaming: &MemoryBandwidth,
    all: &[NamedEvaluation],
) -> Option<ChartFigure> {
    let (titles, series): (Vec<String>, Vec<Series>) = series(streaming).into_iter().unzip();
    let counts: Vec<f64> = streaming.points.iter().map(|point| point.workers as f64).collect();
    let values: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.y).collect();
    if values.is_empty() {
        return None;
    }
    let title = "GB/s over the number of workers of a node";
    let drawing = LineChart {
        id: &format!("chart-stream-{number}"),
        label: title,
        x_name: "workers",
        y_name: "GB/s",
        x: Axis::log2_at(&counts, &counts, MIN_LABEL_DISTANCE),
        y: Axis::log2(values),
        vertical_line: None,
        series,
    };
    let sign = |index| legend_sample(Style::Measured, Mark::of_series(index), index);
    Some(ChartFigure {
        title: titled(title, named, all),
        caption: "Both axes double with each step. Where a line is level, the memory is saturated, and further workers \
                  only wait. Bars are 95 % intervals."
            .to_owned(),
        legend: titles.iter().enumerate().map(|(index, title)| (sign(index), title.clone())).collect(),
        drawing: drawing.draw(),
    })
}

/// Returns the lines with their titles. A single number of workers is in the table and makes no line.
fn series(streaming: &MemoryBandwidth) -> Vec<(String, Series)> {
    let mut titles: Vec<String> = streaming.points.iter().map(StreamPoint::title).collect();
    titles.dedup();
    let of = |title: &str| {
        streaming.points.iter().filter(|point| point.title() == title).collect::<Vec<&StreamPoint>>()
    };
    titles.retain(|title| of(title).len() > 1);
    let line = |(index, title): (usize, String)| {
        let points = of(&title).into_iter().map(at).filter(|point| point.y.is_finite() && point.y > 0.0);
        let points = points.collect();
        (title, Series { colour: index, mark: Mark::of_series(index), style: Style::Measured, points })
    };
    titles.into_iter().enumerate().map(line).collect()
}

fn at(point: &StreamPoint) -> Point {
    let rate = point.rate.map(|rate| rate / 1e9);
    Point { x: point.workers as f64, y: rate.median, interval: rate.interval, label: String::new() }
}

fn map(figure: &NodeMap, id: &str, streaming: &MemoryBandwidth) -> Option<maud::Markup> {
    let [from, to] = streaming.nodes();
    let value = |from: u32, to: u32| {
        streaming.route(from, to).and_then(figure.value).filter(|value| value.is_finite())
    };
    let values: Vec<f64> =
        from.iter().flat_map(|&from| to.iter().filter_map(move |&to| value(from, to))).collect();
    // A single route is a figure, and no map.
    let high = values.iter().copied().reduce(f64::max).filter(|_| values.len() > 1)?;
    // The scale begins at 0, so that colours are proportional to values.
    let share = |value: Option<f64>| value.map_or(0.0, |value| if high > 0.0 { value / high } else { 0.0 });
    let row = |&from: &u32| {
        let cells: Vec<Option<f64>> = to.iter().map(|&to| value(from, to)).collect();
        let known: Vec<f64> = cells.iter().copied().flatten().collect();
        let words = cells.iter().map(|cell| cell.map(figure.show).unwrap_or_default());
        HeatRow {
            name: format!("node {from}"),
            words: if to.len() <= MAX_NODES_WITH_TEXT { words.collect() } else { Vec::new() },
            note: mean(&known).map(figure.show).unwrap_or_default(),
            lines: vec![cells.into_iter().map(share).collect()],
        }
    };
    let named = |(column, node): (usize, &u32)| (column, node.to_string());
    let every = to.len().div_ceil(2 * MAX_NODES_WITH_TEXT);
    let map = HeatMap {
        id,
        heads: ("CPUs of", "mean"),
        label: figure.title,
        cell_height: if to.len() <= MAX_NODES_WITH_TEXT { 26.0 } else { 14.0 },
        space: 0.0,
        columns: to.iter().enumerate().step_by(every).map(named).collect(),
        gap_before: None,
        width: to.len(),
        blocks: from.iter().map(row).collect(),
        ends: ("0".to_owned(), format!("{} {}", (figure.show)(high), figure.unit)),
    };
    Some(map.draw())
}
