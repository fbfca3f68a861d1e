//! What the cells of a task show, how they are sorted, and their colours.

use super::{ColumnKind, ProcessResources, TaskRow, TaskRows};
use crate::{
    picture::CountedUse,
    plans::PlanState,
    view::{
        metric::count,
        table::{Column, SortKey, TableRows},
    },
};
use manycore_text::units;

fn bounded(rate: f64, is_exact: bool) -> String {
    match () {
        () if rate == 0.0 => "0".to_owned(),
        () if is_exact => small(rate),
        () => format!("≥{}", small(rate)),
    }
}

/// Formats a rate with one decimal if it is small.
fn small(rate: f64) -> String {
    if rate < 9.95 && rate > 0.0 { format!("{rate:.1}") } else { count(rate) }
}

fn percent(share: f64) -> String {
    if share < 9.995 { format!("{:.1}", share * 100.0) } else { format!("{:.0}", share * 100.0) }
}

/// Most tasks are not placed: a word for them would only distract.
fn plan_word(plan: PlanState) -> &'static str {
    if plan == PlanState::None { "-" } else { plan.name() }
}

impl TaskRow {
    fn ipc(&self) -> Option<f64> {
        self.counted.as_ref().and_then(CountedUse::ipc)
    }
}

impl TaskRows {
    /// Returns a figure of the process of a row, if it was read.
    fn resource<T>(&self, row: &TaskRow, of: impl Fn(&ProcessResources) -> Option<T>) -> Option<T> {
        self.resources.get(&row.pid).and_then(of)
    }
}

