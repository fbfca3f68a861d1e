//! Bars of parallel modes and of matrix products.

use crate::{NamedEvaluation, html::charts::ChartFigure, sections::modes::short};
use manycore_analysis::{MatrixPoint, ParallelMode, ParallelModes};
use manycore_render::{
    chart::{Bar, BarChart, Group},
    figure::{factor, interval, number},
};
use manycore_stats::Estimate;

pub(super) fn modes(all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let groups =
        if let [one] = all { one.evaluation.modes.iter().map(of_modes).collect() } else { by_mode(all) };
    let groups: Vec<Group> = groups.into_iter().filter(|group: &Group| !group.bars.is_empty()).collect();
    if groups.is_empty() {
        return None;
    }
    let chart = BarChart {
        id: "chart-modes",
        label: "Speed-up of threads and processes over serial",
        axis_name: "speed-up over serial",
        groups,
        reference: Some((1.0, "serial = 1".to_owned())),
    };
    Some(ChartFigure {
        title: "Speed-up of threads and processes over serial".to_owned(),
        caption:
            "Longer is faster. The text beside a bar is the speed-up and the seconds for all tasks. Whiskers are \
                  95 % intervals."
                .to_owned(),
        legend: Vec::new(),
        drawing: chart.draw(),
    })
}

/// Returns one group for each program, with one bar for each mode.
fn of_modes(modes: &ParallelModes) -> Group {
    let parallel = modes.modes.iter().filter(|mode| mode.name != "serial");
    let bars = parallel.enumerate().map(|(index, mode)| bar(mode.name.clone(), mode, index)).collect();
    let serial = modes.modes.iter().find(|mode| mode.name == "serial");
    let seconds =
        serial.map(|mode| format!(" (serial: {} s)", number(mode.seconds.median))).unwrap_or_default();
    Group { name: format!("{}{seconds}", short(modes)), bars }
}

/// Returns one group for each program and mode, with one bar for each record.
fn by_mode(all: &[NamedEvaluation]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, named) in all.iter().enumerate() {
        for modes in &named.evaluation.modes {
            for mode in modes.modes.iter().filter(|mode| mode.name != "serial") {
                let name = format!("{}: {}", short(modes), mode.name);
                let bar = bar(named.name.clone(), mode, index);
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.bars.push(bar),
                    None => groups.push(Group { name, bars: vec![bar] }),
                }
            }
        }
    }
    groups
}

fn bar(name: String, mode: &ParallelMode, colour: usize) -> Bar {
    Bar {
        name,
        value: finite(mode.speedup.median),
        interval: mode.speedup.interval,
        words: format!("{}x, {} s", factor(mode.speedup.median), number(mode.seconds.median)),
        colour,
    }
}

pub(super) fn matrix(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let peaks: Vec<f64> = all
        .iter()
        .filter_map(|named| named.evaluation.matrix.first()?.peak_gflops)
        .filter(|peak| *peak > 0.0)
        .collect();
    let peak = match (all, &peaks[..]) {
        ([_], [peak]) => Some((*peak, format!("peak of a core: {}", number(*peak)))),
        _ => None,
    };
    let peak_said = peak.is_some();
    let one = figure(
        all,
        ("chart-matrix-one", "GFLOPS of one process on one core"),
        peak,
        |point| Some(point.one_gflops),
        |point, value| match point.peak_gflops {
            Some(peak) => format!("{} ({:.0} % of peak)", number(value.median), value.median / peak * 100.0),
            None => format!("{} ({})", number(value.median), interval(value, number)),
        },
        if peak_said {
            "The line is the maximum of the core's SIMD units at the measured clock. Whiskers are 95 % intervals."
        } else {
            "Longer is faster. Whiskers are 95 % intervals."
        },
    );
    let every = figure(
        all,
        ("chart-matrix-all", "GFLOPS of one process on each core at once"),
        None,
        |point| point.all_gflops,
        |point, value| {
            let speedup = point.speedup.map(|speedup| format!(" ({}x one)", factor(speedup.median)));
            format!("{}{}", number(value.median), speedup.unwrap_or_default())
        },
        "Total of all processes; in brackets the speed-up over one process alone. Whiskers are 95 % intervals.",
    );
    one.into_iter().chain(every).collect()
}

fn figure(
    all: &[NamedEvaluation],
    (id, title): (&str, &str),
    reference: Option<(f64, String)>,
    estimate: impl Fn(&MatrixPoint) -> Option<Estimate>,
    words: impl Fn(&MatrixPoint, &Estimate) -> String,
    caption: &str,
) -> Option<ChartFigure> {
    let several = all.len() > 1;
    let mut sizes: Vec<usize> =
        all.iter().flat_map(|named| &named.evaluation.matrix).map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let bars_of = |size: usize| -> Vec<Bar> {
        let points = all.iter().enumerate().flat_map(|(index, named)| {
            named.evaluation.matrix.iter().map(move |point| (index, named, point))
        });
        points
            .filter(|(_, _, point)| point.size == size)
            .filter_map(|(index, named, point)| {
                let value = estimate(point)?;
                Some(Bar {
                    name: if several { named.name.clone() } else { format!("n = {size}") },
                    value: finite(value.median),
                    interval: value.interval,
                    words: words(point, &value),
                    colour: index,
                })
            })
            .collect()
    };
    let groups: Vec<Group> = if several {
        sizes.iter().map(|&size| Group { name: format!("n = {size}"), bars: bars_of(size) }).collect()
    } else {
        vec![Group { name: String::new(), bars: sizes.iter().flat_map(|&size| bars_of(size)).collect() }]
    };
    let groups: Vec<Group> = groups.into_iter().filter(|group| !group.bars.is_empty()).collect();
    (!groups.is_empty()).then(|| ChartFigure {
        title: title.to_owned(),
        caption: caption.to_owned(),
        legend: Vec::new(),
        drawing: BarChart { id, label: title, axis_name: "GFLOPS", groups, reference }.draw(),
    })
}

/// Replaces a length that cannot be drawn by 0.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
