//! Scheduler counters of the scaling test: steal, run delay, migrations and others.

use crate::sections::{NamedEvaluation, Table, by_workers};
use manycore_analysis::SchedulerCounters;
use manycore_render::{
    figure::{factor, number, optional, percent},
    table::Align,
};

/// Header of a column, the format of its figure, and the figure.
type Column = (&'static str, fn(f64) -> String, fn(&SchedulerCounters) -> Option<f64>);

const COLUMNS: [Column; 11] = [
    ("used", percent, |counters| counters.cpu_time),
    ("steal", percent, |counters| counters.steal),
    ("other", percent, |counters| counters.other_work),
    ("run delay", percent, |counters| counters.run_delay),
    ("throttled", percent, |counters| counters.throttled),
    ("PSI some", percent, |counters| counters.cpu_pressure),
    ("GHz", |khz| factor(khz / 1e6), |counters| counters.frequency_khz),
    ("migr/s", number, |counters| counters.migrations_per_second),
    ("preempt/s", number, |counters| counters.preemptions_per_second),
    ("events/CPU s", number, |counters| counters.rate_per_cpu_second),
    (
        "thermal",
        |events| format!("{events:.0}"),
        |counters| counters.thermal_events.map(|events| events as f64),
    ),
];

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(scaling) = &named.evaluation.scaling else { return Vec::new() };
    // A column without any figure is omitted.
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(_, _, pick)| scaling.points.iter().any(|point| pick(&point.counters).is_some()))
        .collect();
    let heads: Vec<&str> = columns.iter().map(|column| column.0).collect();
    let mut table = Table::numeric("By number of workers", ("workers", Align::Right), &heads);
    for point in &scaling.points {
        let cells = columns.iter().map(|(_, show, pick)| optional(pick(&point.counters), *show));
        table.rows.push(std::iter::once(point.workers.to_string()).chain(cells).collect());
    }
    table.notes.push(
        "Used and throttled are shares of the time that the workers could have had, steal of the time in which CPUs \
         were busy. Run delay is the share of the workers' time in which they were runnable and waited for a CPU. \
         Other is the share of the whole machine's time that other work used. Migrations and preemptions are \
         per second and worker."
            .to_owned(),
    );
    if columns.is_empty() { Vec::new() } else { vec![table] }
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let column = |title: &str, index: usize| {
        let (_, show, pick) = COLUMNS[index];
        by_workers(title, all, |named| {
            let points = named.evaluation.scaling.iter().flat_map(|scaling| &scaling.points);
            points.map(|point| (point.workers, optional(pick(&point.counters), show))).collect()
        })
    };
    vec![
        column("Steal: time taken by the hypervisor", 1),
        column("Other work's share of the CPU time", 2),
        column("Run delay: time that workers waited for a CPU", 3),
    ]
}
