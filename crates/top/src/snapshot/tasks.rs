//! Rows of threads, and of processes: sums over their threads.

use super::{
    Migrations, Order, SnapshotOptions, TaskRow,
    build::{percent, rounded},
};
use crate::{
    page::EndedProcess,
    picture::{CountedUse, Migration, Picture, TaskUse, user_name},
    plans::PlanState,
};
use manycore_topology::CpuSet;

/// Returns the threads in the order that is asked for.
pub(super) fn threads(picture: &Picture, options: &SnapshotOptions) -> Vec<TaskRow> {
    let rows = picture.tasks.iter().map(|task| {
        let totals = (None, None, task.counted.as_deref().copied());
        TaskRow { tid: Some(task.id.tid), ..row(std::slice::from_ref(task), totals, picture) }
    });
    largest(rows.collect(), options)
}

/// Returns the processes in the order that is asked for.
pub(super) fn processes(picture: &Picture, options: &SnapshotOptions) -> Vec<TaskRow> {
    let rows = picture.tasks.chunk_by(|a, b| a.id.pid == b.id.pid).map(|tasks| {
        let pid = tasks[0].id.pid;
        let process = picture.processes.binary_search_by_key(&pid, |process| process.pid).ok();
        let totals = process.map(|at| &picture.processes[at]).map(|one| (one.run, one.wait, one.counted));
        row(tasks, totals.unwrap_or_default(), picture)
    });
    largest(rows.collect(), options)
}

/// Time on CPUs and waits of a process, threads that have ended included, and its figures of counters, as far as they are known.
type Totals = (Option<f64>, Option<f64>, Option<CountedUse>);

/// Sums threads of one process. Their number is at least one. Totals are known beside them.
fn row(tasks: &[TaskUse], (run, wait, counted): Totals, picture: &Picture) -> TaskRow {
    let (seconds, users) = (picture.seconds, &picture.users);
    let first = tasks.iter().find(|task| task.id.tid == task.id.pid).unwrap_or(&tasks[0]);
    let sum = |of: fn(&TaskUse) -> Option<f64>| tasks.iter().filter_map(of).reduce(|sum, one| sum + one);
    let is_runnable = tasks.iter().any(|task| task.state == 'R');
    let allowed: Option<Vec<&CpuSet>> = tasks.iter().map(|task| task.allowed.as_deref()).collect();
    TaskRow {
        pid: first.id.pid,
        tid: None,
        name: first.name.printable(),
        user: first.uid.map(|uid| user_name(users, uid)),
        state: if is_runnable { 'R' } else { first.state },
        threads: tasks.len(),
        cpu_percent: percent(run.unwrap_or_else(|| tasks.iter().map(|task| task.run).sum())),
        wait_percent: sum(|task| task.wait).map(|sum| percent(wait.unwrap_or(sum))),
        cswch_per_second: sum(|task| task.voluntary).map(rounded),
        nvcswch_per_second: sum(|task| task.involuntary).map(rounded),
        migrations: migrations(tasks, seconds),
        last_cpus: tasks.iter().map(|task| task.cpu).collect(),
        allowed: allowed.map(|sets| sets.into_iter().fold(CpuSet::default(), |all, set| all.union(set))),
        plan: PlanState::of(tasks),
        resident_kib: first.resident_kib,
        ipc: counted.as_ref().and_then(CountedUse::ipc).map(rounded),
        cache_misses_per_second: counted.map(|one| rounded(one.misses)),
    }
}

/// Returns the row of a process that has ended, with what it used of an interval. What is not known of it is absent, or 0
/// where a row always has a figure.
pub(super) fn ended(process: &EndedProcess, seconds: f64) -> TaskRow {
    TaskRow {
        pid: process.pid,
        tid: None,
        name: process.name.clone(),
        user: None,
        // The kernel's letter for a dead task.
        state: 'X',
        threads: 0,
        cpu_percent: percent(process.run_seconds / seconds),
        wait_percent: Some(percent(process.wait_seconds / seconds)),
        cswch_per_second: None,
        nvcswch_per_second: None,
        migrations: Migrations::default(),
        last_cpus: CpuSet::default(),
        allowed: None,
        plan: None,
        resident_kib: 0,
        ipc: None,
        cache_misses_per_second: None,
    }
}

/// Returns the migrations of some tasks: exact ones if those of all tasks are counted.
pub(crate) fn migrations(tasks: &[TaskUse], seconds: f64) -> Migrations {
    let are_exact = tasks.iter().all(|task| task.migrations.is_some());
    let mut sums = [0.0; 4];
    for task in tasks {
        match (&task.migrations, task.migration) {
            (Some(all), _) if are_exact => {
                sums.iter_mut().zip(all.iter()).for_each(|(sum, one)| *sum += one);
            }
            (_, Some(one)) => sums[one as usize] += 1.0 / seconds,
            (_, None) => {}
        }
    }
    let at = |migration: Migration| rounded(sums[migration as usize]);
    Migrations {
        are_exact,
        within_cluster: at(Migration::WithinCluster),
        across_cluster: at(Migration::AcrossCluster),
        across_llc: at(Migration::AcrossLlc),
        across_node: at(Migration::AcrossNode),
    }
}

impl Migrations {
    /// Returns the migrations of all distances, per second.
    pub fn all(&self) -> f64 {
        self.within_cluster + self.across_cluster + self.across_llc + self.across_node
    }
}

/// Returns the first rows in descending order.
pub(super) fn largest(mut rows: Vec<TaskRow>, options: &SnapshotOptions) -> Vec<TaskRow> {
    let switches =
        |row: &TaskRow| row.cswch_per_second.unwrap_or(0.0) + row.nvcswch_per_second.unwrap_or(0.0);
    let key = |row: &TaskRow| match options.order {
        Order::Cpu => row.cpu_percent,
        Order::Wait => row.wait_percent.unwrap_or(0.0),
        Order::Migrations => row.migrations.all(),
        Order::Switches => switches(row),
        Order::Memory => row.resident_kib as f64,
    };
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    rows.truncate(options.rows);
    rows
}
