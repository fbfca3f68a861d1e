//! The columns of the table of tasks. Those with large numbers are left out first where room is short.

use super::{ColumnKind, TaskChoice, TaskRows};
use crate::{
    memory_tour::has_memory_nodes,
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
        self.add_identity(choice);
        self.add(Kind::Run, Column::figure("CPU%", 6, 0));
        self.add(Kind::Wait, Column::figure("WAIT%", 6, 1));
        self.add(Kind::Cpu, Column::id("CPU", 4, 2));
        if unit.is_some() {
            self.add(Kind::Unit, Column::id(&unit_name, 7, 4));
        }
        if has_plans {
            self.add(Kind::Plan, Column::text("PLAN", 6, 0, 3));
        }
        self.add(Kind::Migrations, Column::figure("MIGR/s", 7, 3));
        for (at, within, level) in distances.all().filter(|_| unit.is_some()) {
            let before = if within { "IN" } else { "X" };
            let title = format!("{before}-{}/s", short(level));
            // Those over larger distances matter more; those within a cluster are the rest of all.
            self.add(Kind::Kind(at), Column::figure(&title, title.len().max(8) as u16, 14 - at as u8));
        }
        if has_counters {
            self.add(Kind::Ipc, Column::figure("IPC", 5, 5));
            self.add(Kind::Misses, Column::figure("MISS/s", 6, 6));
        }
        self.add(Kind::Switches, Column::figure("SWITCH/s", 8, 15));
        self.add(Kind::Voluntary, Column::figure("VOL/s", 6, 8));
        self.add(Kind::Involuntary, Column::figure("INVOL/s", 7, 6));
        self.add(Kind::Resident, Column::figure("MEMORY", 8, 4));
        if choice.is_by_process {
            self.add(Kind::Threads, Column::figure("THR", 5, 9));
        }
        self.add(Kind::Allowed, Column::text("ALLOWED", 9, 24, 5));
    }

    /// Sets the columns about resources beside CPU time.
    pub(super) fn set_resource_columns(
        &mut self,
        choice: &TaskChoice,
        machine: &Machine,
        has_bandwidth: bool,
    ) {
        use ColumnKind as Kind;
        self.add_identity(choice);
        self.add(Kind::Run, Column::figure("CPU%", 6, 0));
        self.add(Kind::Wait, Column::figure("WAIT%", 6, 6));
        self.add(Kind::Cpu, Column::id("CPU", 4, 8));
        self.add(Kind::Resident, Column::figure("MEMORY", 8, 0));
        if has_memory_nodes(machine) {
            self.add(Kind::Remote, Column::figure("REMOTE%", 7, 1));
            self.add(Kind::NodeMemory, Column::text("BY NODE", 16, 40, 5));
        }
        for (at, title) in PRESSURES.into_iter().enumerate() {
            self.add(Kind::Pressure(at), Column::figure(title, 7, 2 + at as u8));
        }
        if has_bandwidth {
            self.add(Kind::Bandwidth, Column::figure("BANDWIDTH", 10, 2));
            self.add(Kind::Cache, Column::figure("CACHE", 8, 5));
        }
        self.add(Kind::Group, Column::text("GROUP", 12, 60, 7));
    }

    /// Adds the columns that say which task a row is.
    fn add_identity(&mut self, choice: &TaskChoice) {
        self.add(ColumnKind::Pid, Column::id("PID", 7, 1));
        if !choice.is_by_process {
            self.add(ColumnKind::Tid, Column::id("TID", 7, 6));
        }
        self.add(ColumnKind::Name, Column::text("NAME", 15, 9, 0));
        self.add(ColumnKind::User, Column::text("USER", 8, 4, 7));
        self.add(ColumnKind::State, Column::text("S", 1, 0, 7));
    }

    fn add(&mut self, kind: ColumnKind, column: Column) {
        self.kinds.push(kind);
        self.columns.push(column);
    }
}

/// Returns the name of a level in the title of a column.
fn short(level: Level) -> &'static str {
    match level {
        Level::Cluster => "CL",
        Level::Llc => "LLC",
        _ => "NODE",
    }
}
