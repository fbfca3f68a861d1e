//! Interrupts and softirqs: how often, where, and for what.

use crate::{
    picture::{InterruptUse, Picture},
    view::{
        metric::count,
        table::{Column, Sheet, SheetCell},
    },
};

/// CPUs that are named in a row.
const MOST_CPUS: usize = 4;

/// Returns the table of interrupts.
pub fn interrupts(picture: &Picture) -> Sheet {
    let columns = vec![
        Column::text("INTERRUPT", 12, 4, 0),
        Column::figure("PER SECOND", 11, 0),
        Column::figure("CPUS", 5, 1),
        Column::figure("TOP CPU%", 9, 3),
        Column::text("MOST ON (CPU: SHARE)", 26, 8, 2),
        Column::text("HANDLERS", 12, 60, 0),
    ];
    Sheet { columns, rows: picture.interrupts.iter().map(row).collect() }
}

fn row(one: &InterruptUse) -> Vec<SheetCell> {
    let mut by_cpu: Vec<_> = one.by_cpu.iter().collect();
    by_cpu.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = |rate: f64| 100.0 * rate / one.per_second.max(f64::MIN_POSITIVE);
    let named: Vec<String> =
        by_cpu.iter().take(MOST_CPUS).map(|(cpu, rate)| format!("{cpu}: {:.0}%", share(*rate))).collect();
    let top = by_cpu.first().map(|(_, rate)| share(*rate));
    vec![
        SheetCell::text(&*one.name),
        SheetCell::figure(Some(one.per_second), count).hot(20_000.0),
        SheetCell::figure(top.map(|_| one.by_cpu.len() as f64), |cpus| format!("{cpus:.0}")),
        SheetCell::figure(top, |top| format!("{top:.0}")),
        SheetCell::text(named.join("  ")),
        SheetCell::text(&*one.handlers),
    ]
}
