//! From a picture to a snapshot.

use super::{
    CpuPercent, CpuRow, GroupRow, InterruptRow, LatencyRow, NodeRow, Part, SnapshotOptions, SystemRow,
    TOP_SCHEMA, TopSnapshot, UnitRow, memory, resources, tasks,
};
use crate::{
    findings::Finding,
    page::EndedProcess,
    picture::{CpuShares, GroupUse, InterruptUse, NodeUse, Picture, UnitUse},
    resources::{LatencyHistogram, LatencySample},
};
use manycore_topology::Level;
use std::{
    mem::take,
    time::{Duration, SystemTime},
};

/// The last millisecond of the year 9999, the last one that times as text have.
const LAST_MS: u64 = 253_402_300_799_999;

impl TopSnapshot {
    /// Returns the parts of a picture that are asked for; `findings` are those of this moment.
    pub fn new(picture: &Picture, findings: &[Finding], options: &SnapshotOptions) -> Self {
        let has = |part| options.parts.contains(&part);
        let when = |part, of: &dyn Fn() -> Vec<super::TaskRow>| if has(part) { of() } else { Vec::new() };
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(picture.unix_ms.min(LAST_MS));
        Self {
            schema: TOP_SCHEMA.to_owned(),
            time: humantime::format_rfc3339_millis(time).to_string(),
            seconds: picture.seconds,
            has_counters: picture.has_counters,
            system: has(Part::System).then(|| system(picture)),
            units: if has(Part::Units) { units(picture) } else { Vec::new() },
            cpus: if has(Part::Cpus) { cpus(picture) } else { Vec::new() },
            processes: when(Part::Processes, &|| tasks::processes(picture, options)),
            threads: when(Part::Threads, &|| tasks::threads(picture, options)),
            memory: if has(Part::Memory) { memory::rows(picture, options) } else { Vec::new() },
            interrupts: if has(Part::Interrupts) { interrupts(picture, options.rows) } else { Vec::new() },
            nodes: if has(Part::Nodes) { picture.nodes.iter().map(node).collect() } else { Vec::new() },
            groups: if has(Part::Groups) { groups(picture, options.rows) } else { Vec::new() },
            guests: if has(Part::Guests) { resources::guests(picture, options.rows) } else { Vec::new() },
            bandwidth: if has(Part::Bandwidth) {
                resources::bandwidth(picture, options.rows)
            } else {
                Vec::new()
            },
            latency: picture.latency.as_ref().filter(|_| has(Part::Latency)).map(latency),
            findings: has(Part::Findings).then(|| findings.to_vec()),
        }
    }
}

impl TopSnapshot {
    /// Adds processes that have ended within the interval, if processes are asked for: those that belong to the first rows.
    pub fn add_ended(&mut self, ended: &[EndedProcess], options: &SnapshotOptions) {
        if options.parts.contains(&Part::Processes) {
            self.processes.extend(ended.iter().map(|one| tasks::ended(one, self.seconds)));
            self.processes = tasks::largest(take(&mut self.processes), options);
        }
    }
}

/// Returns a share in percent, to a thousandth: counters of ticks and nanoseconds give no more. The sum of nothing, -0, is 0.
pub(super) fn percent(share: f64) -> f64 {
    (share * 1e5).round() / 1e3 + 0.0
}

/// Returns a rate per second, to a thousandth; as [`percent`].
pub(crate) fn rounded(rate: f64) -> f64 {
    (rate * 1e3).round() / 1e3 + 0.0
}

fn system(picture: &Picture) -> SystemRow {
    let mut sum = CpuShares::default();
    picture.cpus.iter().filter_map(|one| one.shares.as_ref()).for_each(|shares| sum.add(shares));
    SystemRow {
        cpus: picture.cpus.len(),
        cpu_percent: (&sum).into(),
        wait_percent: percent(picture.wait().unwrap_or(0.0)),
        runnable: picture.runnable,
        blocked: picture.blocked,
        switches_per_second: picture.switches.map(rounded),
        created_per_second: picture.created.map(rounded),
        memory_kib: picture.memory_kib.map(|(all, _)| all),
        available_kib: picture.memory_kib.map(|(_, available)| available),
    }
}

