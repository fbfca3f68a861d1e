//! The latency map of a large machine: medians between groups of CPUs, and the single CPUs of each pair of parts of the
//! machine, which a link of the page opens.

use super::{ColourScale, SCALE, borders, cell, lines, missing, order, separated, short};
use crate::html::charts::ChartFigure;
use manycore_analysis::{CoreLatency, PairLatency};
use manycore_render::chart::{BlockLink, Cell, CellBlock};
use manycore_stats::{median, quantile};
use manycore_topology::{CpuId, CpuSet, Machine, TopologyDistance};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of groups in the overview. More would be too small to read.
const MAX_GROUPS: usize = 40;

/// Maximum number of parts between which the map of single CPUs is shown: the page has one map for each pair of them.
const MAX_PARTS: usize = 8;

/// Consecutive groups of CPUs.
struct Partition {
    /// What the groups are: `last-level caches`.
    name: &'static str,
    /// Position of the first CPU of each group, and the number of CPUs.
    edges: Vec<usize>,
}

impl Partition {
    /// Returns the groups of the first of `levels` that has 2 to `most` groups, or even ones.
    fn new(machine: &Machine, order: &[CpuId], levels: &[TopologyDistance], most: usize) -> Self {
        let whole =
            |starts: Vec<usize>| [0].into_iter().chain(starts).chain([order.len()]).collect::<Vec<usize>>();
        let fitting = levels.iter().find_map(|&level| {
            let starts = borders(machine, order, level);
            (!starts.is_empty() && starts.len() < most).then_some((level, starts))
        });
        match fitting {
            Some((level, starts)) => Self { name: name(level), edges: whole(starts) },
            None => {
                let size = order.len().div_ceil(most).max(1);
                let starts = (1..order.len()).filter(|at| at.is_multiple_of(size)).collect();
                Self { name: "groups of CPUs", edges: whole(starts) }
            }
        }
    }

    fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the group at a position in the order of CPUs.
    fn group_at(&self, place: usize) -> usize {
        self.edges.partition_point(|&edge| edge <= place) - 1
    }

    fn cpus<'a>(&self, group: usize, order: &'a [CpuId]) -> &'a [CpuId] {
        &order[self.edges[group]..self.edges[group + 1]]
    }
}

fn name(level: TopologyDistance) -> &'static str {
    match level {
        TopologyDistance::Core => "cores",
        TopologyDistance::Cluster => "clusters",
        TopologyDistance::Llc => "last-level caches",
        TopologyDistance::Node | TopologyDistance::Remote => "nodes",
    }
}

/// The measured pairs of a machine, by position of their CPUs.
struct Map<'a> {
    id: &'a str,
    latency: &'a CoreLatency,
    machine: &'a Machine,
    order: Vec<CpuId>,
    place: BTreeMap<CpuId, usize>,
    scale: ColourScale,
    groups: Partition,
    parts: Partition,
}

pub(super) fn figure(
    id: &str,
    title: String,
    latency: &CoreLatency,
    machine: &Machine,
) -> Option<ChartFigure> {
    let order = order(machine, &latency.cpus);
    let finest_first = [TopologyDistance::Cluster, TopologyDistance::Llc, TopologyDistance::Node];
    let widest_first = [TopologyDistance::Node, TopologyDistance::Llc];
    let map = Map {
        place: order.iter().enumerate().map(|(at, &cpu)| (cpu, at)).collect(),
        scale: ColourScale::of(latency)?,
        groups: Partition::new(machine, &order, &finest_first, MAX_GROUPS),
        parts: Partition::new(machine, &order, &widest_first, MAX_PARTS),
        id,
        latency,
        machine,
        order,
    };
    Some(ChartFigure { title, caption: map.caption(), legend: Vec::new(), drawing: map.draw() })
}

