//! Sums over the tasks of CPUs, and over the CPUs of units.

use super::{CpuShares, CpuUse, TaskUse};
use crate::units::LevelUnits;
use manycore_topology::{CpuSet, Level};

/// The use of one unit of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitUse {
    /// The level: cluster, LLC or node.
    pub level: Level,
    /// Its number: that of the kernel for a node, otherwise its place among the units of its level.
    pub number: u32,
    /// The online CPUs of the unit, as the machine lists them.
    pub cpus: CpuSet,
    /// The sum of the shares of its CPUs, in CPUs.
    pub shares: CpuShares,
    /// Number of its CPUs whose shares are known.
    pub known: usize,
    /// CPU time of the tasks whose last CPU is in the unit, in CPUs. A task that has migrated since counts where it was
    /// last, with all its time.
    pub task_run: f64,
    /// Time that these tasks waited for a CPU, in tasks that wait: 2 is two tasks that wait all the time.
    pub task_wait: f64,
    /// Number of these tasks that were runnable at the second sample.
    pub runnable: usize,
}

/// Adds up the tasks by their last CPU.
pub(super) fn add_tasks(cpus: &mut [CpuUse], tasks: &[TaskUse]) {
    let is_known = tasks.iter().any(|task| task.wait.is_some());
    for one in cpus.iter_mut() {
        one.wait = is_known.then_some(0.0);
    }
    for task in tasks {
        let Ok(at) = cpus.binary_search_by_key(&task.cpu, |one| one.cpu) else { continue };
        let cpu = &mut cpus[at];
        cpu.task_run += task.run;
        cpu.wait = cpu.wait.map(|sum| sum + task.wait.unwrap_or(0.0));
        cpu.runnable += usize::from(task.state == 'R');
    }
}

/// Returns the units of a level.
pub(super) fn of(level: &LevelUnits, cpus: &[CpuUse]) -> Vec<UnitUse> {
    let mut units: Vec<UnitUse> = level
        .cpus
        .iter()
        .zip(&level.numbers)
        .map(|(cpus, &number)| empty(level.level, number, cpus))
        .collect();
    for one in cpus {
        let Some(unit) = level.of(one.cpu) else { continue };
        let unit = &mut units[unit];
        if let Some(shares) = &one.shares {
            unit.shares.add(shares);
            unit.known += 1;
        }
        unit.task_run += one.task_run;
        unit.task_wait += one.wait.unwrap_or(0.0);
        unit.runnable += one.runnable;
    }
    units
}

fn empty(level: Level, number: u32, cpus: &CpuSet) -> UnitUse {
    UnitUse {
        level,
        number,
        cpus: cpus.clone(),
        shares: CpuShares::default(),
        known: 0,
        task_run: 0.0,
        task_wait: 0.0,
        runnable: 0,
    }
}
