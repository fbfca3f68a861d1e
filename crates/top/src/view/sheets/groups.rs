//! Control groups: CPU, throttling, memory and pressure.

use super::{bytes, percent};
use crate::{
    picture::{GroupUse, Picture},
    view::table::{Column, Sheet, SheetCell},
};

/// Returns the table of control groups.
pub fn groups(picture: &Picture) -> Sheet {
    let columns = vec![
        Column::text("CONTROL GROUP", 20, 60, 0),
        Column::figure("CPU%", 7, 0),
        Column::figure("QUOTA%", 7, 3),
        Column::figure("THROTTLED%", 10, 1),
        Column::figure("MEMORY", 9, 0),
        Column::figure("LIMIT", 9, 4),
        Column::figure("PSI CPU%", 8, 2),
        Column::figure("PSI MEM%", 8, 5),
        Column::figure("PSI IO%", 7, 5),
        Column::figure("PROCESSES", 9, 6),
    ];
    Sheet { columns, rows: picture.groups.iter().map(row).collect() }
}

fn row(group: &GroupUse) -> Vec<SheetCell> {
    let pressure = |at: usize| group.pressure.map(|all| all[at]);
    let memory = group.now.memory_bytes.map(|bytes| bytes as f64);
    let limit = group.now.memory_limit.map(|bytes| bytes as f64);
    let quota = group.now.quota_milli.map(|milli| milli as f64 / 1e3);
    // Before all of a group is read, only its throttling is known.
    let is_read = group.now.cpu_ns.is_some() || memory.is_some() || group.now.processes > 0;
    let processes = is_read.then_some(f64::from(group.now.processes));
    let path = if group.now.path.is_empty() { "/" } else { &*group.now.path };
    vec![
        SheetCell::text(path),
        SheetCell::figure(group.cpu, percent).hot(quota.unwrap_or(4.0)),
        SheetCell::figure(quota, percent),
        SheetCell::figure(group.throttled, percent).hot(0.2),
        SheetCell::figure(memory, bytes).hot(limit.unwrap_or(f64::INFINITY)),
        SheetCell::figure(limit, bytes),
        SheetCell::figure(pressure(0), percent).hot(0.5),
        SheetCell::figure(pressure(1), percent).hot(0.2),
        SheetCell::figure(pressure(2), percent).hot(0.5),
        SheetCell::figure(processes, |count| format!("{count:.0}")),
    ]
}