impl TableRows for TaskRows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    fn cell(&self, row: usize, column: usize) -> String {
        let row = &self.rows[row];
        let optional = |value: Option<f64>, show: fn(f64) -> String| value.map_or("-".to_owned(), show);
        match self.kinds[column] {
            ColumnKind::Pid => row.pid.to_string(),
            ColumnKind::Tid => row.tid.to_string(),
            ColumnKind::Name => row.name.printable(),
            ColumnKind::User => self.user(row),
            ColumnKind::State => row.state.to_string(),
            ColumnKind::Run => percent(row.run),
            ColumnKind::Wait => optional(row.wait, percent),
            ColumnKind::Cpu => row.cpu.to_string(),
            ColumnKind::Unit => {
                let number = self.unit_numbers.get(row.cpu as usize).copied().flatten();
                number.map_or("-".to_owned(), |number| number.to_string())
            }
            ColumnKind::Migrations => bounded(row.migrations.iter().sum(), row.is_exact),
            ColumnKind::Kind(at) => bounded(row.migrations[at], row.is_exact),
            ColumnKind::Ipc => optional(row.ipc(), |ipc| format!("{ipc:.2}")),
            ColumnKind::Misses => optional(row.counted.map(|one| one.misses), small),
            ColumnKind::Switches => optional(row.switches(), small),
            ColumnKind::Voluntary => optional(row.voluntary, small),
            ColumnKind::Involuntary => optional(row.involuntary, small),
            ColumnKind::Resident => units::bytes(row.resident_kib << 10),
            ColumnKind::Threads => row.threads.to_string(),
            ColumnKind::Allowed => row.allowed.as_ref().map_or("-".to_owned(), |set| set.within(24)),
            ColumnKind::Plan => row.plan.map_or("-", plan_word).to_owned(),
            ColumnKind::NodeMemory => {
                self.resource(row, |one| Some(one.nodes_text())).unwrap_or("-".to_owned())
            }
            ColumnKind::Remote => optional(self.resource(row, |one| one.remote), percent),
            ColumnKind::Pressure(at) => {
                optional(self.resource(row, |one| one.pressure[at]), |share| format!("{share:.1}"))
            }
            ColumnKind::Bandwidth => optional(self.resource(row, |one| one.bandwidth), units::rate),
            ColumnKind::Cache => {
                self.resource(row, |one| one.cache_bytes).map_or("-".to_owned(), units::bytes)
            }
            ColumnKind::Group => self.resource(row, |one| one.group.clone()).unwrap_or("-".to_owned()),
        }
    }

    fn key(&self, row: usize, column: usize) -> SortKey {
        let row = &self.rows[row];
        match self.kinds[column] {
            ColumnKind::Pid => SortKey::Number(f64::from(row.pid)),
            ColumnKind::Tid => SortKey::Number(f64::from(row.tid)),
            ColumnKind::Name => SortKey::Text(row.name.printable().to_lowercase()),
            ColumnKind::User => SortKey::Text(self.user(row)),
            ColumnKind::State => SortKey::Text(row.state.to_string()),
            ColumnKind::Run => SortKey::Number(row.run),
            ColumnKind::Wait => SortKey::number(row.wait),
            ColumnKind::Cpu => SortKey::Number(f64::from(row.cpu)),
            ColumnKind::Unit => {
                let number = self.unit_numbers.get(row.cpu as usize).copied().flatten();
                SortKey::number(number.map(f64::from))
            }
            ColumnKind::Migrations => SortKey::Number(row.migrations.iter().sum()),
            ColumnKind::Kind(at) => SortKey::Number(row.migrations[at]),
            ColumnKind::Ipc => SortKey::number(row.ipc()),
            ColumnKind::Misses => SortKey::number(row.counted.map(|one| one.misses)),
            ColumnKind::Switches => SortKey::number(row.switches()),
            ColumnKind::Voluntary => SortKey::number(row.voluntary),
            ColumnKind::Involuntary => SortKey::number(row.involuntary),
            ColumnKind::Resident => SortKey::Number(row.resident_kib as f64),
            ColumnKind::Threads => SortKey::Number(f64::from(row.threads)),
            ColumnKind::Allowed => SortKey::number(row.allowed.as_ref().map(|set| set.len() as f64)),
            ColumnKind::Plan => SortKey::number(row.plan.map(|plan| f64::from(plan as u8))),
            ColumnKind::NodeMemory => {
                SortKey::number(self.resource(row, |one| one.node_kib.values().max().map(|&kib| kib as f64)))
            }
            ColumnKind::Remote => SortKey::number(self.resource(row, |one| one.remote)),
            ColumnKind::Pressure(at) => SortKey::number(self.resource(row, |one| one.pressure[at])),
            ColumnKind::Bandwidth => SortKey::number(self.resource(row, |one| one.bandwidth)),
            ColumnKind::Cache => {
                SortKey::number(self.resource(row, |one| one.cache_bytes).map(|bytes| bytes as f64))
            }
            ColumnKind::Group => {
                self.resource(row, |one| one.group.clone()).map_or(SortKey::Absent, SortKey::Text)
            }
        }
    }

    fn heat(&self, row: usize, column: usize) -> Option<f64> {
        let row = &self.rows[row];
        match self.kinds[column] {
            ColumnKind::Run => Some(row.run.min(1.0)),
            ColumnKind::Wait => row.wait.map(|wait| (wait * 2.0).min(1.0)),
            ColumnKind::Migrations => Some((row.migrations.iter().sum::<f64>() / 20.0).min(1.0)),
            ColumnKind::Kind(3) => Some((row.migrations[3] / 5.0).min(1.0)),
            ColumnKind::Involuntary => row.involuntary.map(|rate| (rate / 500.0).min(1.0)),
            ColumnKind::Plan => (row.plan == Some(PlanState::Broken)).then_some(1.0),
            ColumnKind::Remote => self.resource(row, |one| one.remote),
            ColumnKind::Pressure(at) => {
                self.resource(row, |one| one.pressure[at]).map(|percent| (percent / 50.0).min(1.0))
            }
            _ => None,
        }
    }

    fn has(&self, row: usize, text: &str) -> bool {
        let row = &self.rows[row];
        row.name.printable().to_lowercase().contains(text)
            || text.parse() == Ok(row.pid)
            || text.parse() == Ok(row.tid)
    }
}
