//! Tables of how computing was spread over CPUs, and of the rate of file operations.

use crate::sections::spawning::Table;
use manycore_analysis::{CpuBalance, FileRounds, LightProcesses};
use manycore_experiment::{Record, spawning::Spin};
use manycore_render::{
    figure::{ABSENT, number, optional, percent},
    table::Align,
};
use manycore_stats::mean;
use manycore_text::units::{bytes, count};

/// Maximum number of signs in a line of a map; several intervals are then averaged into one sign.
const MAX_COLUMNS: usize = 60;
/// Maximum number of lines of a map; several CPUs are then averaged into one line.
const MAX_LINES: usize = 32;
/// Signs for shares from 0 to 1.
const SIGNS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn tables(all: &[LightProcesses], record: &Record) -> Vec<Table> {
    let spins = record.light_processes.iter().zip(all).flat_map(|(spawning, light)| {
        spawning.runs.iter().filter_map(move |run| Some((light, run.requested, run.spin.as_ref()?)))
    });
    let mut tables = vec![balance(all)];
    tables.extend(spins.map(|(light, requested, spin)| map(light, requested, spin)));
    tables.push(files(all));
    tables
}

fn balance(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Computing: share of each CPU's time, and waiting tasks",
        ("runtime", Align::Left),
        &["alive", "CPUs", "mean", "least", "most", "Jain", "schedulers' Jain", "ran", "queued", "steal"],
    );
    let runs = all.iter().flat_map(|light| {
        light.runs.iter().filter_map(move |run| Some((light, run.alive, run.balance.as_ref()?)))
    });
    table.rows = runs.map(|(light, alive, balance)| spread(light, alive, balance)).collect();
    table.notes.push(
        "Jain's index is 1 if all CPUs did the same work, 1/n if one CPU did all. Ran: tasks of the whole machine \
         that ran or waited for a CPU. Queued: light processes that were ready to run, as the runtime reports."
            .to_owned(),
    );
    table
}

fn spread(light: &LightProcesses, alive: u64, balance: &CpuBalance) -> Vec<String> {
    let shares: Vec<f64> = balance.cpus.iter().map(|&(_, share)| share).collect();
    let index = |index: f64| format!("{index:.3}");
    vec![
        light.name.clone(),
        count(alive),
        shares.len().to_string(),
        optional(mean(&shares), percent),
        optional(shares.iter().copied().reduce(f64::min), percent),
        optional(shares.iter().copied().reduce(f64::max), percent),
        optional(balance.fairness, index),
        optional(balance.scheduler_fairness, index),
        optional(balance.running, number),
        optional(balance.queued, number),
        optional(balance.steal, percent),
    ]
}

/// Returns a map of shares over time with a line for each CPU.
fn map(light: &LightProcesses, requested: u64, spin: &Spin) -> Table {
    let long = spin.busy.len().div_ceil(MAX_COLUMNS).max(1);
    let high = spin.cpus.len().div_ceil(MAX_LINES).max(1);
    let mut table = Table::numeric(
        format!(
            "{}, {}: how busy each CPU was over time, {} per character",
            light.name,
            count(requested),
            seconds(long as f64 * spin.interval_seconds)
        ),
        ("CPU", Align::Right),
        &[],
    );
    table.head.push(("busy".to_owned(), Align::Left));
    table.rows = spin
        .cpus
        .chunks(high)
        .enumerate()
        .map(|(row, cpus)| {
            let name = match cpus {
                [one] => one.to_string(),
                [first, .., last] => format!("{first}-{last}"),
                [] => String::new(),
            };
            let line = spin.busy.chunks(long).map(|block| sign(block, row * high, cpus.len())).collect();
            vec![name, line]
        })
        .collect();
    table.notes.push(format!(
        "Characters go from {} (idle) to {} (busy all of the time).",
        SIGNS[0],
        SIGNS[SIGNS.len() - 1]
    ));
    table
}

/// Returns `0.15 s`, `0.5 s`, `3 s`.
fn seconds(seconds: f64) -> String {
    format!("{} s", (seconds * 100.0).round() / 100.0)
}

/// Returns the sign for the mean share of `count` columns from `first` on, over several intervals.
fn sign(block: &[Vec<f32>], first: usize, count: usize) -> char {
    let shares: Vec<f64> = block
        .iter()
        .flat_map(|row| row.iter().skip(first).take(count))
        .map(|&share| f64::from(share))
        .collect();
    let share = mean(&shares).unwrap_or(0.0).clamp(0.0, 1.0);
    SIGNS[(share * (SIGNS.len() - 1) as f64).round() as usize]
}

fn files(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Files: rounds of open, write, read and close",
        ("runtime", Align::Left),
        &["alive", "per second", "p50 ms", "p99 ms", "bytes", "file system"],
    );
    let runs = all.iter().flat_map(|light| {
        light.runs.iter().filter_map(move |run| Some((light, run.alive, run.file_rounds.as_ref()?)))
    });
    table.rows = runs
        .map(|(light, alive, rounds): (_, _, &FileRounds)| {
            let milliseconds = |ns: Option<f64>| optional(ns.map(|ns| ns / 1e6), number);
            let system = if rounds.file_system.is_empty() { ABSENT } else { &*rounds.file_system };
            vec![
                light.name.clone(),
                count(alive),
                number(rounds.per_second),
                milliseconds(rounds.p50_ns),
                milliseconds(rounds.p99_ns),
                bytes(rounds.bytes),
                system.to_owned(),
            ]
        })
        .collect();
    table
}
