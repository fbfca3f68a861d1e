//! Speed-up, efficiency and event times by number of workers.

use crate::{NamedEvaluation, html::charts::ChartFigure};
use manycore_analysis::{EventTimeSummary, Scaling, ScalingPoint};
use manycore_render::chart::{Axis, LineChart, Mark, Point, Series, Style, legend_sample};
use manycore_stats::Estimate;
use manycore_text::units::counted;

/// Number of points with which a fitted law is drawn.
const CURVE_POINTS: usize = 64;

/// Minimum distance between the labels of the horizontal axis, as a share of the axis.
const MIN_LABEL_DISTANCE: f64 = 0.075;

/// Maximum number of points that have space for a label each.
const MAX_LABELS: usize = 12;

/// An evaluated scaling experiment with the index of its record.
type Run<'a> = (usize, &'a NamedEvaluation, &'a Scaling);

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let runs: Vec<Run> = all
        .iter()
        .enumerate()
        .filter_map(|(index, named)| Some((index, named, named.evaluation.scaling.as_ref()?)))
        .collect();
    if runs.is_empty() {
        return Vec::new();
    }
    let mut figures = vec![speedup(&runs), efficiency(&runs)];
    figures.extend(match &runs[..] {
        [(_, _, scaling)] => latency_of_one(scaling),
        _ => latency_of_several(&runs),
    });
    figures
}

fn speedup(runs: &[Run]) -> ChartFigure {
    let points = ideal(runs);
    let ideal = Series { colour: 5, mark: Mark::Circle, style: Style::Ideal, points };
    let mut series = vec![ideal];
    series.extend(measured(runs, |point| point.speedup, short));
    let mut legend = vec![(legend_sample(Style::Ideal, Mark::Circle, 5), "linear".to_owned())];
    legend.extend(names(runs));
    // A law in the colour of its own points would not be visible.
    let colour_of = |index: usize| if runs.len() > 1 { index } else { 1 };
    let fits: Vec<Series> =
        runs.iter().filter_map(|(index, _, scaling)| fit(colour_of(*index), scaling)).collect();
    if !fits.is_empty() {
        let sign = legend_sample(Style::Fit, Mark::Circle, if runs.len() > 1 { 5 } else { 1 });
        legend.push((sign, "Universal Scalability Law".to_owned()));
    }
    series.extend(fits);
    let values = series.iter().flat_map(|series| &series.points).flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.y, point.y));
        [point.y, low, high]
    });
    let y = Axis::log2(values.collect::<Vec<_>>());
    let drawing = lines("chart-speedup", "Speed-up over the number of workers", "speed-up", y, runs, series);
    ChartFigure {
        title: "Speed-up over one worker".to_owned(),
        caption: "Both axes double with each step, so linear is a straight line until the CPUs are full. The further \
                  a point is below it, the more is lost. Bars are 95 % intervals."
            .to_owned(),
        legend,
        drawing,
    }
}

/// Returns the maximum speed-up: each worker adds one until the CPUs are full.
fn ideal(runs: &[Run]) -> Vec<Point> {
    let cpus = runs.iter().map(|(_, _, scaling)| scaling.cpus).max().unwrap_or(1) as f64;
    match runs {
        [(_, _, scaling)] if !scaling.is_cpu_bound() => {
            scaling.points.iter().map(|point| bare(point.workers as f64, point.linear)).collect()
        }
        [(_, _, scaling)] => {
            // Workers beyond the number of CPUs add nothing, even ideally.
            let last = scaling.points.last().map(|last| bare((last.workers as f64).max(cpus), cpus));
            [bare(1.0, 1.0), bare(cpus, cpus)].into_iter().chain(last).collect()
        }
        _ => vec![bare(1.0, 1.0), bare(cpus, cpus)],
    }
}

fn efficiency(runs: &[Run]) -> ChartFigure {
    let series = measured(
        runs,
        |point| point.efficiency.map(|share| share * 100.0),
        |percent| format!("{percent:.0}"),
    );
    let values = series.iter().flat_map(|series| &series.points).flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.y, point.y));
        [low, high]
    });
    let y = Axis::linear(values.collect::<Vec<_>>(), &[0.0, 110.0], 7.0);
    let drawing =
        lines("chart-efficiency", "Efficiency over the number of workers", "% of the ideal", y, runs, series);
    ChartFigure {
        title: "Speed-up as a share of linear, in %".to_owned(),
        caption: "100 % means that each worker, or each CPU once they are full, does the work of one alone. Bars are \
                  95 % intervals."
            .to_owned(),
        legend: if runs.len() > 1 { names(runs) } else { Vec::new() },
        drawing,
    }
}

fn latency_of_one(scaling: &Scaling) -> Option<ChartFigure> {
    type Pick = fn(&EventTimeSummary) -> f64;
    let picks: [(&str, Pick); 4] = [
        ("mean", |times| times.mean_ms),
        ("95th percentile", |times| times.p95_ms),
        ("99th percentile", |times| times.p99_ms),
        ("longest", |times| times.max_ms),
    ];
    let series: Vec<Series> =
        picks.iter().enumerate().map(|(index, (_, pick))| times(index, scaling, *pick, index == 0)).collect();
    let legend = picks.iter().enumerate().map(|(index, (name, _))| {
        (legend_sample(Style::Measured, Mark::of_series(index), index), (*name).to_owned())
    });
    latency(scaling, series, legend.collect(), &[(0, scaling)])
}

