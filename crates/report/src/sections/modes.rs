//! Serial, threads and processes, for the built-in program and for Python.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{ParallelMode, ParallelModes};
use manycore_render::{
    figure::{factor, interval, number, times, with_interval},
    table::Align,
};

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    named.evaluation.modes.iter().map(of_modes).collect()
}

fn of_modes(modes: &ParallelModes) -> Table {
    let mut table = Table::numeric(
        title(modes),
        ("mode", Align::Left),
        &["seconds", "95 % interval", "speed-up", "95 % interval", "runs"],
    );
    table.rows = modes
        .modes
        .iter()
        .map(|mode| {
            let serial = mode.name == "serial";
            let of = if serial { "-".to_owned() } else { interval(&mode.speedup, factor) };
            vec![
                mode.name.clone(),
                number(mode.seconds.median),
                interval(&mode.seconds, number),
                times(mode.speedup.median),
                of,
                mode.seconds.n.to_string(),
            ]
        })
        .collect();
    table.notes.extend(
        modes
            .processes_over_threads
            .as_ref()
            .map(|verdict| crate::sections::affinity::sentence(verdict, "processes", "threads")),
    );
    table
}

/// Describes the program that ran: `Python, one BLAS thread (libopenblas.so.0): 4 tasks, n = 1000, k = 50`.
pub fn title(modes: &ParallelModes) -> String {
    let parameter = |name: &str| modes.parameters.get(name).map(String::as_str);
    let what = ["tasks", "n", "k"]
        .iter()
        .filter_map(|name| Some((*name, parameter(name)?)))
        .map(
            |(name, value)| {
                if name == "tasks" { format!("{value} tasks") } else { format!("{name} = {value}") }
            },
        )
        .collect::<Vec<_>>()
        .join(", ");
    format!("{}{}{what}", program(modes), if what.is_empty() { "" } else { ": " })
}

/// Returns the program and its BLAS.
pub fn program(modes: &ParallelModes) -> String {
    let parameter = |name: &str| modes.parameters.get(name).map(String::as_str);
    if parameter("program") != Some("python") {
        return "Compiled code".to_owned();
    }
    let threads = match parameter("blas_threads") {
        Some("1") => "one BLAS thread",
        _ => "default BLAS threads",
    };
    let blas = parameter("blas").map(|blas| format!(" ({blas})")).unwrap_or_default();
    format!("Python, {threads}{blas}")
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let column = |title: &str, cell: fn(&ParallelMode) -> String| {
        let name = |key: &(usize, usize, String)| key.2.clone();
        compare(title, ("what", Align::Left), all, name, |named| {
            let mut cells = Vec::new();
            for (place, modes) in named.evaluation.modes.iter().enumerate() {
                cells.extend(modes.modes.iter().enumerate().map(|(order, mode)| {
                    ((place, order, format!("{}, {}", short(modes), mode.name)), cell(mode))
                }));
            }
            cells
        })
    };
    vec![
        column("Seconds for all tasks (95 % interval)", |mode| with_interval(&mode.seconds, number, number)),
        column("Speed-up over serial (95 % interval)", |mode| with_interval(&mode.speedup, times, factor)),
    ]
}

/// Returns the program without its BLAS, whose name differs between machines.
pub fn short(modes: &ParallelModes) -> String {
    program(modes).split(" (").next().unwrap_or_default().to_owned()
}
