//! A copy of all that metrics are made of, which the thread of the server reads.

use super::{
    metrics,
    named::{MOST_NAMED, NamedUnit},
    totals::Totals,
};
use crate::{
    findings::{Finding, FindingKind},
    picture::{Picture, UnitUse},
    units::LEVELS,
};
use manycore_topology::{CpuId, CpuSet, Level};
use std::{collections::BTreeMap, sync::OnceLock};

/// A unit that has series: level, number, CPUs.
#[derive(Clone, Debug)]
pub(super) struct SeriesUnit {
    pub level: &'static str,
    pub number: u32,
    /// `None`: all CPUs that there have been.
    pub cpus: Option<CpuSet>,
}

impl SeriesUnit {
    /// Returns the labels of its series.
    pub(super) fn labels(&self) -> Vec<(&'static str, String)> {
        let cpus = self.cpus.as_ref().map_or("all".to_owned(), CpuSet::to_string);
        vec![("level", self.level.to_owned()), ("unit", self.number.to_string()), ("cpus", cpus)]
    }
}

/// What is true of a CPU at the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuState {
    pub runnable: usize,
    pub khz: Option<u64>,
    pub millidegrees: Option<i32>,
}

/// What is true of what has a name at the last sample.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedState {
    pub processes: usize,
    pub threads: usize,
    pub runnable: usize,
    pub resident_kib: u64,
    /// By node in KiB; absent unless it is known of all of its processes.
    pub node_kib: Option<BTreeMap<u32, u64>>,
    pub quota_milli: Option<u64>,
    pub pressure: Option<[f64; 3]>,
}

/// Totals, and the state at the last sample.
#[derive(Debug)]
pub(super) struct Published {
    pub totals: Totals,
    pub units: Vec<SeriesUnit>,
    pub cpus: BTreeMap<CpuId, CpuState>,
    pub named: BTreeMap<String, NamedState>,
    /// Shares of the interval in which some task of the machine waited for CPUs, memory and disks.
    pub pressure: Option<[f64; 3]>,
    /// Number of findings by kind; 0 for kinds of which there is none.
    pub findings: [(FindingKind, usize); FindingKind::ALL.len()],
    pub unix_ms: u64,
    pub seconds: f64,
    /// The metrics, once one client has read them: several can read those of one sample.
    text: OnceLock<String>,
}

impl Published {
    pub(super) fn new(
        totals: &Totals,
        picture: &Picture,
        named: &[NamedUnit],
        findings: &[Finding],
        per_cpu: bool,
    ) -> Self {
        let root = picture.groups.iter().find(|group| matches!(&*group.now.path, "" | "/"));
        let named = &named[..named.len().min(MOST_NAMED)];
        Self {
            totals: totals.clone(),
            units: units(picture, per_cpu),
            cpus: cpus(picture),
            named: named.iter().map(|unit| (unit.label(), state(unit, picture))).collect(),
            pressure: root.and_then(|root| root.pressure),
            findings: FindingKind::ALL
                .map(|(kind, _)| (kind, findings.iter().filter(|one| one.kind == kind).count())),
            unix_ms: picture.unix_ms,
            seconds: picture.seconds,
            text: OnceLock::new(),
        }
    }

    /// Returns all metrics in the `OpenMetrics` format.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| metrics::text(self))
    }

    /// Returns the states of the CPUs of a unit.
    pub(super) fn states<'a>(&'a self, unit: &'a SeriesUnit) -> impl Iterator<Item = CpuState> + 'a {
        let is_in = |cpu: CpuId| unit.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        self.cpus.iter().filter(move |(cpu, _)| is_in(**cpu)).map(|(_, state)| *state)
    }
}

/// Returns the units that have series. Clusters of one CPU each are CPUs, and have series only as such.
fn units(picture: &Picture, per_cpu: bool) -> Vec<SeriesUnit> {
    let mut units = vec![SeriesUnit { level: "machine", number: 0, cpus: None }];
    for level in LEVELS.into_iter().rev() {
        let all: Vec<&UnitUse> = picture.units_of(level).collect();
        if level == Level::Cluster && all.iter().all(|unit| unit.cpus.len() < 2) {
            continue;
        }
        units.extend(all.iter().map(|unit| SeriesUnit {
            level: level.name(),
            number: unit.number,
            cpus: Some(unit.cpus.clone()),
        }));
    }
    if per_cpu {
        units.extend(picture.cpus.iter().map(|one| SeriesUnit {
            level: "cpu",
            number: one.cpu,
            cpus: Some(CpuSet::single(one.cpu)),
        }));
    }
    units
}

fn cpus(picture: &Picture) -> BTreeMap<CpuId, CpuState> {
    let state = |one: &crate::CpuUse| CpuState {
        runnable: one.runnable,
        khz: one.khz,
        millidegrees: one.millidegrees,
    };
    picture.cpus.iter().map(|one| (one.cpu, state(one))).collect()
}

fn state(unit: &NamedUnit, picture: &Picture) -> NamedState {
    let group = unit.group_of(picture);
    let mut state = NamedState {
        quota_milli: group.and_then(|group| group.now.quota_milli),
        pressure: group.and_then(|group| group.pressure),
        node_kib: Some(BTreeMap::new()),
        ..NamedState::default()
    };
    for process in unit.processes(picture) {
        state.processes += 1;
        let details = picture.details.iter().find(|(pid, _)| *pid == process.pid);
        match (details.and_then(|(_, details)| details.node_kib.as_ref()), &mut state.node_kib) {
            (Some(nodes), Some(sums)) => {
                for (&node, kib) in nodes {
                    *sums.entry(node).or_default() += kib;
                }
            }
            _ => state.node_kib = None,
        }
    }
    let mut last = None;
    for task in unit.tasks(picture) {
        state.threads += 1;
        state.runnable += usize::from(task.state == 'R');
        // All threads of a process have its resident set.
        if last.replace(task.id.pid) != Some(task.id.pid) {
            state.resident_kib += task.resident_kib;
        }
    }
    state
}