fn latency_of_several(runs: &[Run]) -> Option<ChartFigure> {
    let series = runs.iter().map(|(index, _, scaling)| times(*index, scaling, |times| times.p95_ms, false));
    let scalings: Vec<(usize, &Scaling)> =
        runs.iter().map(|(index, _, scaling)| (*index, *scaling)).collect();
    let mut figure = latency(runs[0].2, series.collect(), names(runs), &scalings)?;
    "95th percentile of the time of one event, in ms".clone_into(&mut figure.title);
    Some(figure)
}

fn latency(
    first: &Scaling,
    series: Vec<Series>,
    legend: Vec<(maud::Markup, String)>,
    scalings: &[(usize, &Scaling)],
) -> Option<ChartFigure> {
    let values: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.y).collect();
    if values.is_empty() {
        return None;
    }
    let chart = LineChart {
        id: "chart-latency",
        label: "Time of one event over the number of workers",
        x_name: "workers",
        y_name: "ms",
        x: workers_axis(scalings.iter().map(|(_, scaling)| *scaling)),
        y: Axis::log2(values),
        vertical_line: (scalings.len() == 1).then(|| all_cpus(first)),
        series,
    };
    Some(ChartFigure {
        title: "Time of one event, in ms".to_owned(),
        caption:
            "Both axes double with each step. Workers beyond the number of CPUs take turns, so each event \
                  takes longer although no more work is done."
                .to_owned(),
        legend,
        drawing: chart.draw(),
    })
}

fn times(index: usize, scaling: &Scaling, pick: fn(&EventTimeSummary) -> f64, labels: bool) -> Series {
    let points = scaling.points.iter().filter_map(|point| {
        let y = pick(point.event_times.as_ref()?);
        let label = if labels && scaling.points.len() <= MAX_LABELS { short(y) } else { String::new() };
        (y.is_finite() && y > 0.0).then(|| Point { label, ..bare(point.workers as f64, y) })
    });
    Series { colour: index, mark: Mark::of_series(index), style: Style::Measured, points: points.collect() }
}

/// Returns one series for each run. The points have labels where there is only one run.
fn measured(
    runs: &[Run],
    estimate: impl Fn(&ScalingPoint) -> Estimate,
    show: impl Fn(f64) -> String,
) -> Vec<Series> {
    let series = |(index, _, scaling): &Run| {
        let label = runs.len() == 1 && scaling.points.len() <= MAX_LABELS;
        let points = scaling.points.iter().map(|point| {
            let value = estimate(point);
            Point {
                x: point.workers as f64,
                y: value.median,
                interval: value.interval,
                // One worker is 1 by definition, and its point is beside the ticks of the vertical axis.
                label: if label && point.workers > 1 { show(value.median) } else { String::new() },
            }
        });
        Series {
            colour: *index,
            mark: Mark::of_series(*index),
            style: Style::Measured,
            points: points.filter(|point| point.y.is_finite()).collect(),
        }
    };
    runs.iter().map(series).collect()
}

/// Returns the law relative to the measured rate of one worker, up to the number of CPUs.
fn fit(colour: usize, scaling: &Scaling) -> Option<Series> {
    let law = &scaling.usl.as_ref()?.law;
    let one = scaling.points.first()?.rate.median;
    let points = (0..=CURVE_POINTS).map(|step| {
        let workers = (scaling.cpus as f64).powf(step as f64 / CURVE_POINTS as f64);
        bare(workers, law.rate(workers) / one)
    });
    Some(Series { colour, mark: Mark::Circle, style: Style::Fit, points: points.collect() })
}

/// Formats a value with digits that fit above a point.
fn short(value: f64) -> String {
    match value {
        small if small < 9.995 => format!("{small:.2}"),
        medium if medium < 99.95 => format!("{medium:.1}"),
        large => format!("{large:.0}"),
    }
}

fn bare(x: f64, y: f64) -> Point {
    Point { x, y, interval: None, label: String::new() }
}

fn lines(id: &str, label: &str, y_name: &str, y: Axis, runs: &[Run], series: Vec<Series>) -> maud::Markup {
    let vertical_line = match runs {
        [(_, _, scaling)] => Some(all_cpus(scaling)),
        _ => None,
    };
    let x = workers_axis(runs.iter().map(|(_, _, scaling)| *scaling));
    LineChart { id, label, x_name: "workers", y_name, x, y, vertical_line, series }.draw()
}

fn all_cpus(scaling: &Scaling) -> (f64, String) {
    let cpus = counted(scaling.cpus, "CPU");
    let label =
        if scaling.placed_on.is_some() { format!("{cpus} of the placement") } else { format!("all {cpus}") };
    (scaling.cpus as f64, label)
}

/// Returns an axis with ticks at the measured numbers of workers. The most important ticks are kept where
/// space is short.
fn workers_axis<'a>(scalings: impl Iterator<Item = &'a Scaling> + Clone) -> Axis {
    let points = scalings.clone().flat_map(|scaling| &scaling.points);
    let counts: Vec<f64> = points.map(|point| point.workers as f64).collect();
    let mut wanted = vec![1.0];
    wanted.extend(scalings.flat_map(|scaling| [scaling.cpus as f64, 2.0 * scaling.cpus as f64]));
    wanted.extend(&counts);
    Axis::log2_at(&counts, &wanted, MIN_LABEL_DISTANCE)
}

fn names(runs: &[Run]) -> Vec<(maud::Markup, String)> {
    let several = runs.len() > 1;
    let name = |named: &NamedEvaluation| if several { named.name.clone() } else { "measured".to_owned() };
    runs.iter()
        .map(|(index, named, _)| {
            (legend_sample(Style::Measured, Mark::of_series(*index), *index), name(named))
        })
        .collect()
}