/// Returns the units of the levels that have several, and that divide the CPUs otherwise than the level before.
fn units(picture: &Picture) -> Vec<UnitRow> {
    let mut rows = Vec::new();
    let mut before: Vec<&UnitUse> = Vec::new();
    for level in [Level::Cluster, Level::Llc, Level::Node] {
        let now: Vec<&UnitUse> = picture.units_of(level).collect();
        let is_other = !now.iter().map(|unit| &unit.cpus).eq(before.iter().map(|unit| &unit.cpus));
        let is_cpus = now.iter().all(|unit| unit.cpus.len() == 1);
        if now.len() > 1 && is_other && !is_cpus {
            rows.extend(now.iter().map(|unit| UnitRow {
                level,
                cpus: unit.cpus.clone(),
                cpu_percent: (&unit.shares).into(),
                wait_percent: percent(unit.task_wait),
                runnable: unit.runnable,
            }));
        }
        before = now;
    }
    rows
}

fn cpus(picture: &Picture) -> Vec<CpuRow> {
    let rows = picture.cpus.iter().map(|one| CpuRow {
        cpu: one.cpu,
        cpu_percent: one.shares.as_ref().map(CpuPercent::from),
        wait_percent: percent(one.wait.unwrap_or(0.0)),
        mhz: one.khz.map(|khz| khz / 1000),
        celsius: one.millidegrees.map(|all| f64::from(all) / 1e3),
    });
    rows.collect()
}

fn interrupts(picture: &Picture, most: usize) -> Vec<InterruptRow> {
    let row = |one: &InterruptUse| InterruptRow {
        name: one.name.to_string(),
        handlers: one.handlers.to_string(),
        per_second: rounded(one.per_second),
        by_cpu: one.by_cpu.iter().map(|&(cpu, rate)| (cpu, rounded(rate))).collect(),
    };
    picture.interrupts.iter().take(most).map(row).collect()
}

fn node(node: &NodeUse) -> NodeRow {
    NodeRow {
        node: node.now.node,
        total_kib: node.now.total_kib,
        free_kib: node.now.free_kib,
        file_kib: node.now.file_kib,
        local_pages_per_second: node.local.map(rounded),
        other_pages_per_second: node.other.map(rounded),
        missed_pages_per_second: node.missed.map(rounded),
    }
}

/// Returns the groups that used most CPU time. Where that is not known (controller cpu of version 1 without cpuacct), those
/// that were throttled most, then those with most processes.
fn groups(picture: &Picture, most: usize) -> Vec<GroupRow> {
    let mut groups: Vec<&GroupUse> = picture.groups.iter().collect();
    let most_first = |a: Option<f64>, b: Option<f64>| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0));
    groups.sort_by(|a, b| {
        most_first(a.cpu, b.cpu)
            .then(most_first(a.throttled, b.throttled))
            .then(b.now.processes.cmp(&a.now.processes))
    });
    let row = |group: &GroupUse| GroupRow {
        path: group.now.path.to_string(),
        cpu_percent: group.cpu.map(percent),
        throttled_percent: group.throttled.map(percent),
        quota_percent: group.now.quota_milli.map(|milli| milli as f64 / 10.0),
        memory_bytes: group.now.memory_bytes,
        memory_limit_bytes: group.now.memory_limit,
        processes: group.now.processes,
        pressure_percent: group.pressure.map(|all| all.map(percent)),
    };
    groups.into_iter().take(most).map(row).collect()
}

fn latency(latency: &LatencySample) -> LatencyRow {
    let quantiles = |histogram: &LatencyHistogram| {
        [0.5, 0.99, 0.999].map(|q| histogram.quantile_us(q).filter(|us| us.is_finite()))
    };
    LatencyRow {
        wakeups: latency.wakeup.count(),
        wakeup_us: quantiles(&latency.wakeup),
        displaced: latency.displaced.count(),
        displaced_us: quantiles(&latency.displaced),
    }
}

impl From<&CpuShares> for CpuPercent {
    fn from(shares: &CpuShares) -> Self {
        Self {
            usr: percent(shares.user),
            nice: percent(shares.nice),
            sys: percent(shares.system),
            iowait: percent(shares.iowait),
            irq: percent(shares.irq),
            soft: percent(shares.softirq),
            steal: percent(shares.steal),
            idle: percent(shares.idle),
        }
    }
}

impl CpuPercent {
    /// Returns the share that was neither idle nor stolen.
    pub fn busy(&self) -> f64 {
        self.usr + self.nice + self.sys + self.irq + self.soft
    }
}
