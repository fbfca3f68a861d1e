//! Pins that manycore itself has made, from its journals.

use super::facts::{ManycorePin, Process};
use manycore_control::journal::{Change, Pending};
use manycore_linux::tasks;
use std::collections::BTreeMap;

/// Enters the newest change that pinned each process; `journals` are newest first.
pub(super) fn enter(processes: &mut [Process], journals: &[Pending]) {
    let is_of_this_system =
        |journal: &&Pending| !journal.is_from_earlier_boot() && !journal.is_from_other_namespace();
    let pins = journals.iter().filter(is_of_this_system).flat_map(|journal| {
        let owner = journal.header.owner.filter(|_| journal.owner_is_running).map(|owner| owner.pid);
        let pin = ManycorePin { change: journal.id(), owner };
        placed(&journal.changes).into_iter().map(move |process| (process, pin.clone()))
    });
    let mut newest: BTreeMap<u32, ManycorePin> = BTreeMap::new();
    for ((pid, start), pin) in pins {
        if tasks::is_same_process(pid, start) {
            newest.entry(pid).or_insert(pin);
        }
    }
    for process in processes {
        process.pinned_by = newest.remove(&process.pid);
    }
}

/// Returns the processes whose tasks were placed, with their start times.
fn placed(changes: &[Change]) -> Vec<(u32, u64)> {
    let of = |change: &Change| match change {
        Change::Process { pid, start, .. } => Some((*pid, *start)),
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_placed_processes_count() {
        let changes = [
            Change::Process { pid: 10, start: 5, cpus: "0-1".parse().unwrap() },
            Change::Affinity { pid: 10, tid: 11, old: "0-1".parse().unwrap(), new: "0".parse().unwrap() },
            Change::ControlGroup { path: "/sys/fs/cgroup/x".into() },
        ];
        assert_eq!(placed(&changes), [(10, 5)]);
    }
}
