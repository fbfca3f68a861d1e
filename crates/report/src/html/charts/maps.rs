//! Maps: how busy each CPU was, and the seconds of each process, unpinned and pinned.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{PinningComparison, Scaling, ScalingPoint};
use manycore_render::{
    chart::{HeatMap, HeatRow},
    figure::{number, percent},
};
use manycore_stats::{mean, quantile};

/// Maximum number of CPUs in one line of cells. More CPUs take several lines.
const CPUS_PER_LINE: usize = 64;

/// Maximum number of CPUs whose cells have space for text.
const MAX_CPUS_WITH_TEXT: usize = 8;

pub(super) fn cpus(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter()
        .enumerate()
        .filter_map(|(index, named)| {
            let scaling = named.evaluation.scaling.as_ref()?;
            let drawing = cpu_map(&format!("chart-cpus-{}", index + 1), scaling)?;
            Some(ChartFigure {
                title: titled("How busy each CPU was, by number of workers", named, all),
                caption: cpu_caption(scaling),
                legend: Vec::new(),
                drawing,
            })
        })
        .collect()
}

fn cpu_caption(scaling: &Scaling) -> String {
    let cpus = scaling.points.iter().map(|point| point.cpu_share.len()).max().unwrap_or(0);
    let lines = if cpus > CPUS_PER_LINE {
        format!(", {CPUS_PER_LINE} to a line, in the order of their numbers")
    } else {
        String::new()
    };
    format!(
        "Each cell is a CPU{lines}; the stronger its colour, the busier it was, including steal time. On the \
         right is the mean over all CPUs."
    )
}

fn cpu_map(id: &str, scaling: &Scaling) -> Option<maud::Markup> {
    let first = scaling.points.iter().find(|point| !point.cpu_share.is_empty())?;
    let cpus = first.cpu_share.len();
    let width = cpus.min(CPUS_PER_LINE);
    let numbers: Vec<u32> = first.cpu_share.iter().map(|&(cpu, _)| cpu).collect();
    // Above several lines, the numbers would be those of the first line only.
    let named = |column: &usize| cpus <= CPUS_PER_LINE && (width <= 16 || column.is_multiple_of(8));
    let map = HeatMap {
        id,
        heads: ("workers", "mean"),
        label: "Share of time in which each CPU was busy",
        cell_height: if cpus > CPUS_PER_LINE { 5.0 } else { 20.0 },
        space: if cpus > CPUS_PER_LINE { 5.0 } else { 2.0 },
        columns: (0..width).filter(named).map(|column| (column, numbers[column].to_string())).collect(),
        gap_before: None,
        width,
        blocks: scaling.points.iter().map(|point| block(point, width)).collect(),
        ends: ("0 %".to_owned(), "100 % busy".to_owned()),
    };
    Some(map.draw())
}

fn block(point: &ScalingPoint, width: usize) -> HeatRow {
    let shares: Vec<f64> = point.cpu_share.iter().map(|&(_, share)| share).collect();
    let word = |share: &f64| format!("{:.0} %", share * 100.0);
    HeatRow {
        name: point.workers.to_string(),
        words: if shares.len() <= MAX_CPUS_WITH_TEXT {
            shares.iter().map(word).collect()
        } else {
            Vec::new()
        },
        note: mean(&shares).map(percent).unwrap_or_default(),
        lines: shares.chunks(width.max(1)).map(<[f64]>::to_vec).collect(),
    }
}

pub(super) fn affinity(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter()
        .enumerate()
        .filter_map(|(index, named)| {
            let affinity = named.evaluation.affinity.as_ref()?;
            let drawing = affinity_map(&format!("chart-affinity-{}", index + 1), affinity)?;
            Some(ChartFigure {
                title: titled("Seconds of each process, unpinned (A) and pinned (B)", named, all),
                caption: affinity_caption(affinity),
                legend: Vec::new(),
                drawing,
            })
        })
        .collect()
}

fn affinity_caption(affinity: &PinningComparison) -> String {
    let verdict = affinity.verdict.as_ref().map_or_else(String::new, |verdict| {
        format!(" Rate of pinned over unpinned: {}.", verdict.ratio_in_words())
    });
    format!(
        "Rows are processes, columns are rounds; the stronger the colour, the longer it took. A row that is fainter \
         on one side was faster there.{verdict} Pinned processes were on another CPU {} times.",
        affinity.off_cpu_checks
    )
}

fn affinity_map(id: &str, affinity: &PinningComparison) -> Option<maud::Markup> {
    let (unpinned, pinned) =
        (affinity.unpinned_seconds.first()?.len(), affinity.pinned_seconds.first()?.len());
    let seconds: Vec<f64> =
        affinity.unpinned_seconds.iter().chain(&affinity.pinned_seconds).flatten().copied().collect();
    // Single outliers would make all other cells look alike.
    let (low, high) = (quantile(&seconds, 0.02)?, quantile(&seconds, 0.98)?);
    let share = |seconds: &f64| if high > low { (seconds - low) / (high - low) } else { 0.5 };
    let processes = affinity.unpinned_seconds.iter().zip(&affinity.pinned_seconds).enumerate();
    let every = if unpinned + pinned > 24 { 5 } else { 2 };
    let name = |letter: char, offset: usize, count: usize| {
        let shown = (0..count).filter(move |round| round % every == 0);
        shown.map(move |round| (offset + round, format!("{letter}{}", round + 1)))
    };
    let map = HeatMap {
        id,
        heads: ("", ""),
        label: "Seconds of each process in each unpinned and pinned round",
        cell_height: if affinity.unpinned_seconds.len() > 40 { 7.0 } else { 14.0 },
        space: 0.0,
        columns: name('A', 0, unpinned).chain(name('B', unpinned, pinned)).collect(),
        gap_before: Some(unpinned),
        width: unpinned + pinned,
        blocks: processes
            .map(|(process, (unpinned, pinned))| HeatRow {
                name: if process % 2 == 0 { format!("P{}", process + 1) } else { String::new() },
                lines: vec![unpinned.iter().chain(pinned).map(share).collect()],
                words: Vec::new(),
                note: String::new(),
            })
            .collect(),
        ends: (format!("{} s", number(low)), format!("{} s", number(high))),
    };
    Some(map.draw())
}
