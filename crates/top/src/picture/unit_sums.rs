//! Sums over the CPUs and tasks of units.

use super::{CpuShares, CpuUse, TaskUse, UnitUse};
use crate::units::LevelUnits;
use manycore_topology::{CpuSet, Level};

/// Returns the units of a level.
pub(super) fn of(level: &LevelUnits, cpus: &[CpuUse], tasks: &[TaskUse]) -> Vec<UnitUse> {
    let mut units: Vec<UnitUse> = level.cpus.iter().map(|cpus| empty(level.level, cpus)).collect();
    for one in cpus {
        if let (Some(unit), Some(shares)) = (level.of(one.cpu), &one.shares) {
            units[unit].shares.add(shares);
            units[unit].known += 1;
        }
    }
    for task in tasks {
        if let Some(unit) = level.of(task.cpu) {
            units[unit].task_run += task.run;
            units[unit].task_wait += task.wait.unwrap_or(0.0);
            units[unit].runnable += usize::from(task.state == 'R');
        }
    }
    units
}

fn empty(level: Level, cpus: &CpuSet) -> UnitUse {
    UnitUse {
        level,
        cpus: cpus.clone(),
        shares: CpuShares::default(),
        known: 0,
        task_run: 0.0,
        task_wait: 0.0,
        runnable: 0,
    }
}
