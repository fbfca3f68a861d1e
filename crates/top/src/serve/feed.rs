//! A picture as JSON for the page: numbers for each CPU, the most busy processes, sums.

use super::named::NamedUnit;
use crate::{
    findings::Finding,
    picture::{Picture, TaskUse},
    snapshot::{migrations, rounded},
    units::LEVELS,
};
use manycore_text::names::printable;
use manycore_topology::CpuId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest number of processes.
const MOST_ROWS: usize = 50;

/// Largest number of named units on the page.
const MOST_NAMED: usize = 50;

/// Largest number of findings.
const MOST_FINDINGS: usize = 20;

/// What the page gets. Shares are in CPUs, with three decimals.
#[derive(Debug, Serialize)]
struct Feed {
    host: String,
    unix_ms: u64,
    seconds: f64,
    /// Whether migrations are counted by programs in the kernel; otherwise there may be more.
    is_exact: bool,
    totals: FeedTotals,
    /// Numbers of the CPUs, in the order of the values of `metrics`.
    cpus: Vec<CpuId>,
    metrics: FeedMetrics,
    /// CPU lists of the units by level.
    levels: BTreeMap<&'static str, Vec<String>>,
    /// Numbers of the units by level, in the order of `levels`.
    numbers: BTreeMap<&'static str, Vec<u32>>,
    processes: Vec<FeedProcess>,
    named: Vec<FeedNamed>,
    findings: Vec<FeedFinding>,
}

#[derive(Debug, Serialize)]
struct FeedTotals {
    busy: f64,
    wait: f64,
    steal: f64,
    interrupts: f64,
    runnable: Option<u64>,
    blocked: Option<u64>,
    switches: Option<f64>,
    processes: usize,
    threads: usize,
    memory_kib: Option<(u64, u64)>,
}

/// Values by CPU; `null` where one is unknown.
#[derive(Debug, Default, Serialize)]
struct FeedMetrics {
    busy: Vec<Option<f64>>,
    wait: Vec<Option<f64>>,
    steal: Vec<Option<f64>>,
    interrupts: Vec<Option<f64>>,
}

#[derive(Debug, Default, Serialize)]
struct FeedProcess {
    pid: u32,
    name: String,
    run: f64,
    wait: f64,
    threads: u32,
    /// Migrations per second, and whether all are counted.
    migrations: f64,
    is_exact: bool,
    cpu: CpuId,
    resident_kib: u64,
}

#[derive(Debug, Serialize)]
struct FeedNamed {
    name: String,
    run: f64,
    wait: f64,
    threads: usize,
}

#[derive(Debug, Serialize)]
struct FeedFinding {
    kind: &'static str,
    text: String,
    fix: Option<String>,
    seconds: f64,
}

/// Returns a picture as JSON.
pub(super) fn json(picture: &Picture, named: &[NamedUnit], findings: &[Finding], host: &str) -> String {
    let feed = Feed {
        host: printable(host),
        unix_ms: picture.unix_ms,
        seconds: rounded(picture.seconds),
        is_exact: picture.latency.is_some(),
        totals: totals(picture),
        cpus: picture.cpus.iter().map(|one| one.cpu).collect(),
        metrics: metrics(picture),
        levels: LEVELS
            .map(|level| (level.name(), picture.units_of(level).map(|unit| unit.cpus.to_string()).collect()))
            .into(),
        numbers: LEVELS
            .map(|level| (level.name(), picture.units_of(level).map(|unit| unit.number).collect()))
            .into(),
        processes: processes(picture),
        named: named.iter().take(MOST_NAMED).map(|unit| named_row(unit, picture)).collect(),
        findings: findings.iter().take(MOST_FINDINGS).map(finding).collect(),
    };
    // All keys are strings and all numbers are finite or become `null`.
    serde_json::to_string(&feed).unwrap_or_default()
}

fn totals(picture: &Picture) -> FeedTotals {
    let shares = || picture.cpus.iter().filter_map(|one| one.shares);
    FeedTotals {
        busy: rounded(shares().map(|one| one.busy()).sum()),
        wait: rounded(picture.wait().unwrap_or(0.0)),
        steal: rounded(shares().map(|one| one.steal).sum()),
        interrupts: rounded(shares().map(|one| one.irq + one.softirq).sum()),
        runnable: picture.runnable,
        blocked: picture.blocked,
        switches: picture.switches.map(f64::round),
        processes: picture.processes.len(),
        threads: picture.tasks.len(),
        memory_kib: picture.memory_kib,
    }
}

fn metrics(picture: &Picture) -> FeedMetrics {
    let mut metrics = FeedMetrics::default();
    for one in &picture.cpus {
        let share = |of: fn(&crate::CpuShares) -> f64| one.shares.as_ref().map(of).map(rounded);
        metrics.busy.push(share(crate::CpuShares::busy));
        metrics.steal.push(share(|shares| shares.steal));
        metrics.interrupts.push(share(|shares| shares.irq + shares.softirq));
        metrics.wait.push(one.wait.map(rounded));
    }
    metrics
}

/// Returns the processes that ran or waited most.
fn processes(picture: &Picture) -> Vec<FeedProcess> {
    let mut rows: Vec<FeedProcess> =
        picture.tasks.chunk_by(|a, b| a.id.pid == b.id.pid).filter_map(|tasks| row(picture, tasks)).collect();
    rows.sort_by(|a, b| (b.run + b.wait).total_cmp(&(a.run + a.wait)).then(a.pid.cmp(&b.pid)));
    rows.truncate(MOST_ROWS);
    rows
}

fn row(picture: &Picture, tasks: &[TaskUse]) -> Option<FeedProcess> {
    let first = tasks.first()?;
    let pid = first.id.pid;
    let most_busy = tasks.iter().max_by(|a, b| a.run.total_cmp(&b.run))?;
    let process = picture.processes.binary_search_by_key(&pid, |one| one.pid).ok();
    let clock = process.and_then(|at| picture.processes[at].run);
    let main = tasks.iter().find(|task| task.id.tid == pid).unwrap_or(first);
    let migrations = migrations(tasks, picture.seconds);
    Some(FeedProcess {
        pid,
        name: main.name.printable(),
        run: rounded(clock.unwrap_or_else(|| tasks.iter().map(|task| task.run).sum())),
        wait: rounded(tasks.iter().filter_map(|task| task.wait).sum()),
        threads: tasks.len() as u32,
        migrations: migrations.all(),
        is_exact: migrations.are_exact,
        cpu: most_busy.cpu,
        resident_kib: first.resident_kib,
    })
}

fn named_row(unit: &NamedUnit, picture: &Picture) -> FeedNamed {
    FeedNamed {
        name: unit.label(),
        run: rounded(unit.run(picture)),
        wait: rounded(unit.tasks(picture).filter_map(|task| task.wait).sum()),
        threads: unit.tasks(picture).count(),
    }
}

fn finding(finding: &Finding) -> FeedFinding {
    FeedFinding {
        kind: finding.kind.name(),
        text: printable(&finding.text),
        fix: finding.fix.as_deref().map(printable),
        seconds: finding.seconds.round(),
    }
}

#[cfg(test)]
mod tests;
