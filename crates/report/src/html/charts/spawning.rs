//! Charts of the bytes per light process and of how busy CPUs were over time.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{LightProcessRun, LightProcesses, PUBLISHED_BYTES, PUBLISHED_ON};
use manycore_experiment::spawning::{Purpose, Spin, capacity::plural};
use manycore_render::{
    chart::{Bar, BarChart, Group, HeatMap, HeatRow},
    figure::{grouped, percent},
};
use manycore_stats::mean;
use manycore_text::units::count;

/// Maximum number of CPUs in one line of cells; more CPUs take several lines.
const CPUS_PER_LINE: usize = 64;
/// Maximum number of blocks below each other; several intervals are then averaged into one block.
const MAX_BLOCKS: usize = 40;

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    let maps = all.iter().enumerate().flat_map(|(index, named)| {
        let spins = named.record.light_processes.iter().zip(&named.evaluation.light_processes).enumerate();
        spins.filter_map(move |(place, (spawning, light))| {
            let (run, spin) = spawning.runs.iter().rev().find_map(|run| Some((run, run.spin.as_ref()?)))?;
            let id = format!("chart-spawn-cpus-{}-{}", index + 1, place + 1);
            let what =
                format!("{}: {} {} that compute", light.name, count(run.requested), plural(&light.unit));
            Some(map(&id, &titled(&what, named, all), spin))
        })
    });
    bytes(all).into_iter().chain(maps).collect()
}

fn bytes(all: &[NamedEvaluation]) -> Option<ChartFigure> {
    let of_record = |named: &NamedEvaluation| -> Vec<Bar> {
        named
            .evaluation
            .light_processes
            .iter()
            .enumerate()
            .filter_map(|(index, light)| bar(index, light))
            .collect()
    };
    let groups: Vec<Group> = all
        .iter()
        .map(|named| Group {
            name: if all.len() > 1 { named.name.clone() } else { String::new() },
            bars: of_record(named),
        })
        .filter(|group| !group.bars.is_empty())
        .collect();
    let drawing = BarChart {
        id: "chart-spawn-bytes",
        label: "Bytes per light process",
        axis_name: "bytes each",
        groups,
        reference: Some((PUBLISHED_BYTES, PUBLISHED_ON.to_owned())),
    };
    (!drawing.groups.is_empty()).then(|| ChartFigure {
        title: "Bytes per light process".to_owned(),
        caption: format!(
            "Growth of PSS (RSS if the kernel does not report PSS) at the largest count. The line marks the {} bytes \
             published for {PUBLISHED_ON}.",
            grouped(PUBLISHED_BYTES)
        ),
        legend: Vec::new(),
        drawing: drawing.draw(),
    })
}

fn bar(index: usize, light: &LightProcesses) -> Option<Bar> {
    let counted = light.runs.iter().filter(|run| run.purpose == Purpose::Count);
    let run: &LightProcessRun = counted.max_by_key(|run| run.alive)?;
    let value = run.pss_bytes_each.or(run.rss_bytes_each)?;
    let words = format!("{} at {}", grouped(value), count(run.alive));
    Some(Bar { name: light.name.clone(), value, interval: None, words, colour: index })
}

fn map(id: &str, title: &str, spin: &Spin) -> ChartFigure {
    let (cpus, width) = (spin.cpus.len(), spin.cpus.len().clamp(1, CPUS_PER_LINE));
    let together = spin.busy.len().div_ceil(MAX_BLOCKS).max(1);
    let named = |column: &usize| cpus <= CPUS_PER_LINE && (width <= 16 || column.is_multiple_of(8));
    let blocks: Vec<HeatRow> = spin
        .busy
        .chunks(together)
        .enumerate()
        .map(|(row, part)| block(part, (row * together) as f64 * spin.interval_seconds, width))
        .collect();
    let every = blocks.len().div_ceil(10).max(1);
    let blocks = blocks.into_iter().enumerate().map(|(row, block)| {
        // Labels beside each line would overlap.
        let has_label = row.is_multiple_of(every);
        if has_label { block } else { HeatRow { name: String::new(), note: String::new(), ..block } }
    });
    let map = HeatMap {
        id,
        heads: ("second", "mean"),
        label: "Share of time in which each CPU was busy, over time",
        cell_height: if cpus > CPUS_PER_LINE { 4.0 } else { 9.0 },
        space: if cpus > CPUS_PER_LINE { 4.0 } else { 0.0 },
        columns: (0..width.min(cpus))
            .filter(named)
            .map(|column| (column, spin.cpus[column].to_string()))
            .collect(),
        gap_before: None,
        width,
        blocks: blocks.collect(),
        ends: ("0 %".to_owned(), "100 % busy".to_owned()),
    };
    let lines = if cpus > CPUS_PER_LINE { format!(", {CPUS_PER_LINE} to a line") } else { String::new() };
    ChartFigure {
        title: title.to_owned(),
        caption: format!(
            "Time runs down, CPUs are side by side{lines}. The stronger the colour, the longer the CPU was busy. \
             Equal columns mean an even spread. The right column is the mean over all CPUs."
        ),
        legend: Vec::new(),
        drawing: map.draw(),
    }
}

/// Returns a block with the mean share of each CPU over the intervals of `part`.
fn block(part: &[Vec<f32>], second: f64, width: usize) -> HeatRow {
    let columns = part.first().map_or(0, Vec::len);
    let share = |column: usize| {
        let shares: Vec<f64> =
            part.iter().filter_map(|row| row.get(column)).copied().map(f64::from).collect();
        mean(&shares).unwrap_or(0.0)
    };
    let shares: Vec<f64> = (0..columns).map(share).collect();
    HeatRow {
        name: format!("{second:.1}"),
        note: mean(&shares).map(percent).unwrap_or_default(),
        words: Vec::new(),
        lines: shares.chunks(width).map(<[f64]>::to_vec).collect(),
    }
}
