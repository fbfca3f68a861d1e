//! The map of core-to-core latency.

use crate::{
    NamedEvaluation,
    html::charts::{ChartFigure, titled},
};
use manycore_analysis::{CoreLatency, PairLatency};
use manycore_render::chart::{Cell, PairMatrix, TITLES, TooltipArea};
use manycore_stats::{median, quantile};
use manycore_topology::{CpuId, CpuSet, Machine, TopologyDistance};
use std::collections::BTreeMap;

/// Maximum number of fields in a row of a large map.
const MAX_FIELDS: usize = 32;

/// Minimum ratio between the ends of the scale, so that noise does not look like structure.
const MIN_SCALE_RATIO: f64 = 2.0;

/// Levels between which lines are drawn, with the widths of the lines.
const LINES: [(TopologyDistance, f64); 3] =
    [(TopologyDistance::Node, 1.8), (TopologyDistance::Llc, 1.0), (TopologyDistance::Cluster, 0.4)];

pub(super) fn figures(all: &[NamedEvaluation]) -> Vec<ChartFigure> {
    all.iter()
        .enumerate()
        .filter_map(|(index, named)| {
            let latency = named.evaluation.latency.as_ref()?;
            Some(ChartFigure {
                title: titled("Core-to-core latency in ns", named, all),
                caption: caption(latency, &named.record.machine),
                legend: Vec::new(),
                drawing: draw(&format!("chart-latency-map-{}", index + 1), latency, &named.record.machine)?,
            })
        })
        .collect()
}

fn caption(latency: &CoreLatency, machine: &Machine) -> String {
    let drawn: Vec<&str> = LINES
        .iter()
        .filter(|(level, _)| !borders(machine, &order(machine, &latency.cpus), *level).is_empty())
        .map(|(level, _)| match level {
            TopologyDistance::Node => "nodes",
            TopologyDistance::Llc => "last-level caches",
            _ => "clusters",
        })
        .collect();
    let lines =
        if drawn.is_empty() { String::new() } else { format!("; lines separate {}", drawn.join(", ")) };
    let pointer = if latency.cpus.len() > TITLES { "a field" } else { "a pair" };
    let missing = if latency.pairs.len() < latency.possible_pairs {
        " Cells of pairs that were not measured are empty."
    } else {
        ""
    };
    format!(
        "Each cell is a pair of CPUs, in the order of the topology{lines}. The scale is logarithmic; values beyond its \
         ends have the colour of the end. Pointing at {pointer} shows its value.{missing}"
    )
}

/// Returns the CPUs sorted by node, last-level cache, cluster and core, so that CPUs that share something
/// are adjacent.
fn order(machine: &Machine, cpus: &CpuSet) -> Vec<CpuId> {
    let levels =
        [TopologyDistance::Node, TopologyDistance::Llc, TopologyDistance::Cluster, TopologyDistance::Core];
    let places = levels.map(|level| groups(machine, cpus, level));
    let mut order: Vec<CpuId> = cpus.iter().collect();
    order.sort_by_key(|cpu| (places.each_ref().map(|place| place.get(cpu).copied()), *cpu));
    order
}

/// Returns the group of each CPU.
fn groups(machine: &Machine, cpus: &CpuSet, level: TopologyDistance) -> BTreeMap<CpuId, usize> {
    let groups = level.groups(machine, cpus);
    let numbered = groups.iter().enumerate();
    numbered.flat_map(|(index, group)| group.iter().map(move |cpu| (cpu, index))).collect()
}

/// Returns the positions before which another group of `level` begins. Empty where groups are single CPUs
/// or cores.
fn borders(machine: &Machine, order: &[CpuId], level: TopologyDistance) -> Vec<usize> {
    let cpus: CpuSet = order.iter().copied().collect();
    let of = groups(machine, &cpus, level);
    let borders: Vec<usize> =
        (1..order.len()).filter(|&at| of.get(&order[at - 1]) != of.get(&order[at])).collect();
    let cores = TopologyDistance::Core.groups(machine, &cpus).len();
    if borders.len() + 1 >= cores { Vec::new() } else { borders }
}