impl Map<'_> {
    fn caption(&self) -> String {
        let firsts: Vec<CpuId> = self.firsts();
        format!(
            "Each cell is the median of the measured pairs between two {}{}; a name is that of the first CPU. {SCALE} \
             A pair of {} opens the map of its single CPUs.{}",
            self.groups.name,
            separated(self.machine, &firsts),
            self.parts.name,
            missing(self.latency)
        )
    }

    /// Returns the first CPU of each group.
    fn firsts(&self) -> Vec<CpuId> {
        (0..self.groups.len())
            .filter_map(|group| self.groups.cpus(group, &self.order).first().copied())
            .collect()
    }

    fn draw(&self) -> Markup {
        let zooms: Vec<(usize, usize, Markup)> = (0..self.parts.len())
            .flat_map(|a| (0..=a).map(move |b| (a, b)))
            .filter_map(|(a, b)| Some((a, b, self.zoom(a, b)?)))
            .collect();
        let shown: BTreeSet<(usize, usize)> = zooms.iter().map(|(a, b, _)| (*a, *b)).collect();
        html! {
            div.zooms {
                @for (a, b, drawing) in &zooms {
                    div.zoom id=(self.target(*a, *b)) {
                        p { strong { (self.part_name(*b, *a)) } " " a href={ "#" (self.id) } { "back to all groups" } }
                        (drawing)
                    }
                }
                div.overview {
                    (self.overview(&shown))
                    @if !zooms.is_empty() {
                        p.zoom-links {
                            "Single CPUs: "
                            @for (a, b, _) in &zooms {
                                a href={ "#" (self.target(*a, *b)) } { (self.part_name(*b, *a)) } " "
                            }
                        }
                    }
                }
            }
        }
    }

    fn target(&self, a: usize, b: usize) -> String {
        format!("{}-zoom-{b}-{a}", self.id)
    }

    /// `CPUs 0-79 and 80-159`.
    fn part_name(&self, a: usize, b: usize) -> String {
        let cpus = |part: usize| self.parts.cpus(part, &self.order).iter().copied().collect::<CpuSet>();
        if a == b { format!("CPUs {}", cpus(a)) } else { format!("CPUs {} and {}", cpus(a), cpus(b)) }
    }

    fn overview(&self, zooms: &BTreeSet<(usize, usize)>) -> Markup {
        let mut figures: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for pair in &self.latency.pairs {
            let Some((a, b)) = self.places(pair) else { continue };
            let (a, b) = (self.groups.group_at(a), self.groups.group_at(b));
            figures.entry((a.max(b), a.min(b))).or_default().push(pair.latency_ns);
        }
        let firsts = self.firsts();
        let names: Vec<String> = firsts.iter().map(ToString::to_string).collect();
        let lines = lines(self.machine, &firsts);
        CellBlock {
            id: self.id,
            label: "Core-to-core latency between groups of CPUs, medians",
            rows: names.clone(),
            columns: names,
            cells: figures.iter().map(|(&(a, b), figures)| self.group_cell(a, b, figures)).collect(),
            is_symmetric: true,
            row_lines: lines.clone(),
            column_lines: lines,
            links: zooms.iter().flat_map(|&(a, b)| self.links(a, b)).collect(),
            scale: self.scale.words(),
        }
        .draw()
    }

    /// Returns the positions of a pair's CPUs.
    fn places(&self, pair: &PairLatency) -> Option<(usize, usize)> {
        Some((*self.place.get(&pair.a)?, *self.place.get(&pair.b)?))
    }

    /// Returns the cell of two groups.
    fn group_cell(&self, a: usize, b: usize, figures: &[f64]) -> Cell {
        let ns = median(figures).unwrap_or(0.0);
        let cpus = |group: usize| self.groups.cpus(group, &self.order).iter().copied().collect::<CpuSet>();
        let at = |q: f64| short(quantile(figures, q).unwrap_or(0.0));
        let title = format!(
            "CPUs {} and {}: {} ns ({} to {}), {} pairs",
            cpus(b),
            cpus(a),
            short(ns),
            at(0.0),
            at(1.0),
            figures.len()
        );
        Cell { row: a, column: b, share: self.scale.share(ns), words: short(ns), title }
    }

    /// Returns the rectangles of two parts in the overview.
    fn links(&self, a: usize, b: usize) -> Vec<BlockLink> {
        let groups = |part: usize| {
            let last = self.parts.edges[part + 1] - 1;
            (self.groups.group_at(self.parts.edges[part]), self.groups.group_at(last) + 1)
        };
        let link = |rows, columns| BlockLink {
            rows,
            columns,
            target: self.target(a, b),
            title: format!("{}: show single CPUs", self.part_name(b, a)),
        };
        if a == b {
            vec![link(groups(a), groups(a))]
        } else {
            vec![link(groups(a), groups(b)), link(groups(b), groups(a))]
        }
    }

    /// Returns the pairs between two parts: the position of the CPU in part `a`, and of that in part `b`. Pairs within
    /// one part are there twice.
    fn pairs_between(&self, a: usize, b: usize) -> Vec<(usize, usize, &PairLatency)> {
        let within = |place: usize, part: usize| self.parts.group_at(place) == part;
        let sides = |pair| {
            let (one, other) = self.places(pair)?;
            let both = [(one, other), (other, one)];
            let both = both.into_iter().filter(move |&(row, column)| within(row, a) && within(column, b));
            Some(both.map(move |(row, column)| (row, column, pair)))
        };
        self.latency.pairs.iter().filter_map(sides).flatten().collect()
    }

    /// Draws the single CPUs of two parts. CPUs of which no pair was measured there are left out. `None` where there is
    /// no map but a single pair.
    fn zoom(&self, a: usize, b: usize) -> Option<Markup> {
        let pairs = self.pairs_between(a, b);
        let rows: BTreeSet<usize> = pairs.iter().map(|pair| pair.0).collect();
        let columns: BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
        let (row_of, column_of) = (indices(&rows), indices(&columns));
        let cpus = |places: &BTreeSet<usize>| -> Vec<CpuId> {
            places.iter().map(|&place| self.order[place]).collect()
        };
        let (rows, columns) = (cpus(&rows), cpus(&columns));
        let names = |cpus: &[CpuId]| cpus.iter().map(ToString::to_string).collect();
        let block = CellBlock {
            id: &format!("{}-map", self.target(a, b)),
            label: &format!("Core-to-core latency of {}", self.part_name(b, a)),
            rows: names(&rows),
            columns: names(&columns),
            cells: pairs
                .iter()
                .map(|(row, column, pair)| cell(&self.scale, pair, row_of[row], column_of[column]))
                .collect(),
            is_symmetric: false,
            row_lines: lines(self.machine, &rows),
            column_lines: lines(self.machine, &columns),
            links: Vec::new(),
            scale: self.scale.words(),
        };
        (pairs.len() > 2).then(|| block.draw())
    }
}

/// Returns the index of each position.
fn indices(places: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    places.iter().enumerate().map(|(index, &place)| (place, index)).collect()
}
