//! Nodes: memory, where pages came from, use, distances and bandwidth.

use super::{kib, percent};
use crate::{
    picture::{NodeUse, Picture},
    view::{
        metric::count,
        pen::Pen,
        table::{Column, Sheet, SheetCell},
    },
};
use manycore_text::units;
use manycore_topology::{CpuSet, Level, Machine};

/// Returns the table of nodes.
pub fn nodes(machine: &Machine, picture: &Picture) -> Sheet {
    let columns = vec![
        Column::id("NODE", 5, 0),
        Column::text("CPUS", 9, 21, 2),
        Column::figure("BUSY", 6, 1),
        Column::figure("WAIT", 5, 3),
        Column::figure("RUNNABLE", 8, 9),
        Column::figure("MEMORY", 9, 0),
        Column::figure("FREE", 9, 0),
        Column::figure("FILES", 9, 5),
        Column::figure("LOCAL/s", 8, 4),
        Column::figure("OTHER/s", 8, 4),
        Column::figure("REMOTE%", 7, 6),
        Column::figure("MISSED/s", 8, 6),
        Column::figure("BANDWIDTH", 10, 7),
    ];
    let rows = picture.nodes.iter().map(|node| row(machine, picture, node)).collect();
    Sheet { columns, rows }
}

fn row(machine: &Machine, picture: &Picture, node: &NodeUse) -> Vec<SheetCell> {
    let known = machine.nodes.iter().find(|one| one.id == node.now.node);
    let cpus = known.filter(|one| !one.memory_only).map(|one| &one.cpus);
    let unit = cpus.and_then(|cpus| picture.units_of(Level::Node).find(|unit| unit.cpus == *cpus));
    let remote = node.local.zip(node.other).filter(|(local, other)| local + other > 0.0);
    let used = node.now.total_kib.saturating_sub(node.now.free_kib) as f64;
    let list = cpus.map_or("no CPUs".to_owned(), |cpus| cpus.within(30));
    let count_of = cpus.map_or(1.0, |cpus| cpus.len().max(1) as f64);
    vec![
        SheetCell::figure(Some(f64::from(node.now.node)), |id| format!("{id:.0}")),
        SheetCell::text(list),
        SheetCell::figure(unit.map(|unit| unit.shares.busy()), |busy| format!("{busy:.1}")).hot(count_of),
        SheetCell::figure(unit.map(|unit| unit.task_wait), |wait| format!("{wait:.1}")).hot(count_of),
        SheetCell::figure(unit.map(|unit| unit.runnable as f64), |tasks| format!("{tasks:.0}")),
        SheetCell::figure(Some(node.now.total_kib as f64), kib),
        SheetCell::figure(Some(node.now.free_kib as f64), |free| {
            format!("{} {}", kib(free), if used > 0.95 * node.now.total_kib as f64 { "!" } else { "" })
                .trim_end()
                .to_owned()
        }),
        SheetCell::figure(Some(node.now.file_kib as f64), kib),
        SheetCell::figure(node.local, count),
        SheetCell::figure(node.other, count),
        SheetCell::figure(remote.map(|(local, other)| other / (local + other)), percent).hot(0.5),
        SheetCell::figure(node.missed, count).hot(1000.0),
        SheetCell::figure(bandwidth(machine, picture, cpus), units::rate),
    ]
}

/// Sums the bandwidth of all groups in the domains of resctrl that are in a node. A domain has the number of its L3.
fn bandwidth(machine: &Machine, picture: &Picture, cpus: Option<&CpuSet>) -> Option<f64> {
    let cpus = cpus?;
    let is_inside = |domain: u32| {
        let mut caches = machine.caches_at(3);
        caches.any(|cache| cache.id == Some(domain) && cache.cpus.is_subset(cpus))
    };
    let inside = picture.bandwidth_of_all().filter(|one| is_inside(one.domain));
    let known: Vec<f64> = inside.filter_map(|one| one.total).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

/// What columns mean that are named by their titles.
const MEANINGS: [(&str, &str); 2] = [
    ("LOCAL/s", "LOCAL, OTHER: pages per second that processes on this node, on other nodes, got from it."),
    ("MISSED/s", "MISSED: pages that were wanted from another node and came from this one."),
];

/// Returns what the columns mean that are on the screen, and the bandwidth of memory.
pub fn notes(picture: &Picture, is_shown: impl Fn(&str) -> bool) -> Vec<String> {
    let meanings = MEANINGS.iter().filter(|(title, _)| is_shown(title)).map(|(_, meaning)| *meaning);
    let mut notes = vec![meanings.collect::<Vec<_>>().join(" ")];
    notes.retain(|note| !note.is_empty());
    if picture.bandwidth.is_empty() {
        notes.push(
            "Memory bandwidth: not available (needs resctrl with memory bandwidth monitoring).".to_owned(),
        );
    }
    for one in &picture.bandwidth {
        let of = |value: Option<f64>| value.map_or("unknown".to_owned(), units::rate);
        let cache = one.cache_bytes.map(|bytes| format!(", {} of the cache", units::bytes(bytes)));
        let (total, local, cache) = (of(one.total), of(one.local), cache.unwrap_or_default());
        notes.push(format!(
            "Bandwidth of {} in domain {}: {total}, local {local}{cache}",
            one.group, one.domain
        ));
    }
    notes
}

/// Draws the distances between nodes. Returns the number of rows.
pub fn draw_distances(pen: &mut Pen<'_>, machine: &Machine) -> u16 {
    let known: Vec<_> = machine.nodes.iter().filter(|node| !node.distances.is_empty()).collect();
    if known.len() < 2 || pen.area.height < 2 {
        return 0;
    }
    pen.text(0, 0, "Distances (10 is the own node)", pen.theme.label());
    let most = known.iter().flat_map(|node| &node.distances).copied().max().unwrap_or(10).max(11);
    for (at, node) in known.iter().enumerate() {
        let y = at as u16 + 1;
        let mut x = pen.text(0, y, &format!("node {:<3}", node.id), pen.theme.dim());
        for &distance in &node.distances {
            let heat = f64::from(distance.saturating_sub(10)) / f64::from(most - 10);
            x = pen.text(x, y, &format!("{distance:>4}"), pen.theme.heat_cell(heat));
        }
    }
    known.len() as u16 + 2
}
