//! The table of tasks: its rows, their order as list or tree, and the selected task.

use super::{
    Restriction,
    map::levels::MapLevels,
    pen::Pen,
    table::{self, TablePlace, TableRows, TableState},
    task_rows::{ColumnKind, ColumnSet, TaskChoice, TaskRow, TaskRows},
    tree,
};
use crate::{picture::Picture, snapshot::Order};
use manycore_topology::Machine;
use std::collections::BTreeMap;

/// The table.
#[derive(Debug)]
pub(super) struct TaskTable {
    pub is_by_process: bool,
    pub is_tree: bool,
    pub has_no_kernel: bool,
    pub columns: ColumnSet,
    /// What the sorting column shows: columns change with the width and with the rows.
    sort: ColumnKind,
    state: TableState,
    rows: TaskRows,
    strokes: Vec<String>,
    /// Ids of the selected process and thread, which is selected again in the next picture.
    selected: Option<(u32, u32)>,
}

impl TaskTable {
    /// Returns a table without rows, which will be sorted by `order`.
    pub fn new(order: Order) -> Self {
        Self {
            is_by_process: true,
            is_tree: false,
            has_no_kernel: false,
            columns: ColumnSet::default(),
            sort: match order {
                Order::Cpu => ColumnKind::Run,
                Order::Wait => ColumnKind::Wait,
                Order::Migrations => ColumnKind::Migrations,
                Order::Switches => ColumnKind::Switches,
                Order::Memory => ColumnKind::Resident,
            },
            state: TableState::default(),
            rows: TaskRows::default(),
            strokes: Vec::new(),
            selected: None,
        }
    }

    /// Makes the rows of a picture. The selected task stays selected if it is still there, otherwise its place in the
    /// table.
    pub fn refresh(
        &mut self,
        (machine, levels): (&Machine, &MapLevels),
        picture: &Picture,
        limits: &[Restriction],
        filter: &str,
    ) {
        let choice = TaskChoice {
            is_by_process: self.is_by_process,
            has_no_kernel: self.has_no_kernel,
            columns: self.columns,
            cpus: limits.iter().rev().find_map(|one| match one {
                Restriction::Unit(_, cpus) => Some(cpus.clone()),
                _ => None,
            }),
            pid: limits.iter().rev().find_map(|one| match one {
                Restriction::Process(pid, ..) => Some(*pid),
                _ => None,
            }),
        };
        self.selected = self.selected_ids();
        self.rows = TaskRows::new(machine, picture, &choice, levels);
        self.arrange(filter);
        self.select_again();
    }

    fn selected_ids(&self) -> Option<(u32, u32)> {
        self.selected().map(|row| (row.pid, row.tid))
    }

    /// Sorts and filters the rows that are there.
    fn arrange(&mut self, filter: &str) {
        // The other columns may not have it.
        let sort = self.rows.column_of(self.sort);
        self.state.sort = sort.or_else(|| self.rows.column_of(ColumnKind::Run));
        self.strokes.clear();
        if self.is_tree {
            let sort = self.state.sort.take();
            self.state.arrange(&self.rows, filter);
            self.state.sort = sort;
            self.strokes = tree::arrange(&mut self.state.order, &self.rows, sort, self.state.is_reversed);
        } else {
            self.state.arrange(&self.rows, filter);
        }
    }

    fn select_again(&mut self) {
        let Some((pid, tid)) = self.selected.filter(|_| self.state.cursor.is_some()) else { return };
        let rows = &self.rows.rows;
        let place = |same_thread: bool| {
            self.state.order.iter().position(|&row| {
                let row = &rows[row as usize];
                row.pid == pid && (!same_thread || row.tid == tid)
            })
        };
        // A thread's process takes its place when rows become processes.
        self.state.cursor = place(true).or_else(|| place(false)).or(self.state.cursor);
        self.state.limit();
    }

    /// Returns the selected row.
    pub fn selected(&self) -> Option<&TaskRow> {
        self.state.selected().and_then(|row| self.rows.rows.get(row))
    }

    /// Returns a row of each process on the screen, ascending by process.
    pub fn processes_on_screen(&self) -> Vec<&TaskRow> {
        let rows = self.state.order.iter().skip(self.state.offset).take(self.state.page.max(1));
        let rows = rows.map(|&row| &self.rows.rows[row as usize]);
        let by_pid: BTreeMap<u32, &TaskRow> = rows.map(|row| (row.pid, row)).collect();
        by_pid.into_values().collect()
    }

    /// Undoes the selection.
    pub fn deselect(&mut self) -> bool {
        self.state.cursor.take().is_some()
    }

    /// Returns the number of rows that are shown.
    pub fn shown(&self) -> usize {
        self.state.order.len()
    }

    /// Returns the order and the rows.
    pub fn parts(&mut self) -> (&mut TableState, &dyn TableRows) {
        (&mut self.state, &self.rows)
    }

    /// Sorts by a column; the same again reverses it. The caller refreshes.
    pub fn sort_by(&mut self, column: usize) {
        if let Some(kind) = self.rows.kind_of(column) {
            self.sort_by_kind(kind);
        }
    }

    /// Sorts by what a column shows; the same again reverses it.
    pub fn sort_by_kind(&mut self, kind: ColumnKind) {
        self.state.is_reversed = self.sort == kind && !self.state.is_reversed;
        self.sort = kind;
    }

    /// Draws the table.
    pub fn draw(&mut self, pen: &mut Pen<'_>) -> TablePlace {
        let strokes = &self.strokes;
        table::draw(pen, &self.rows, &mut self.state, &|at| strokes.get(at).cloned().unwrap_or_default())
    }
}
