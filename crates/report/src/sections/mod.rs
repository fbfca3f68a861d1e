//! What a report shows, section by section, as tables: each record's own, or all side by side.

mod affinity;
mod circumstances;
mod comparison;
mod conditions;
mod contention;
mod latency;
mod matrix;
pub mod modes;
mod noise;
mod peer;
mod scaling;
mod spawning;
mod stream;
mod tuning;

use crate::Named;
use manycore_render::{
    figure::ABSENT,
    table::{Align, Table},
};
use std::collections::BTreeMap;

/// One section.
pub struct Section {
    /// Name in links and in findings' topics.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How to read it, in a sentence or two.
    pub reading: &'static str,
    /// Its tables; none where nothing of it was measured.
    pub tables: Vec<Table>,
}

/// A section's tables of one record.
type Own = fn(&Named) -> Vec<Table>;

/// A section's tables of several records, one column for each.
type Beside = fn(&[Named]) -> Vec<Table>;

/// Id, title, how to read it, and where its tables come from.
type Recipe = (&'static str, &'static str, &'static str, Own, Beside);

const RECIPES: [Recipe; 14] = [
    ("conditions", "Machine and conditions", "", conditions::own, conditions::beside),
    (
        "noise",
        "Noise floor (A/A)",
        "The same thing was measured as A and as B in turns. B over A is 1 in truth; what it shows beyond that \
         is the machine's noise, and no smaller difference is believed anywhere in this report.",
        noise::own,
        noise::beside,
    ),
    (
        "scaling",
        "Scaling",
        "Workers that compute and share nothing (those of `eval` search primes) can do as many times the work of one as \
         there are CPUs; workers that wait for something else can do more. Intervals of ratios hold the true one in 95 % of runs; those of rates are the spread of this run.",
        scaling::own,
        scaling::beside,
    ),
    (
        "circumstances",
        "What the kernel counted meanwhile",
        "Shares of the CPU time that the workers of the scaling test could have had. High steal, other work or \
         throttling makes the figures above those of the surroundings, not of the machine.",
        circumstances::own,
        circumstances::beside,
    ),
    (
        "modes",
        "Serial, threads, processes",
        "The same tasks one after another, in threads and in processes, in turns. Speed-up is over serial.",
        modes::own,
        modes::beside,
    ),
    (
        "matrix",
        "Matrix product",
        "GFLOPS are 10^9 double-precision operations per second: 2 n^3 for a product of size n.",
        matrix::own,
        matrix::beside,
    ),
    (
        "affinity",
        "Binding processes to CPUs",
        "Processes left to the scheduler (free) and bound to one CPU each (bound), in turns. Bound processes \
         look where they run: \"elsewhere\" must be 0.",
        affinity::own,
        affinity::beside,
    ),
    (
        "latency",
        "Cache lines between CPUs",
        "Two threads on two CPUs pass one cache line back and forth by compare-and-swap, as core-to-core-latency does; \
         a figure is half a round trip, the median of many short bursts.",
        latency::own,
        latency::beside,
    ),
    (
        "stream",
        "Memory bandwidth and latency",
        "Bytes are counted as STREAM counts them: what is read and what is written, each once. Each worker has a CPU of \
         its own.",
        stream::own,
        stream::beside,
    ),
    (
        "peer",
        "Beside sysbench",
        "Our prime events and sysbench's, in turns on the same machine. A ratio near 1 means that figures of \
         both can be compared.",
        peer::own,
        peer::beside,
    ),
    (
        "contention",
        "What sharing costs",
        "Workers that share something, in turns with those that do not, or share it in another way. Operations are \
         those of all workers together.",
        contention::own,
        contention::beside,
    ),
    (
        "comparison",
        "B against A",
        "Runs of A and B alternated in random order; the ratio is the median over pairs of neighbours.",
        comparison::own,
        comparison::beside,
    ),
    (
        "tuning",
        "The search",
        "Candidates ran in turns; after each round the worse half was dropped. The finalists were then measured anew \
         against today's behaviour.",
        tuning::own,
        tuning::beside,
    ),
    (
        "spawn",
        "Light processes",
        "Started at once, held, and ended. Memory is what the kernel counts for the runtime: PSS is its part of what it \
         shares, RSS all of it. What each takes is by how much memory grew from before to held.",
        spawning::own,
        spawning::beside,
    ),
];

/// Sections that no evaluation has.
const OF_STUDIES: [&str; 3] = ["comparison", "tuning", "spawn"];

/// The sections that have tables; for evaluations, also those that were left out.
pub fn of(all: &[Named]) -> Vec<Section> {
    let mut sections = every(all);
    let evaluated = all.iter().any(|named| named.record.verb == "eval");
    sections.retain(|section| !section.tables.is_empty() || evaluated && !OF_STUDIES.contains(&section.id));
    // Who measures a command wants to know of it; the machine is what `eval` is about.
    sections.sort_by_key(|section| !evaluated && section.id == "conditions");
    sections
}

fn every(all: &[Named]) -> Vec<Section> {
    RECIPES
        .iter()
        .map(|&(id, title, reading, own, beside)| Section {
            id,
            title,
            reading,
            tables: match all {
                [one] => own(one),
                _ => side_by_side(all, own, beside),
            },
        })
        .collect()
}

/// The common tables, then each record's own for those who look closer. What has no title is the same in
/// both, and not shown twice.
fn side_by_side(all: &[Named], own: Own, beside: Beside) -> Vec<Table> {
    let mut tables = beside(all);
    tables.retain(|table| !table.rows.is_empty());
    for named in all {
        tables.extend(own(named).into_iter().filter(|table| !table.title.is_empty()).map(|table| Table {
            title: format!("{}: {}", named.name, table.title),
            raw: true,
            ..table
        }));
    }
    tables
}

/// A table with one column for each record and one row for each key that any of them has.
fn compare<K: Ord>(
    title: &str,
    key: (&str, Align),
    all: &[Named],
    show: impl Fn(&K) -> String,
    cells: impl Fn(&Named) -> Vec<(K, String)>,
) -> Table {
    let mut rows: BTreeMap<K, Vec<String>> = BTreeMap::new();
    for (column, named) in all.iter().enumerate() {
        for (key, cell) in cells(named) {
            let row = rows.entry(key).or_insert_with(|| vec![ABSENT.to_owned(); all.len()]);
            row[column] = cell;
        }
    }
    let names: Vec<&str> = all.iter().map(|named| named.name.as_str()).collect();
    let mut table = Table::figures(title, key, &names);
    table.rows =
        rows.into_iter().map(|(key, cells)| std::iter::once(show(&key)).chain(cells).collect()).collect();
    table
}

/// [`compare`] by the number of workers.
fn by_workers(title: &str, all: &[Named], cells: impl Fn(&Named) -> Vec<(usize, String)>) -> Table {
    compare(title, ("workers", Align::Right), all, ToString::to_string, cells)
}
