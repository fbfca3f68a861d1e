//! The map of core-to-core latency: every pair of CPUs, or groups of CPUs on large machines.

mod groups;

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{CoreLatency, PairLatency};
use manycore_render::chart::{Cell, CellBlock, MAX_ITEMS};
use manycore_stats::quantile;
use manycore_topology::{CpuId, CpuSet, Machine, TopologyDistance};
use std::collections::BTreeMap;

/// Minimum ratio between the ends of the scale, so that noise does not look like structure.
const MIN_SCALE_RATIO: f64 = 2.0;

/// Levels between which lines are drawn, with the widths of the lines.
const LINES: [(TopologyDistance, f64); 3] =
    [(TopologyDistance::Node, 1.8), (TopologyDistance::Llc, 1.0), (TopologyDistance::Cluster, 0.4)];

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter()
        .enumerate()
        .filter_map(|(index, named)| {
            let (latency, machine) = (named.evaluation.latency.as_ref()?, &named.record.machine);
            let id = format!("chart-latency-map-{}", index + 1);
            let title = titled("Core-to-core latency in ns", named, all);
            if latency.cpus.len() > MAX_ITEMS {
                return groups::figure(&id, title, latency, machine);
            }
            // A single pair is a figure, and no map.
            let drawing = (latency.pairs.len() > 1).then(|| draw(&id, latency, machine)).flatten()?;
            Some(ChartFigure { title, caption: caption(latency, machine), legend: Vec::new(), drawing })
        })
        .collect()
}

fn caption(latency: &CoreLatency, machine: &Machine) -> String {
    format!(
        "Each cell is a pair of CPUs, in the order of the topology{}. {SCALE} Pointing at a pair shows its value.{}",
        separated(machine, &order(machine, &latency.cpus)),
        missing(latency)
    )
}

/// How to read the colours.
const SCALE: &str = "The scale is logarithmic; values beyond its ends have the colour of the end.";

fn missing(latency: &CoreLatency) -> &'static str {
    if latency.pairs.len() < latency.possible_pairs {
        " Cells of pairs that were not measured are empty."
    } else {
        ""
    }
}

/// Says what the lines separate: `; lines separate nodes and last-level caches`.
fn separated(machine: &Machine, order: &[CpuId]) -> String {
    let drawn: Vec<&str> = LINES
        .iter()
        .filter(|(level, _)| !borders(machine, order, *level).is_empty())
        .map(|(level, _)| match level {
            TopologyDistance::Node => "nodes",
            TopologyDistance::Llc => "last-level caches",
            _ => "clusters",
        })
        .collect();
    if drawn.is_empty() { String::new() } else { format!("; lines separate {}", drawn.join(", ")) }
}

/// Returns the CPUs sorted by node, last-level cache, cluster and core, so that CPUs that share something
/// are adjacent.
fn order(machine: &Machine, cpus: &CpuSet) -> Vec<CpuId> {
    let levels =
        [TopologyDistance::Node, TopologyDistance::Llc, TopologyDistance::Cluster, TopologyDistance::Core];
    let places = levels.map(|level| groups_of(machine, cpus, level));
    let mut order: Vec<CpuId> = cpus.iter().collect();
    order.sort_by_key(|cpu| (places.each_ref().map(|place| place.get(cpu).copied()), *cpu));
    order
}

/// Returns the group of each CPU.
fn groups_of(machine: &Machine, cpus: &CpuSet, level: TopologyDistance) -> BTreeMap<CpuId, usize> {
    let groups = level.groups(machine, cpus);
    let numbered = groups.iter().enumerate();
    numbered.flat_map(|(index, group)| group.iter().map(move |cpu| (cpu, index))).collect()
}

/// Returns the positions before which another group of `level` begins. Empty where groups are single CPUs
/// or cores.
fn borders(machine: &Machine, order: &[CpuId], level: TopologyDistance) -> Vec<usize> {
    let cpus: CpuSet = order.iter().copied().collect();
    let of = groups_of(machine, &cpus, level);
    let borders: Vec<usize> =
        (1..order.len()).filter(|&at| of.get(&order[at - 1]) != of.get(&order[at])).collect();
    let cores = TopologyDistance::Core.groups(machine, &cpus).len();
    if borders.len() + 1 >= cores { Vec::new() } else { borders }
}

/// Returns the lines between groups of `order`, with their widths.
fn lines(machine: &Machine, order: &[CpuId]) -> Vec<(usize, f64)> {
    let mut lines: Vec<(usize, f64)> = LINES
        .iter()
        .flat_map(|&(level, width)| borders(machine, order, level).into_iter().map(move |at| (at, width)))
        .collect();
    // Where several levels have a common border, the widest line is drawn.
    lines.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    lines.dedup_by_key(|line| line.0);
    lines
}

/// The colours of latencies: a logarithmic scale.
struct ColourScale {
    low: f64,
    high: f64,
}

impl ColourScale {
    /// Returns the scale of all measured pairs. `None` where there are none.
    fn of(latency: &CoreLatency) -> Option<Self> {
        let figures: Vec<f64> = latency.pairs.iter().map(|pair| pair.latency_ns).collect();
        // Single outliers would make all other cells look alike. Few pairs that share more than others are not
        // outliers.
        let medians = || latency.distances.iter().map(|at| at.median_ns);
        let low = medians().fold(quantile(&figures, 0.02)?, f64::min);
        let high = medians().fold(quantile(&figures, 0.98)?, f64::max);
        let more = (MIN_SCALE_RATIO * low / high).max(1.0).sqrt();
        Some(Self { low: low / more, high: high * more })
    }

    fn share(&self, ns: f64) -> f64 {
        (ns / self.low).ln() / (self.high / self.low).ln()
    }

    fn words(&self) -> [String; 3] {
        [self.low, (self.low * self.high).sqrt(), self.high].map(|ns| format!("{} ns", short(ns)))
    }
}

fn draw(id: &str, latency: &CoreLatency, machine: &Machine) -> Option<maud::Markup> {
    let order = order(machine, &latency.cpus);
    let place: BTreeMap<CpuId, usize> = order.iter().enumerate().map(|(at, &cpu)| (cpu, at)).collect();
    let scale = ColourScale::of(latency)?;
    let cell = |pair: &PairLatency| {
        let (a, b) = (*place.get(&pair.a)?, *place.get(&pair.b)?);
        Some(cell(&scale, pair, a.max(b), a.min(b)))
    };
    let names: Vec<String> = order.iter().map(ToString::to_string).collect();
    let lines = lines(machine, &order);
    let block = CellBlock {
        id,
        label: "Core-to-core latency of all pairs of CPUs",
        rows: names.clone(),
        columns: names,
        cells: latency.pairs.iter().filter_map(cell).collect(),
        is_symmetric: true,
        row_lines: lines.clone(),
        column_lines: lines,
        links: Vec::new(),
        scale: scale.words(),
    };
    Some(block.draw())
}

/// Returns the cell of a pair of CPUs.
fn cell(scale: &ColourScale, pair: &PairLatency, row: usize, column: usize) -> Cell {
    Cell {
        row,
        column,
        share: scale.share(pair.latency_ns),
        words: short(pair.latency_ns),
        title: format!("CPUs {} and {}: {} ns", pair.a, pair.b, short(pair.latency_ns)),
    }
}

/// Formats nanoseconds with few digits.
fn short(ns: f64) -> String {
    if ns < 9.95 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}
