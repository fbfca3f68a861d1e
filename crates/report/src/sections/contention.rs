//! Loads whose workers share something: by number of workers, by distance, and compared with other
//! programs.

use crate::sections::{NamedEvaluation, Table, compare, other_program};
use manycore_analysis::{ContentionPair, ContentionPoint, LoadContention, UnixBench};
use manycore_render::{
    figure::{ABSENT, factor, interval, number, optional, short, times, with_interval},
    table::Align,
};
use manycore_stats::Estimate;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    named.evaluation.contention.iter().flat_map(of_load).collect()
}

fn of_load(load: &LoadContention) -> Vec<Table> {
    let tables = [points(load), pairs(load), peers(load)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn points(load: &LoadContention) -> Table {
    let counted = &*load.worker_noun;
    let mut table = Table::numeric(
        format!("{}: {} per second, unpinned", load.load, load.unit),
        ("variant", Align::Left),
        &[counted, "total", "95 % interval", "per worker", "ratio", "95 % interval", "fairness"],
    );
    table.rows = load.points.iter().map(point).collect();
    table.notes.push(
        "The ratio is relative to the smallest count of the same variant, from pairs of the same round."
            .to_owned(),
    );
    if load.points.iter().any(|point| point.fairness.is_some()) {
        table.notes.push("Fairness is 1 where all workers did the same, 1/n where one did all.".to_owned());
    }
    table.notes.extend(load.unixbench.as_ref().map(unixbench));
    table
}

fn point(point: &ContentionPoint) -> Vec<String> {
    let over = point.relative_to_smallest.as_ref();
    let ends = |over: &manycore_stats::verdict::Verdict| {
        let ratio = Estimate { median: over.ratio, interval: over.interval, n: over.pairs };
        interval(&ratio, factor)
    };
    vec![
        point.variant.clone(),
        point.workers.to_string(),
        short(point.rate.median),
        interval(&point.rate, short),
        short(point.rate_per_worker.median),
        optional(over.map(|over| over.ratio), times),
        over.map_or_else(|| ABSENT.to_owned(), ends),
        optional(point.fairness, |index| format!("{index:.3}")),
    ]
}

fn unixbench(unixbench: &UnixBench) -> String {
    let UnixBench { passes, seconds, rate, index, exact } = unixbench;
    let of = if *exact {
        "its ten passes of 10 s".to_owned()
    } else {
        format!(
            "{passes} passes of {seconds} s instead of ten of 10 s (for those: manycore bench pipe --unixbench)"
        )
    };
    format!(
        "UnixBench's index of pipe-based context switching: {index:.1} ({} round trips per second), from {of}; the worst \
         third is dropped, the geometric mean of the others is divided by 4,000 and multiplied by 10.",
        number(*rate)
    )
}

fn pairs(load: &LoadContention) -> Table {
    let mut table = Table::numeric(
        format!("{}: {} per second of two pinned tasks, by distance", load.load, load.unit),
        ("variant", Align::Left),
        &["CPUs", "distance", "total", "95 % interval", "ratio", "95 % interval"],
    );
    table.rows = load.pairs.iter().map(pair).collect();
    table.notes.push("The ratio is relative to the first row of the same variant.".to_owned());
    if load.pairs.iter().all(|pair| pair.relative_to_nearest.is_none()) {
        table.head.truncate(5);
        table.rows.iter_mut().for_each(|row| row.truncate(5));
        table.notes.clear();
    }
    table
}

fn pair(pair: &ContentionPair) -> Vec<String> {
    let over = pair.relative_to_nearest.as_ref();
    vec![
        pair.variant.clone(),
        pair.cpus.clone(),
        pair.title().to_owned(),
        short(pair.rate.median),
        interval(&pair.rate, short),
        optional(over.map(|over| over.median), times),
        over.map_or_else(|| ABSENT.to_owned(), |over| interval(over, factor)),
    ]
}

fn peers(load: &LoadContention) -> Table {
    let program = load.other_program.as_deref().unwrap_or("the other program");
    let mut table = Table::numeric(
        format!("{}: {} per second, interleaved with {program}", load.load, load.unit),
        (&load.worker_noun, Align::Right),
        &["manycore", "other", "ratio", "95 % interval", "pairs"],
    );
    table.rows = other_program::rows(&load.against_other);
    if program.starts_with("stress-ng") {
        let note = match load.load.as_str() {
            "sem" => {
                "stress-ng's operation differs (it combines tries, waits with a time-out and yields), so there is no ratio."
            }
            _ => {
                "The operation is the same. However, stress-ng also reads statistics from the kernel between operations."
            }
        };
        table.notes.push(format!("{note} Compare its figures with those of the same version only."));
    }
    table
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let name = |(_, name): &(usize, String)| name.clone();
    let free = compare("Operations per second (95 % interval)", ("what", Align::Left), all, name, |named| {
        let points = named.evaluation.contention.iter().flat_map(|load| {
            load.points.iter().map(move |point| {
                (
                    format!("{}, {}: {} {}", load.load, point.variant, point.workers, load.worker_noun),
                    point.rate,
                )
            })
        });
        cells(points)
    });
    let title = "Operations per second of two pinned tasks (95 % interval)";
    let bound = compare(title, ("what", Align::Left), all, name, |named| {
        let pairs = named.evaluation.contention.iter().flat_map(|load| {
            load.pairs
                .iter()
                .map(move |pair| (format!("{}, {}: {}", load.load, pair.variant, pair.title()), pair.rate))
        });
        cells(pairs)
    });
    vec![free, bound]
}

/// Returns the rows in the order in which they come.
fn cells(rows: impl Iterator<Item = (String, Estimate)>) -> Vec<((usize, String), String)> {
    rows.enumerate()
        .map(|(place, (name, rate))| ((place, name), with_interval(&rate, short, short)))
        .collect()
}
