//! Scheduler counters of the scaling test: steal, run delay, migrations and others.

use crate::sections::{NamedEvaluation, Table, by_workers};
use manycore_analysis::SchedulerCounters;
use manycore_render::{
    figure::{factor, number, optional, percent},
    table::Align,
};

/// A column of the table.
struct Column {
    head: &'static str,
    show: fn(f64) -> String,
    pick: fn(&SchedulerCounters) -> Option<f64>,
    /// What the figure is.
    meaning: &'static str,
}

const STEAL: Column = Column {
    head: "steal",
    show: percent,
    pick: |counters| counters.steal,
    meaning: "the share of the CPUs' busy time that the hypervisor took",
};

const OTHER_WORK: Column = Column {
    head: "other",
    show: percent,
    pick: |counters| counters.other_work,
    meaning: "the share of the CPUs' time that other work used",
};

const RUN_DELAY: Column = Column {
    head: "run delay",
    show: percent,
    pick: |counters| counters.run_delay,
    meaning: "the share of the workers' time in which they were runnable and waited for a CPU",
};

const COLUMNS: [Column; 11] = [
    Column {
        head: "used",
        show: percent,
        pick: |counters| counters.cpu_time,
        meaning: "the share of the time that the workers could have had",
    },
    STEAL,
    OTHER_WORK,
    RUN_DELAY,
    Column {
        head: "throttled",
        show: percent,
        pick: |counters| counters.throttled,
        meaning: "the share of the time that the workers could have had in which a quota stopped them",
    },
    Column {
        head: "PSI some",
        show: percent,
        pick: |counters| counters.cpu_pressure,
        meaning: "the share of time in which at least one task waited for a CPU",
    },
    Column {
        head: "GHz",
        show: |khz| factor(khz / 1e6),
        pick: |counters| counters.frequency_khz,
        meaning: "the mean clock of the CPUs",
    },
    Column {
        head: "migr/s",
        show: number,
        pick: |counters| counters.migrations_per_second,
        meaning: "migrations between CPUs, per second and worker",
    },
    Column {
        head: "preempt/s",
        show: number,
        pick: |counters| counters.preemptions_per_second,
        meaning: "involuntary context switches, per second and worker",
    },
    Column {
        head: "events/CPU s",
        show: number,
        pick: |counters| counters.rate_per_cpu_second,
        meaning: "work per second of CPU time",
    },
    Column {
        head: "thermal",
        show: |events| format!("{events:.0}"),
        pick: |counters| counters.thermal_events.map(|events| events as f64),
        meaning: "how often CPUs were slowed down because they were too hot",
    },
];

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(scaling) = &named.evaluation.scaling else { return Vec::new() };
    // A column without any figure is omitted, and so is its explanation.
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| scaling.points.iter().any(|point| (column.pick)(&point.counters).is_some()))
        .collect();
    let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
    let mut table = Table::numeric("By number of workers", ("workers", Align::Right), &heads);
    for point in &scaling.points {
        let cells = columns.iter().map(|column| optional((column.pick)(&point.counters), column.show));
        table.rows.push(std::iter::once(point.workers.to_string()).chain(cells).collect());
    }
    let meanings: Vec<String> =
        columns.iter().map(|column| format!("{}: {}", column.head, column.meaning)).collect();
    table.notes.push(format!("{}.", meanings.join("; ")));
    if columns.is_empty() { Vec::new() } else { vec![table] }
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let table = |title: &str, column: Column| {
        by_workers(title, all, |named| {
            let points = named.evaluation.scaling.iter().flat_map(|scaling| &scaling.points);
            points
                .map(|point| (point.workers, optional((column.pick)(&point.counters), column.show)))
                .collect()
        })
    };
    vec![
        table("Steal: time taken by the hypervisor", STEAL),
        table("Other work's share of the CPU time", OTHER_WORK),
        table("Run delay: time that workers waited for a CPU", RUN_DELAY),
    ]
}
