//! Lines about the selected process: control group, pressure, and memory by node.

use super::{View, pen::Pen};
use crate::details::{Pressure, ProcessDetails};
use manycore_text::units;
use manycore_topology::CpuSet;

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
            pen.text(x, 0, "being read", bar);
            return;
        };
        let group = details.cgroup.as_deref().unwrap_or("unknown");
        let group = group.trim_start_matches('/').strip_prefix("sys/fs/cgroup").unwrap_or(group);
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
        let parts: Vec<String> =
            nodes.iter().map(|(node, kib)| format!("node {node} {}", units::bytes(kib << 10))).collect();
        let all: u64 = nodes.values().sum();
        let used = self.nodes_of(pid);
        let remote: u64 = nodes.iter().filter(|(node, _)| !used.contains(**node)).map(|(_, kib)| kib).sum();
        let share = 100.0 * remote as f64 / all.max(1) as f64;
        let lasts = if used.len() == 1 { "node" } else { "nodes" };
        format!("Memory: {}; {share:.0} % remote to {lasts} {used}, where it ran last", parts.join(", "))
    }

    /// Returns the nodes of the last CPUs of a process's threads: of those that ran, if any did.
    fn nodes_of(&self, pid: u32) -> CpuSet {
        let node_of =
            |cpu: u32| self.machine.nodes.iter().find(|node| node.cpus.contains(cpu) && !node.memory_only);
        let threads = || self.picture.tasks.iter().filter(|task| task.id.pid == pid);
        let has_run = threads().any(|task| task.run > 0.0);
        let chosen = threads().filter(|task| task.run > 0.0 || !has_run);
        chosen.filter_map(|task| node_of(task.cpu)).map(|node| node.id).collect()
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
