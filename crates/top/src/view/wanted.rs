//! What the next samples need for what is shown.

use super::{View, ViewScreen, metric::CpuMetric, task_rows::ColumnSet};
use crate::{
    memory_tour::{LARGE_PROCESS_KIB, has_memory_nodes},
    resources::{GroupParts, GuestSearch, Wanted, joined},
};

impl View {
    /// Returns what the next samples need for what is shown.
    pub fn wanted(&self) -> Wanted {
        let is_map = self.screen == ViewScreen::Cpus;
        let processes =
            if self.has_resource_columns() { self.tasks.processes_on_screen() } else { Vec::new() };
        let on_screen: Vec<u32> = processes.iter().map(|one| one.pid).collect();
        let selected: Vec<u32> = self.selected_process().into_iter().collect();
        let chosen: &[u32] = if self.has_memory_by_node { &selected } else { &[] };
        // The kernel visits each page table of a process: one of them in each sample.
        let turn = processes.get(self.pictures % processes.len().max(1));
        let is_possible = has_memory_nodes(&self.machine) && !self.moment.is_paused;
        let in_turn = turn.filter(|one| is_possible && one.resident_kib <= LARGE_PROCESS_KIB);
        let in_turn: Vec<u32> = in_turn.iter().map(|one| one.pid).collect();
        Wanted {
            interrupts: self.screen == ViewScreen::Interrupts
                || is_map && self.values.metric == CpuMetric::Interrupts,
            nodes: self.screen == ViewScreen::Nodes,
            bandwidth: self.screen == ViewScreen::Nodes || self.has_resource_columns(),
            groups: if self.screen == ViewScreen::Groups { GroupParts::All } else { GroupParts::None },
            guests: if self.screen == ViewScreen::Guests { GuestSearch::Always } else { GuestSearch::Never },
            frequency: is_map && matches!(self.values.metric, CpuMetric::Frequency | CpuMetric::Temperature),
            counters: self.screen.has_tasks(),
            details: joined(&selected, &on_screen),
            memory_of: joined(chosen, &in_turn),
        }
    }

    fn has_resource_columns(&self) -> bool {
        self.screen.has_tasks() && self.tasks.columns == ColumnSet::Resources
    }

    /// Returns the process of the selected row of the table of tasks.
    fn selected_process(&self) -> Option<u32> {
        self.tasks.selected().filter(|_| self.screen.has_tasks()).map(|row| row.pid)
    }
}
