//! Lines about the selected process: control group, pressure, and memory by node.

use super::{View, pen::Pen};
use crate::{
    details::{Pressure, ProcessDetails},
    picture::remote,
};
use manycore_text::units;

impl View {
    /// Returns the number of rows that the details need in so many rows.
    pub(super) fn detail_rows(&self, height: u16) -> u16 {
        match self.tasks.selected() {
            None => 0,
            Some(_) if height < 10 => 1,
            Some(_) => 2,
        }
    }

    pub(super) fn draw_details(&self, pen: &mut Pen<'_>) {
        let Some(row) = self.tasks.selected() else { return };
        let details =
            self.picture.details.iter().find(|(pid, _)| *pid == row.pid).map(|(_, details)| details);
        let (bar, label) = (pen.theme.bar(), pen.theme.strong());
        for y in 0..pen.area.height {
            pen.fill(y, bar);
        }
        let x = pen.text(0, 0, &format!("{} {}  ", row.pid, row.name.printable()), label);
        let Some(details) = details else {
            let state = if self.moment.is_paused { "not read at this time" } else { "being read" };
            pen.text(x, 0, state, bar);
            return;
        };
        let group = details.cgroup.as_deref().unwrap_or("unknown");
        let pressure = pressures(details);
        pen.text(x, 0, &format!("{pressure}  group {group}"), bar);
        pen.text(0, 1, &self.memory_text(row.pid, details), bar);
    }

    /// Returns where the memory of a process is, and how much of it is remote.
    fn memory_text(&self, pid: u32, details: &ProcessDetails) -> String {
        let Some(nodes) = &details.node_kib else {
            return if self.has_memory_by_node {
                "Memory by node: unknown (another user's process, or a kernel without NUMA)".to_owned()
            } else {
                "Memory by node: press d (the kernel visits each page table of the process)".to_owned()
            };
        };
        if nodes.is_empty() {
            return "Memory by node: none (a kernel thread, or it has ended)".to_owned();
        }
        let parts: Vec<String> =
            nodes.iter().map(|(node, kib)| format!("node {node} {}", units::bytes(kib << 10))).collect();
        let used = self.picture.nodes_of(pid);
        let share = 100.0 * remote(nodes, &used).unwrap_or(0.0);
        let lasts = if used.len() == 1 { "node" } else { "nodes" };
        format!("Memory: {}; {share:.0} % remote to {lasts} {used}, where it ran last", parts.join(", "))
    }
}

fn pressures(details: &ProcessDetails) -> String {
    let of = |name: &str, pressure: Option<Pressure>| {
        pressure.map(|pressure| format!(" {name} {:.1} %", pressure.some_percent))
    };
    let parts: Vec<String> = [("CPU", details.cpu), ("memory", details.memory), ("disk", details.io)]
        .into_iter()
        .filter_map(|(name, pressure)| of(name, pressure))
        .collect();
    if parts.is_empty() { "PSI: none".to_owned() } else { format!("PSI of 10 s:{}", parts.concat()) }
}
