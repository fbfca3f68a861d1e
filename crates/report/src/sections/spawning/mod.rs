//! Light processes: their start time and memory, how many fit, which limits apply, and how their work was
//! spread over CPUs.

mod bounds;
mod work;

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{LightProcessRun, LightProcesses, PUBLISHED, PUBLISHED_BYTES, PUBLISHED_ON};
use manycore_experiment::spawning::{Ending, Purpose};
use manycore_render::{
    figure::{ABSENT, grouped, number, optional, times},
    table::Align,
};
use manycore_text::units::{count, decimal};
use std::collections::BTreeSet;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let all = &named.evaluation.light_processes[..];
    let mut tables = vec![published(all), times_of(all), memory(all)];
    tables.extend(bounds::tables(all));
    tables.extend(work::tables(all, &named.record));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn seconds(seconds: f64) -> String {
    number(seconds)
}

fn how_it_ended(ending: &Ending) -> String {
    match ending {
        Ending::Clean => "on request".to_owned(),
        Ending::Refused { why } => format!("refused: {why}"),
        Ending::Killed { why } => format!("killed: {why}"),
        Ending::Failed { why } => format!("failed: {why}"),
        Ending::Interrupted => "interrupted".to_owned(),
    }
}

/// Returns the runs of requested counts.
fn counted(light: &LightProcesses) -> impl Iterator<Item = &LightProcessRun> {
    light.runs.iter().filter(|run| run.purpose == Purpose::Count)
}

/// Returns the memory of the runtime as the kernel counts it.
fn held(run: &LightProcessRun) -> String {
    while_held(run, decimal(run.pss_bytes.unwrap_or(run.rss_bytes) as f64))
}

/// Returns the figure if the run held its light processes. A run that ended before has no such figures.
fn while_held(run: &LightProcessRun, figure: String) -> String {
    if run.rss_bytes > 0 { figure } else { ABSENT.to_owned() }
}

/// Returns the seconds until all light processes were alive.
fn started(run: &LightProcessRun) -> String {
    while_held(run, seconds(run.start_seconds))
}

/// Returns the bytes per light process at the largest count.
fn bytes_each(light: &LightProcesses) -> Option<f64> {
    let run = counted(light).filter(|run| run.rss_bytes > 0).max_by_key(|run| run.alive)?;
    run.pss_bytes_each.or(run.rss_bytes_each)
}

/// Returns a table of all runtimes side by side, with the published figures.
fn published(all: &[LightProcesses]) -> Table {
    let names: Vec<&str> = all.iter().map(|light| &*light.name).chain([PUBLISHED_ON]).collect();
    let mut table = Table::numeric("Side by side", ("light processes", Align::Left), &names);
    if all.is_empty() {
        return table;
    }
    let requested: BTreeSet<u64> = all.iter().flat_map(counted).map(|run| run.requested).collect();
    for requested in requested {
        let runs: Vec<Option<&LightProcessRun>> =
            all.iter().map(|light| counted(light).find(|run| run.requested == requested)).collect();
        let known = PUBLISHED.iter().find(|known| known.count == requested);
        let mut row = |what: &str, show: &dyn Fn(&LightProcessRun) -> String, known: Option<String>| {
            let absent = || ABSENT.to_owned();
            let measured = runs.iter().map(|run| run.map_or_else(absent, show));
            let name = std::iter::once(format!("{}: {what}", count(requested)));
            table.rows.push(name.chain(measured).chain([known.unwrap_or_else(absent)]).collect());
        };
        row("memory", &held, known.map(|known| decimal(known.memory_bytes)));
        row("seconds to start", &started, known.map(|known| number(known.start_seconds)));
    }
    let each = all.iter().map(|light| optional(bytes_each(light), grouped));
    table.rows.push(
        std::iter::once("bytes each".to_owned()).chain(each).chain([grouped(PUBLISHED_BYTES)]).collect(),
    );
    table.notes.push(
        "Memory is PSS, or RSS if the kernel does not report PSS. Page tables and kernel stacks are \
         counted separately. The published figures are from four Xeon E7-4820 with 125 GB."
            .to_owned(),
    );
    table
}

fn times_of(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Starting and ending, in seconds",
        ("runtime", Align::Left),
        &["count", "alive", "start", "own clock", "ratio", "us each", "end"],
    );
    table.head.push(("ended".to_owned(), Align::Left));
    table.rows = all
        .iter()
        .flat_map(|light| counted(light).map(move |run| (light, run)))
        .map(|(light, run)| {
            vec![
                light.name.clone(),
                count(run.requested),
                count(run.alive),
                started(run),
                optional(run.reported_start_seconds, seconds),
                optional(run.start_over_reported, times),
                optional(run.seconds_each.map(|each| each * 1e6), number),
                optional(run.end_seconds, seconds),
                how_it_ended(&run.ending),
            ]
        })
        .collect();
    table.notes.push(
        "Ratio: start time on this program's clock over the runtime's own. End: from the message to end until the \
         runtime had exited."
            .to_owned(),
    );
    table
}

fn memory(all: &[LightProcesses]) -> Table {
    let mut table = Table::numeric(
        "Memory while all were held, and bytes of each",
        ("runtime", Align::Left),
        &["alive", "PSS", "RSS", "PSS each", "RSS each", "kernel each", "own each", "ratio"],
    );
    table.rows = all
        .iter()
        .flat_map(|light| counted(light).map(move |run| (light, run)))
        .map(|(light, run)| {
            vec![
                light.name.clone(),
                count(run.alive),
                optional(run.pss_bytes.map(|bytes| bytes as f64), decimal),
                while_held(run, decimal(run.rss_bytes as f64)),
                optional(run.pss_bytes_each, grouped),
                optional(run.rss_bytes_each, grouped),
                optional(run.kernel_bytes_each, grouped),
                optional(run.reported_bytes_each, grouped),
                optional(run.memory_over_reported, times),
            ]
        })
        .collect();
    table.notes.push(
        "Kernel: page tables and kernel stacks. Own: as the runtime reports it; the ratio is PSS over that."
            .to_owned(),
    );
    table
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let name = |(_, name): &(usize, String)| name.clone();
    let rows = |named: &NamedEvaluation| {
        let lines = named.evaluation.light_processes.iter().flat_map(lines);
        lines.enumerate().map(|(place, (name, cell))| ((place, name), cell)).collect()
    };
    vec![compare("Light processes", ("what", Align::Left), all, name, rows)]
}

/// Returns the figures of a runtime that are compared with those of other records.
fn lines(light: &LightProcesses) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |what: String, cell: String| lines.push((format!("{}: {what}", light.name), cell));
    for run in counted(light) {
        let requested = count(run.requested);
        add(format!("{requested}, memory"), held(run));
        add(format!("{requested}, seconds to start"), started(run));
        if let Some(index) = run.balance.as_ref().and_then(|balance| balance.fairness) {
            add(format!("{requested}, Jain's index over CPUs"), format!("{index:.3}"));
        }
        if let Some(rounds) = &run.file_rounds {
            add(format!("{requested}, rounds per second"), number(rounds.per_second));
        }
    }
    add("bytes each".to_owned(), optional(bytes_each(light), grouped));
    add(
        "most that fit".to_owned(),
        light.capacity.as_ref().map_or_else(|| ABSENT.to_owned(), |c| count(c.count)),
    );
    lines
}
