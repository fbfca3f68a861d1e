//! Threads, or processes with the sums of their threads, as rows of a table.

mod cells;
mod columns;
mod resources;

use super::{map::levels::MapLevels, table::Column};
use crate::{
    picture::{CountedUse, Migration, Picture, ProcessUse, TaskUse, UserNames, user_name},
    plans::{Plan, PlanState},
    sample::TaskName,
    units::Distances,
};
use manycore_topology::{CpuId, CpuSet, Machine};
use resources::ProcessResources;
use std::{collections::BTreeMap, sync::Arc};

/// A thread, or a process.
#[derive(Clone, Debug)]
pub(super) struct TaskRow {
    pub pid: u32,
    /// The thread; that of the process's id for a process.
    pub tid: u32,
    pub parent: u32,
    pub uid: Option<u32>,
    pub name: TaskName,
    pub state: char,
    /// Last CPU; of the thread with the most time for a process.
    pub cpu: CpuId,
    pub run: f64,
    pub wait: Option<f64>,
    pub voluntary: Option<f64>,
    pub involuntary: Option<f64>,
    /// Migrations per second by kind.
    pub migrations: [f64; 4],
    /// Whether the migrations are counted exactly.
    pub is_exact: bool,
    pub allowed: Option<Arc<CpuSet>>,
    pub plan: Option<PlanState>,
    pub resident_kib: u64,
    pub threads: u32,
    pub counted: Option<CountedUse>,
}

/// What is in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskChoice {
    /// Whether rows are processes.
    pub is_by_process: bool,
    /// Whether kernel threads are left out.
    pub has_no_kernel: bool,
    /// Threads whose last CPU is one of these only.
    pub cpus: Option<CpuSet>,
    /// Threads of this process only.
    pub pid: Option<u32>,
    pub columns: ColumnSet,
}

/// The rows, and the columns for them.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskRows {
    columns: Vec<Column>,
    kinds: Vec<ColumnKind>,
    pub rows: Vec<TaskRow>,
    /// Whether any of them was placed.
    has_plans: bool,
    has_counters: bool,
    users: Arc<UserNames>,
    /// By process; empty unless their columns are chosen.
    resources: BTreeMap<u32, ProcessResources>,
    unit_numbers: Vec<Option<u32>>,
}

/// Which columns are in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ColumnSet {
    /// Where tasks run, and how long they wait.
    #[default]
    Scheduling,
    /// Memory by node, pressure and bandwidth.
    Resources,
}

impl ColumnSet {
    pub const fn other(self) -> Self {
        match self {
            Self::Scheduling => Self::Resources,
            Self::Resources => Self::Scheduling,
        }
    }
}

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Pid,
    Tid,
    Name,
    User,
    State,
    Run,
    Wait,
    Cpu,
    Unit,
    Migrations,
    /// Migrations of one kind.
    Kind(usize),
    Ipc,
    Misses,
    Switches,
    Voluntary,
    Involuntary,
    Resident,
    Threads,
    Allowed,
    Plan,
    /// Memory by node.
    NodeMemory,
    Remote,
    /// Pressure of the control group on CPUs, memory or disks.
    Pressure(usize),
    Bandwidth,
    Cache,
    Group,
}

impl TaskRows {
    /// Returns the rows of a picture.
    pub fn new(machine: &Machine, picture: &Picture, choice: &TaskChoice, levels: &MapLevels) -> Self {
        let mut rows = rows_of(picture, choice);
        if choice.is_by_process {
            // The sums of parts of processes are those of the threads that were chosen.
            let is_whole = choice.cpus.is_none();
            add_processes(&mut rows, &picture.processes, is_whole);
        }
        let mut built = Self { rows, users: Arc::clone(&picture.users), ..Self::default() };
        built.has_plans = built.rows.iter().any(|row| row.plan > Some(PlanState::None));
        built.has_counters = picture.has_counters;
        let distances = Distances::of(picture);
        for row in &mut built.rows {
            row.migrations = distances.merge(row.migrations);
        }
        match choice.columns {
            ColumnSet::Scheduling => built.set_columns(choice, levels, distances),
            ColumnSet::Resources => {
                built.resources = ProcessResources::of(picture);
                built.set_resource_columns(choice, machine, !picture.bandwidth.is_empty());
            }
        }
        built.unit_numbers = unit_numbers(levels);
        built
    }

    /// Returns the column that shows something.
    pub fn column_of(&self, kind: ColumnKind) -> Option<usize> {
        self.kinds.iter().position(|&one| one == kind)
    }

    /// Returns the name of the user of a row, or the number without one.
    fn user(&self, row: &TaskRow) -> String {
        row.uid.map_or("-".to_owned(), |uid| user_name(&self.users, uid))
    }

    /// Returns what a column shows.
    pub fn kind_of(&self, column: usize) -> Option<ColumnKind> {
        self.kinds.get(column).copied()
    }
}

