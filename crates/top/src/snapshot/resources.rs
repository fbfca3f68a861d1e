//! Rows of virtual machines and of groups of resctrl.

use super::build::{percent, rounded};
use crate::picture::{BandwidthUse, GuestUse, Picture, TaskUse};
use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;

/// What a virtual machine did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuestRow {
    /// Its name.
    pub name: String,
    /// The process of its emulator.
    pub pid: u32,
    /// Time of its virtual CPUs on CPUs, in percent of one CPU.
    pub cpu_percent: f64,
    /// Time that its virtual CPUs waited for a CPU, in percent, summed; absent if the kernel does not count it.
    pub wait_percent: Option<f64>,
    /// CPUs on which its virtual CPUs were last.
    pub last_cpus: CpuSet,
    /// The CPUs that its virtual CPUs may use; absent if unknown.
    pub allowed: Option<CpuSet>,
    /// Its virtual CPUs.
    pub vcpus: Vec<VcpuRow>,
}

/// What a virtual CPU did. All is absent if its thread has begun since.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VcpuRow {
    /// Its number.
    pub vcpu: u32,
    /// Its thread.
    pub tid: Option<u32>,
    /// Time on a CPU in percent.
    pub cpu_percent: Option<f64>,
    /// Time of waiting for a CPU in percent.
    pub wait_percent: Option<f64>,
    /// The CPU on which it was last.
    pub last_cpu: Option<CpuId>,
    /// The CPUs that it may use.
    pub allowed: Option<CpuSet>,
}

/// What a group of resctrl moved in one domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthRow {
    /// The group; `/` is the default group.
    pub group: String,
    /// Number of the last-level cache or node.
    pub domain: u32,
    /// Bytes per second to and from memory; absent if the hardware does not count them.
    pub total_bytes_per_second: Option<f64>,
    /// The part to and from memory of the own node; absent as above.
    pub local_bytes_per_second: Option<f64>,
    /// Bytes of the cache that hold data of the group; absent as above.
    pub cache_bytes: Option<u64>,
}

/// Returns the virtual machines that used most CPU time.
pub(super) fn guests(picture: &Picture, most: usize) -> Vec<GuestRow> {
    let mut rows: Vec<GuestRow> = picture.guest_uses().map(|one| guest(&one)).collect();
    rows.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
    rows.truncate(most);
    rows
}

fn guest(one: &GuestUse<'_>) -> GuestRow {
    let allowed = one.allowed();
    GuestRow {
        name: one.guest.name.to_string(),
        pid: one.guest.pid,
        cpu_percent: percent(one.run()),
        wait_percent: one.wait().map(percent),
        last_cpus: one.last_cpus(),
        allowed: (!allowed.is_empty()).then_some(allowed),
        vcpus: one.vcpus.iter().map(|&(vcpu, task)| vcpu_row(vcpu, task)).collect(),
    }
}

fn vcpu_row(vcpu: u32, task: Option<&TaskUse>) -> VcpuRow {
    VcpuRow {
        vcpu,
        tid: task.map(|task| task.id.tid),
        cpu_percent: task.map(|task| percent(task.run)),
        wait_percent: task.and_then(|task| task.wait).map(percent),
        last_cpu: task.map(|task| task.cpu),
        allowed: task.and_then(|task| task.allowed.as_deref().cloned()),
    }
}

/// Returns the groups with most traffic, each in its domains.
pub(super) fn bandwidth(picture: &Picture, most: usize) -> Vec<BandwidthRow> {
    let mut all: Vec<&BandwidthUse> = picture.bandwidth.iter().collect();
    all.sort_by(|a, b| b.total.unwrap_or(0.0).total_cmp(&a.total.unwrap_or(0.0)));
    let row = |one: &BandwidthUse| BandwidthRow {
        group: one.group.to_string(),
        domain: one.domain,
        total_bytes_per_second: one.total.map(rounded),
        local_bytes_per_second: one.local.map(rounded),
        cache_bytes: one.cache_bytes,
    };
    all.into_iter().take(most).map(row).collect()
}
