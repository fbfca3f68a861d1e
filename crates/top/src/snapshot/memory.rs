//! Rows of what processes use beside CPU time.

use super::{Part, SnapshotOptions, build::percent, tasks};
use crate::{
    details::{Pressure, ProcessDetails},
    picture::{Picture, remote},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The memory of a process, and the pressure of its control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryRow {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Time on CPUs in percent of one CPU.
    pub cpu_percent: f64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
    /// The same in KiB by node; absent for a process of another user unless `top` runs as root, and without NUMA support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_kib: Option<BTreeMap<u32, u64>>,
    /// The share in percent that is on other nodes than those where its threads ran last; absent as `node_kib`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_percent: Option<f64>,
    /// Its control group of version 2; absent without such a hierarchy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Share of the last 10 s in percent in which a task of that group waited for CPUs (PSI); absent for the root group, and
    /// on a kernel without PSI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_percent: Option<f64>,
    /// As above, for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure_percent: Option<f64>,
    /// As above, for disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_pressure_percent: Option<f64>,
}

/// Returns the processes of the part [`Part::Memory`], in the order of their rows: those of which a picture should have
/// details. None if that part is not asked for.
pub fn first_processes(picture: &Picture, options: &SnapshotOptions) -> Vec<u32> {
    if !options.parts.contains(&Part::Memory) {
        return Vec::new();
    }
    tasks::processes(picture, options).into_iter().map(|row| row.pid).collect()
}

/// Returns the rows, in the order of the processes.
pub(super) fn rows(picture: &Picture, options: &SnapshotOptions) -> Vec<MemoryRow> {
    let row = |process: super::TaskRow| {
        let known = picture.details.binary_search_by_key(&process.pid, |(pid, _)| *pid).ok();
        let details = known.map(|at| &picture.details[at].1);
        let share =
            |of: fn(&ProcessDetails) -> Option<Pressure>| details.and_then(of).map(|one| one.some_percent);
        let node_kib = details.and_then(|details| details.node_kib.clone()).filter(|kib| !kib.is_empty());
        MemoryRow {
            pid: process.pid,
            cpu_percent: process.cpu_percent,
            resident_kib: process.resident_kib,
            remote_percent: node_kib
                .as_ref()
                .and_then(|kib| remote(kib, &picture.nodes_of(process.pid)))
                .map(percent),
            node_kib,
            cgroup: details.and_then(|details| details.cgroup.clone()),
            cpu_pressure_percent: share(|details| details.cpu),
            memory_pressure_percent: share(|details| details.memory),
            io_pressure_percent: share(|details| details.io),
            name: process.name,
        }
    };
    tasks::processes(picture, options).into_iter().map(row).collect()
}