/// Returns the number of the unit that tasks share with others, by CPU.
fn unit_numbers(levels: &MapLevels) -> Vec<Option<u32>> {
    let Some(shared) = levels.shared() else { return Vec::new() };
    let mut numbers = Vec::new();
    for unit in &shared.units {
        let number = unit.first().and_then(|first| shared.number_of(first));
        for cpu in unit.iter() {
            let at = cpu as usize;
            numbers.resize(numbers.len().max(at + 1), None);
            numbers[at] = number;
        }
    }
    numbers
}

/// Returns the chosen threads, or processes with the sums of those.
fn rows_of(picture: &Picture, choice: &TaskChoice) -> Vec<TaskRow> {
    let is_chosen = |task: &&TaskUse| {
        !(choice.has_no_kernel && task.is_kernel)
            && choice.cpus.as_ref().is_none_or(|cpus| cpus.contains(task.cpu))
            && choice.pid.is_none_or(|pid| pid == task.id.pid)
    };
    let mut rows = Vec::new();
    for process in picture.tasks.chunk_by(|a, b| a.id.pid == b.id.pid) {
        let mut chosen = process.iter().filter(is_chosen);
        if !choice.is_by_process {
            rows.extend(chosen.map(|task| TaskRow::new(task, picture.seconds)));
            continue;
        }
        let Some(first) = chosen.next() else { continue };
        // The thread whose name is that of the process may be none of the chosen ones.
        let main = process.iter().find(|task| task.id.tid == task.id.pid).unwrap_or(first);
        let mut row = TaskRow { name: main.name, ..TaskRow::new(first, picture.seconds) };
        chosen.for_each(|task| row.add(task, picture.seconds));
        rows.push(row);
    }
    rows
}

fn add_processes(rows: &mut [TaskRow], processes: &[ProcessUse], is_whole: bool) {
    for row in rows {
        row.tid = row.pid;
        let Ok(at) = processes.binary_search_by_key(&row.pid, |process| process.pid) else { continue };
        if is_whole {
            row.threads = processes[at].threads;
            row.run = processes[at].run.unwrap_or(row.run);
            row.counted = processes[at].counted;
        }
    }
}

impl TaskRow {
    fn new(task: &TaskUse, seconds: f64) -> Self {
        let (migrations, is_exact) = migrations(task, seconds);
        Self {
            pid: task.id.pid,
            tid: task.id.tid,
            parent: task.parent,
            uid: task.uid,
            name: task.name,
            state: task.state,
            cpu: task.cpu,
            run: task.run,
            wait: task.wait,
            voluntary: task.voluntary,
            involuntary: task.involuntary,
            migrations,
            is_exact,
            allowed: task.allowed.clone(),
            plan: task.plan.as_ref().map(Plan::state),
            resident_kib: task.resident_kib,
            threads: 1,
            counted: task.counted.as_deref().copied(),
        }
    }

    /// Adds another thread of the process.
    fn add(&mut self, task: &TaskUse, seconds: f64) {
        if task.run > self.run / f64::from(self.threads.max(1)) {
            self.cpu = task.cpu;
        }
        if task.state == 'R' || task.state == 'D' && self.state != 'R' {
            self.state = task.state;
        }
        let (migrations, is_exact) = migrations(task, seconds);
        self.run += task.run;
        self.wait = sum(self.wait, task.wait);
        self.voluntary = sum(self.voluntary, task.voluntary);
        self.involuntary = sum(self.involuntary, task.involuntary);
        self.migrations = std::array::from_fn(|at| self.migrations[at] + migrations[at]);
        self.is_exact &= is_exact;
        if self.allowed != task.allowed {
            self.allowed = self.allowed.take().zip(task.allowed.as_ref()).map(|(a, b)| Arc::new(a.union(b)));
        }
        self.plan = self.plan.max(task.plan.as_ref().map(Plan::state));
        self.threads += 1;
        // Only sums over whole processes are known to be of most of their time.
        self.counted = None;
    }

    /// Returns all context switches per second.
    fn switches(&self) -> Option<f64> {
        sum(self.voluntary, self.involuntary)
    }

    /// Returns the id by which rows of a tree refer to each other.
    pub fn tree_id(&self) -> u32 {
        self.tid
    }

    /// Returns the id of the row above in a tree.
    pub fn tree_parent(&self) -> u32 {
        if self.tid == self.pid { self.parent } else { self.pid }
    }
}

/// Returns the sum of what is known.
fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Returns migrations per second by kind: exact ones, otherwise the change of the last CPU, which is a lower bound.
fn migrations(task: &TaskUse, seconds: f64) -> ([f64; 4], bool) {
    if let Some(exact) = &task.migrations {
        return (**exact, true);
    }
    let mut bound = [0.0; 4];
    if let Some(migration) = task.migration {
        let at = match migration {
            Migration::WithinCluster => 0,
            Migration::AcrossCluster => 1,
            Migration::AcrossLlc => 2,
            Migration::AcrossNode => 3,
        };
        bound[at] = 1.0 / seconds;
    }
    (bound, false)
}
