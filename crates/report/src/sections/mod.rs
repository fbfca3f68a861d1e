//! The content of a report, section by section, as tables: of one record, or of several side by side.

mod affinity;
pub mod comparison;
pub mod conditions;
mod contention;
mod density;
pub mod differences;
pub mod distribution;
mod latency;
mod limits;
mod matrix;
pub mod modes;
mod noise;
mod other_program;
pub mod requests;
mod scaling;
mod scheduler_counters;
mod spawning;
mod stream;
mod tuning;

use crate::{NamedEvaluation, SessionComparison};
use manycore_render::{
    figure::ABSENT,
    table::{Align, Table},
};
use std::collections::BTreeMap;

/// One section.
pub struct Section {
    /// Name in links, and topic of its findings.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How to read it, in one or two sentences.
    pub reading: &'static str,
    /// Its tables. Empty where nothing was measured.
    pub tables: Vec<Table>,
}

/// Returns a section's tables for one record.
type SingleTables = fn(&NamedEvaluation) -> Vec<Table>;

/// Returns a section's tables for several records, one column for each.
type SideBySideTables = fn(&[NamedEvaluation]) -> Vec<Table>;

/// Id, title, how to read it, and the functions that return its tables.
type SectionSpec = (&'static str, &'static str, &'static str, SingleTables, SideBySideTables);

const SECTIONS: [SectionSpec; 18] = [
    (
        "differences",
        "What differs",
        "Each record against the first one. They were not interleaved, so a difference includes all that changed \
         between the two runs.",
        differences::single,
        differences::side_by_side,
    ),
    ("conditions", "Machine and conditions", "", conditions::single, conditions::side_by_side),
    (
        "noise",
        "Noise floor (A/A)",
        "The same thing was measured as A and as B, interleaved. The true ratio of B over A is 1; any difference \
         is the machine's noise.",
        noise::single,
        noise::side_by_side,
    ),
    (
        "scaling",
        "Scaling",
        "CPU-bound workers that share nothing (those of `eval` search for primes) can do at most the work of one worker \
         times the number of CPUs; workers that wait for something else can do more. Intervals of ratios contain the true ratio in \
         95 % of runs; those of rates show the spread of this run.",
        scaling::single,
        scaling::side_by_side,
    ),
    (
        "counters",
        "Scheduler counters",
        "Shares of the CPU time that the workers of the scaling test could have had. With high steal, other \
         work or throttling, the figures above show the disturbance and not the machine.",
        scheduler_counters::single,
        scheduler_counters::side_by_side,
    ),
    (
        "modes",
        "Serial, threads, processes",
        "The same tasks one after another, in threads and in processes, interleaved. Speed-up is relative to serial.",
        modes::single,
        modes::side_by_side,
    ),
    (
        "matrix",
        "Matrix product",
        "GFLOPS are 10^9 double-precision operations per second: 2 n^3 for a product of size n.",
        matrix::single,
        matrix::side_by_side,
    ),
    (
        "affinity",
        "Pinning processes to CPUs",
        "Processes that the scheduler places (unpinned) and processes that are pinned to one CPU each, interleaved. \
         Pinned processes check which CPU they run on: \"on other CPU\" must be 0.",
        affinity::single,
        affinity::side_by_side,
    ),
    (
        "latency",
        "Core-to-core latency",
        "Two threads on two CPUs pass one cache line back and forth by compare-and-swap, as the program \
         core-to-core-latency does. A figure is half a round trip, the median of many short bursts.",
        latency::single,
        latency::side_by_side,
    ),
    (
        "stream",
        "Memory bandwidth and latency",
        "Bytes are counted as in STREAM: every byte read and every byte written counts once. Each worker has its own CPU.",
        stream::single,
        stream::side_by_side,
    ),
    (
        "sysbench",
        "Comparison with sysbench",
        "The built-in prime events and sysbench's, interleaved on the same machine. With a ratio near 1, the \
         figures of both are comparable.",
        other_program::single,
        other_program::side_by_side,
    ),
    (
        "contention",
        "Contention",
        "Workers that share something, interleaved with workers that do not or that share it in another way. \
         Operations are those of all workers in total.",
        contention::single,
        contention::side_by_side,
    ),
    (
        "comparison",
        "B against A",
        "Each round had one run of every variant, in random order; ratios are estimated from pairs of the same round.",
        comparison::single,
        comparison::side_by_side,
    ),
    (
        "baseline",
        "Stored records",
        "The new record and those of the baseline were measured in different sessions, so there are no pairs, and each \
         interval includes the scatter between sessions. A difference includes all that changed in between.",
        |named| named.baseline.as_ref().map_or_else(Vec::new, SessionComparison::tables),
        |_| Vec::new(),
    ),
    (
        "tuning",
        "Search",
        "Candidates ran interleaved; after each round the worse half was dropped. The finalists were then measured \
         again, against today's behaviour.",
        tuning::single,
        tuning::side_by_side,
    ),
    (
        "density",
        "Density",
        "Pairs of slices in random order: one in which only the observed instance is loaded, and one in which all of a count \
         are. The answer is the largest number of instances within the bound; its interval goes from the largest count that is \
         proven to be within it to the one below the smallest that is proven to be above it.",
        density::single,
        density::side_by_side,
    ),
    (
        "limits",
        "Limits of memory bandwidth",
        "A load on memory ran with the limit and without, interleaved. For a minimum or a priority, other processes \
         competed for the bandwidth; \"alone\" is without them.",
        limits::single,
        limits::side_by_side,
    ),
    (
        "spawn",
        "Light processes",
        "Started together, held, and ended. Memory is what the kernel counts for the runtime: PSS includes its part of \
         shared pages, RSS all of them. The memory of each is the growth from before the start to the hold.",
        spawning::single,
        spawning::side_by_side,
    ),
];

/// Sections that evaluations do not have.
const NOT_IN_EVAL: [&str; 7] =
    ["differences", "comparison", "baseline", "tuning", "density", "limits", "spawn"];

/// Returns the sections that have tables; for evaluations, also those that were left out.
pub fn sections(all: &[NamedEvaluation]) -> Vec<Section> {
    let mut sections = all_sections(all);
    let evaluated = all.iter().any(|named| named.record.subcommand == "eval");
    sections.retain(|section| !section.tables.is_empty() || evaluated && !NOT_IN_EVAL.contains(&section.id));
    // What differs comes first, conditions last, after what was found under them. An evaluation begins with its noise;
    // in other records, that of their runs follows the answer.
    sections.sort_by_key(|section| match section.id {
        "differences" | "baseline" => 0,
        "noise" if !evaluated => 2,
        "conditions" => 3,
        _ => 1,
    });
    sections
}

fn all_sections(all: &[NamedEvaluation]) -> Vec<Section> {
    SECTIONS
        .iter()
        .map(|&(id, title, reading, single, side_by_side)| Section {
            id,
            title: if id == "comparison" { comparison::title(all).unwrap_or(title) } else { title },
            reading,
            tables: match all {
                [one] => single(one),
                _ => tables_of_several(all, single, side_by_side),
            },
        })
        .collect()
}

/// Returns the common tables, then the tables of each record as details. A table without a title is the
/// same in both and is not repeated.
fn tables_of_several(
    all: &[NamedEvaluation],
    single: SingleTables,
    side_by_side: SideBySideTables,
) -> Vec<Table> {
    let mut tables = side_by_side(all);
    tables.retain(|table| !table.rows.is_empty());
    for named in all {
        tables.extend(single(named).into_iter().filter(|table| !table.title.is_empty()).map(|table| Table {
            title: format!("{}: {}", named.name, table.title),
            is_detail: true,
            ..table
        }));
    }
    tables
}

/// Returns a table with one column for each record and one row for each key that occurs in any of them.
fn compare<K: Ord>(
    title: &str,
    key: (&str, Align),
    all: &[NamedEvaluation],
    show: impl Fn(&K) -> String,
    cells: impl Fn(&NamedEvaluation) -> Vec<(K, String)>,
) -> Table {
    let mut rows: BTreeMap<K, Vec<String>> = BTreeMap::new();
    for (column, named) in all.iter().enumerate() {
        for (key, cell) in cells(named) {
            let row = rows.entry(key).or_insert_with(|| vec![ABSENT.to_owned(); all.len()]);
            row[column] = cell;
        }
    }
    let names: Vec<&str> = all.iter().map(|named| named.name.as_str()).collect();
    let mut table = Table::numeric(title, key, &names);
    table.rows =
        rows.into_iter().map(|(key, cells)| std::iter::once(show(&key)).chain(cells).collect()).collect();
    table
}

/// [`compare`] by number of workers.
fn by_workers(
    title: &str,
    all: &[NamedEvaluation],
    cells: impl Fn(&NamedEvaluation) -> Vec<(usize, String)>,
) -> Table {
    compare(title, ("workers", Align::Right), all, ToString::to_string, cells)
}
