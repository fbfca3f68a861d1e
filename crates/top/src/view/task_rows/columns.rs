//! The columns of the table of tasks. Those with large numbers are left out first where room is short.

use super::{ColumnKind, TaskChoice, TaskRows};
use crate::{
    units::Distances,
    view::{map::levels::MapLevels, table::Column},
};
use manycore_topology::{Level, Machine};

/// Pressure on CPUs, memory and disks.
const PRESSURES: [&str; 3] = ["PSI-CPU", "PSI-MEM", "PSI-IO"];

impl TaskRows {
    /// Sets the columns about scheduling.
    pub(super) fn set_columns(&mut self, choice: &TaskChoice, levels: &MapLevels, distances: Distances) {
        use ColumnKind as Kind;
        let unit = levels.shared();
        let unit_name = unit.map_or("", |level| level.name()).to_uppercase();
        let (has_plans, has_counters) = (self.has_plans, self.has_counters);
        let mut add = |kind, column| {
            self.kinds.push(kind);
            self.columns.push(column);
        };
        for (kind, column) in identity(choice) {
            add(kind, column);
        }
        add(Kind::Run, Column::figure("CPU%", 6, 0));
        add(Kind::Wait, Column::figure("WAIT%", 6, 1));
        add(Kind::Cpu, Column::id("CPU", 4, 2));
        if unit.is_some() {
            add(Kind::Unit, Column::id(&unit_name, 7, 4));
        }
        if has_plans {
            add(Kind::Plan, Column::text("PLAN", 6, 0, 3));
        }
        add(Kind::Migrations, Column::figure("MIGR/s", 7, 3));
        for (at, within, level) in distances.all().filter(|_| unit.is_some()) {
            let before = if within { "IN" } else { "X" };
            let title = format!("{before}-{}/s", short(level));
            // Those over larger distances matter more; those within a cluster are the rest of all.
            add(Kind::Kind(at), Column::figure(&title, title.len().max(8) as u16, 14 - at as u8));
        }
        if has_counters {
            add(Kind::Ipc, Column::figure("IPC", 5, 5));
            add(Kind::Misses, Column::figure("MISS/s", 6, 6));
        }
        add(Kind::Switches, Column::figure("SWITCH/s", 8, 15));
        add(Kind::Voluntary, Column::figure("VOL/s", 6, 8));
        add(Kind::Involuntary, Column::figure("INVOL/s", 7, 6));
        add(Kind::Resident, Column::figure("MEMORY", 8, 4));
        if choice.is_by_process {
            add(Kind::Threads, Column::figure("THR", 5, 9));
        }
        add(Kind::Allowed, Column::text("ALLOWED", 9, 24, 5));
    }

    /// Sets the columns about resources beside CPU time.
    pub(super) fn set_resource_columns(
        &mut self,
        choice: &TaskChoice,
        machine: &Machine,
        has_bandwidth: bool,
    ) {
        use ColumnKind as Kind;
        let mut add = |kind, column| {
            self.kinds.push(kind);
            self.columns.push(column);
        };
        for (kind, column) in identity(choice) {
            add(kind, column);
        }
        add(Kind::Run, Column::figure("CPU%", 6, 0));
        add(Kind::Wait, Column::figure("WAIT%", 6, 6));
        add(Kind::Cpu, Column::id("CPU", 4, 8));
        add(Kind::Resident, Column::figure("MEMORY", 8, 0));
        if has_memory_nodes(machine) {
            add(Kind::Remote, Column::figure("REMOTE%", 7, 1));
            add(Kind::NodeMemory, Column::text("BY NODE", 16, 40, 5));
        }
        for (at, title) in PRESSURES.into_iter().enumerate() {
            add(Kind::Pressure(at), Column::figure(title, 7, 2 + at as u8));
        }
        if has_bandwidth {
            add(Kind::Bandwidth, Column::figure("BANDWIDTH", 10, 2));
            add(Kind::Cache, Column::figure("CACHE", 8, 5));
        }
        add(Kind::Group, Column::text("GROUP", 12, 60, 7));
    }
}

/// Returns whether memory can be near or far.
pub(in crate::view) fn has_memory_nodes(machine: &Machine) -> bool {
    machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count() > 1
}

/// Returns the columns that say which task a row is.
fn identity(choice: &TaskChoice) -> Vec<(ColumnKind, Column)> {
    let mut columns = vec![(ColumnKind::Pid, Column::id("PID", 7, 1))];
    if !choice.is_by_process {
        columns.push((ColumnKind::Tid, Column::id("TID", 7, 6)));
    }
    columns.push((ColumnKind::Name, Column::text("NAME", 15, 9, 0)));
    columns.push((ColumnKind::User, Column::text("USER", 8, 4, 7)));
    columns.push((ColumnKind::State, Column::text("S", 1, 0, 7)));
    columns
}

/// Returns the name of a level in the title of a column.
fn short(level: Level) -> &'static str {
    match level {
        Level::Cluster => "CL",
        Level::Llc => "LLC",
        _ => "NODE",
    }
}
