//! Tables of memory and pressure by process, of virtual machines, and of groups of resctrl.

use super::{Form, MOST_CPUS, figure, or_dash};
use crate::snapshot::{BandwidthRow, GuestRow, MemoryRow, VcpuRow};
use manycore_render::{
    figure::optional,
    table::{Align, Table},
};
use manycore_text::units::{bytes, rate};

pub(super) fn memory(rows: &[MemoryRow], form: Form) -> Table {
    let figures = ["pid", "%cpu", form.head("rss", "rss_kib"), "%remote", "%cpu psi", "%mem psi", "%io psi"];
    let mut table = Table::numeric("Memory and pressure by process", ("command", Align::Left), &figures);
    let nodes = form.head("memory by node", "kib_by_node");
    table.head.extend([nodes, "group"].map(|name| (name.to_owned(), Align::Left)));
    let row = |row: &MemoryRow| {
        let pressure = [row.cpu_pressure_percent, row.memory_pressure_percent, row.io_pressure_percent];
        let mut cells = vec![
            row.name.clone(),
            row.pid.to_string(),
            figure(row.cpu_percent),
            form.size(row.resident_kib),
            optional(row.remote_percent, figure),
        ];
        cells.extend(pressure.map(|percent| optional(percent, figure)));
        cells.push(or_dash(row.node_kib.as_ref(), |all| {
            let one = |(node, &kib): (&u32, &u64)| format!("{node}:{}", form.size(kib));
            all.iter().map(one).collect::<Vec<_>>().join(" ")
        }));
        cells.push(or_dash(row.cgroup.clone(), |path| path));
        cells
    };
    table.key_columns = 2;
    table.with_rows(rows.iter().map(row).collect())
}

/// A row for each machine, whose virtual CPU is `all`, and one for each of its virtual CPUs.
pub(super) fn guests(rows: &[GuestRow]) -> Table {
    let figures = ["pid", "vcpu", "tid", "%cpu", "%wait"];
    let mut table = Table::numeric("Virtual machines", ("machine", Align::Left), &figures);
    table.head.extend(["cpu", "allowed"].map(|name| (name.to_owned(), Align::Left)));
    table.key_columns = 3;
    table.rows = rows
        .iter()
        .flat_map(|row| {
            let vcpus = row.vcpus.iter().map(|vcpu| vcpu_cells(row, vcpu));
            [machine_cells(row)].into_iter().chain(vcpus)
        })
        .collect();
    table
}

fn machine_cells(row: &GuestRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.pid.to_string(),
        "all".to_owned(),
        "-".to_owned(),
        figure(row.cpu_percent),
        optional(row.wait_percent, figure),
        row.last_cpus.within(MOST_CPUS),
        or_dash(row.allowed.as_ref(), |cpus| cpus.within(MOST_CPUS)),
    ]
}

fn vcpu_cells(row: &GuestRow, vcpu: &VcpuRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.pid.to_string(),
        vcpu.vcpu.to_string(),
        or_dash(vcpu.tid, |tid| tid.to_string()),
        optional(vcpu.cpu_percent, figure),
        optional(vcpu.wait_percent, figure),
        or_dash(vcpu.last_cpu, |cpu| cpu.to_string()),
        or_dash(vcpu.allowed.as_ref(), |cpus| cpus.within(MOST_CPUS)),
    ]
}

pub(super) fn bandwidth(rows: &[BandwidthRow], form: Form) -> Table {
    let figures = [
        "domain",
        form.head("bandwidth", "bytes/s"),
        form.head("local", "local_bytes/s"),
        form.head("cache", "cache_bytes"),
    ];
    let table = Table::numeric("Memory bandwidth by group of resctrl", ("group", Align::Left), &figures);
    let row = |row: &BandwidthRow| {
        let speed = |value: Option<f64>| {
            or_dash(value, |value| if form == Form::Readable { rate(value) } else { format!("{value:.0}") })
        };
        let size = |size: u64| if form == Form::Readable { bytes(size) } else { size.to_string() };
        vec![
            row.group.clone(),
            row.domain.to_string(),
            speed(row.total_bytes_per_second),
            speed(row.local_bytes_per_second),
            or_dash(row.cache_bytes, size),
        ]
    };
    table.with_rows(rows.iter().map(row).collect())
}
