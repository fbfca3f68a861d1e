//! What the user has named: services, containers, processes.

use super::totals::{TaskTotals, add as add_to, add_pressure};
use crate::picture::{GroupUse, Picture, ProcessUse, TaskUse};
use manycore_text::names::printable;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of names that have series. Others are left out.
pub const MOST_NAMED: usize = 256;

/// Longest name in a label, in characters.
const LONGEST: usize = 128;

/// Processes with a name that the user has given: a service, a container, a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedUnit {
    /// The name: value of the label `name`.
    pub name: String,
    /// Its processes now.
    pub processes: BTreeSet<u32>,
    /// Its control group, as in [`GroupSample::path`](crate::GroupSample::path). If samples have groups, its CPU time is
    /// that of the group, which includes processes that have ended.
    pub group: Option<String>,
}

impl NamedUnit {
    /// Returns the name as a label: printable, and not longer than 128 characters.
    pub(super) fn label(&self) -> String {
        printable(&self.name).chars().take(LONGEST).collect()
    }

    /// Returns its control group.
    pub(super) fn group_of<'a>(&self, picture: &'a Picture) -> Option<&'a GroupUse> {
        let path = self.group.as_deref()?;
        let at = picture.groups.binary_search_by(|group| (*group.now.path).cmp(path)).ok()?;
        picture.groups.get(at)
    }

    fn is_below(&self, group: &GroupUse) -> bool {
        let rest = self.group.as_deref().and_then(|own| group.now.path.strip_prefix(own));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the CPU time of an interval, in CPUs.
    pub(super) fn run(&self, picture: &Picture) -> f64 {
        if let Some(cpu) = self.group_of(picture).and_then(|group| group.cpu) {
            return cpu;
        }
        let clock: f64 = self.processes(picture).filter_map(|one| one.run).sum();
        let without: BTreeSet<u32> =
            self.processes(picture).filter(|one| one.run.is_none()).map(|one| one.pid).collect();
        let tasks = self.tasks(picture).filter(|task| without.contains(&task.id.pid));
        clock + tasks.map(|task| task.run).sum::<f64>()
    }

    /// Returns its processes of the picture.
    pub(super) fn processes<'a>(&'a self, picture: &'a Picture) -> impl Iterator<Item = &'a ProcessUse> {
        let found = |pid: &u32| picture.processes.binary_search_by_key(pid, |one| one.pid).ok();
        self.processes.iter().filter_map(found).map(|at| &picture.processes[at])
    }

    /// Returns its threads of the picture.
    pub(super) fn tasks<'a>(&'a self, picture: &'a Picture) -> impl Iterator<Item = &'a TaskUse> {
        self.processes.iter().flat_map(|&pid| {
            let first = picture.tasks.partition_point(|task| task.id.pid < pid);
            picture.tasks[first..].iter().take_while(move |task| task.id.pid == pid)
        })
    }
}

/// Totals of what has one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NamedTotals {
    /// CPU time in seconds.
    pub run: f64,
    pub tasks: TaskTotals,
    /// Time in seconds in which its control group, or one below, was throttled.
    pub throttled: Option<f64>,
    /// Time in seconds in which some task of the control group waited for CPUs, memory and disks.
    pub pressure: Option<[f64; 3]>,
}

/// Adds what each of `named` did. Names that are not given any more have no totals any more.
pub(super) fn add(totals: &mut BTreeMap<String, NamedTotals>, picture: &Picture, named: &[NamedUnit]) {
    let named = &named[..named.len().min(MOST_NAMED)];
    let labels: BTreeSet<String> = named.iter().map(NamedUnit::label).collect();
    totals.retain(|label, _| labels.contains(label));
    for unit in named {
        let sums = totals.entry(unit.label()).or_default();
        sums.run += unit.run(picture) * picture.seconds;
        unit.tasks(picture).for_each(|task| sums.tasks.add(task, picture.seconds));
        for group in picture.groups.iter().filter(|group| unit.is_below(group)) {
            add_to(&mut sums.throttled, group.throttled.map(|share| share * picture.seconds));
        }
        let pressure = unit.group_of(picture).and_then(|group| group.pressure);
        add_pressure(&mut sums.pressure, pressure, picture.seconds);
    }
}