fn draw(id: &str, latency: &CoreLatency, machine: &Machine) -> Option<maud::Markup> {
    let order = order(machine, &latency.cpus);
    let place: BTreeMap<CpuId, usize> = order.iter().enumerate().map(|(at, &cpu)| (cpu, at)).collect();
    let figures: Vec<f64> = latency.pairs.iter().map(|pair| pair.latency_ns).collect();
    // Single outliers would make all other cells look alike. Few pairs that share more than others are not
    // outliers.
    let medians = || latency.distances.iter().map(|at| at.median_ns);
    let low = medians().fold(quantile(&figures, 0.02)?, f64::min);
    let high = medians().fold(quantile(&figures, 0.98)?, f64::max);
    let (low, high) = widened(low, high);
    let cell = |pair: &PairLatency| {
        let (a, b) = (*place.get(&pair.a)?, *place.get(&pair.b)?);
        Some(Cell {
            row: a.max(b),
            column: a.min(b),
            share: (pair.latency_ns / low).ln() / (high / low).ln(),
            words: short(pair.latency_ns),
            title: format!("CPUs {} and {}: {} ns", pair.a, pair.b, short(pair.latency_ns)),
        })
    };
    let mut lines: Vec<(usize, f64)> = LINES
        .iter()
        .flat_map(|&(level, width)| borders(machine, &order, level).into_iter().map(move |at| (at, width)))
        .collect();
    // Where several levels have a common border, the widest line is drawn.
    lines.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    lines.dedup_by_key(|line| line.0);
    let grid = PairMatrix {
        id,
        label: "Core-to-core latency of all pairs of CPUs",
        names: order.iter().map(ToString::to_string).collect(),
        cells: latency.pairs.iter().filter_map(cell).collect(),
        lines,
        fields: if order.len() > TITLES { fields(machine, latency, &order, &place) } else { Vec::new() },
        scale: [low, (low * high).sqrt(), high].map(|ns| format!("{} ns", short(ns))),
    };
    Some(grid.draw())
}

/// Formats nanoseconds with few digits.
fn short(ns: f64) -> String {
    if ns < 9.95 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

fn widened(low: f64, high: f64) -> (f64, f64) {
    let more = (MIN_SCALE_RATIO * low / high).max(1.0).sqrt();
    (low / more, high * more)
}

/// Returns the fields of a large map: the pairs between two groups of the innermost level that has few
/// enough groups.
fn fields(
    machine: &Machine,
    latency: &CoreLatency,
    order: &[CpuId],
    place: &BTreeMap<CpuId, usize>,
) -> Vec<TooltipArea> {
    let levels =
        [TopologyDistance::Core, TopologyDistance::Cluster, TopologyDistance::Llc, TopologyDistance::Node];
    let mut starts = levels.map(|level| borders(machine, order, level)).into_iter();
    let starts = starts.find(|starts| !starts.is_empty() && starts.len() < MAX_FIELDS);
    // A machine without known groups is divided evenly.
    let even =
        || (1..order.len()).filter(|at| at.is_multiple_of(order.len().div_ceil(MAX_FIELDS / 2))).collect();
    let edges: Vec<usize> = [0].into_iter().chain(starts.unwrap_or_else(even)).chain([order.len()]).collect();
    let field_of = |cpu: CpuId| place.get(&cpu).map(|&at| edges.partition_point(|&edge| edge <= at) - 1);
    let mut figures: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for pair in &latency.pairs {
        if let Some((a, b)) = field_of(pair.a).zip(field_of(pair.b)) {
            figures.entry((a.max(b), a.min(b))).or_default().push(pair.latency_ns);
        }
    }
    let cpus = |field: usize| order[edges[field]..edges[field + 1]].iter().copied().collect::<CpuSet>();
    let words = |a: usize, b: usize, figures: &[f64]| {
        let at = |q: f64| short(quantile(figures, q).unwrap_or(0.0));
        let of = short(median(figures).unwrap_or(0.0));
        format!(
            "CPUs {} and {}: {of} ns ({} to {}), {} pairs",
            cpus(b),
            cpus(a),
            at(0.0),
            at(1.0),
            figures.len()
        )
    };
    figures
        .iter()
        .map(|(&(a, b), figures)| TooltipArea {
            rows: (edges[a], edges[a + 1]),
            columns: (edges[b], edges[b + 1]),
            title: words(a, b, figures),
        })
        .collect()
}
