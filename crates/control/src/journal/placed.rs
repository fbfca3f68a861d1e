//! The CPUs that journals gave to the threads of running processes.

use super::{change::Change, pending::Pending};
use manycore_linux::tasks;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// A running process whose threads were placed, as its newest journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedProcess {
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Name of the journal, as `undo` takes it.
    pub change: String,
    /// The command that wrote the journal, if it still runs.
    pub owner: Option<u32>,
    /// The CPUs that each moved thread was given last. A thread that had them before is not in it.
    pub cpus: BTreeMap<u32, CpuSet>,
}

/// Returns the processes that still run, by id; `journals` are newest first. Journals of an earlier boot and of another
/// process namespace have none.
pub fn placed(journals: &[Pending]) -> BTreeMap<u32, PlacedProcess> {
    let is_of_this_system =
        |journal: &&Pending| !journal.is_from_earlier_boot() && !journal.is_from_other_namespace();
    let mut newest = BTreeMap::new();
    for journal in journals.iter().filter(is_of_this_system) {
        let owner = journal.header.owner.filter(|_| journal.owner_is_running).map(|owner| owner.pid);
        for (pid, (start, cpus)) in given(&journal.changes) {
            if !newest.contains_key(&pid) && tasks::is_same_process(pid, start) {
                newest.insert(pid, PlacedProcess { start, change: journal.id(), owner, cpus });
            }
        }
    }
    newest
}

/// Returns the start time of each placed process, and the CPUs that its threads were given.
fn given(changes: &[Change]) -> BTreeMap<u32, (u64, BTreeMap<u32, CpuSet>)> {
    let mut all: BTreeMap<u32, (u64, BTreeMap<u32, CpuSet>)> = BTreeMap::new();
    for change in changes {
        match change {
            // A later process with the same id has none of the threads of an earlier one.
            Change::Process { pid, start, .. } if all.get(pid).is_none_or(|known| known.0 != *start) => {
                all.insert(*pid, (*start, BTreeMap::new()));
            }
            Change::Affinity { pid, tid, new, .. } => {
                if let Some((_, cpus)) = all.get_mut(pid) {
                    cpus.insert(*tid, new.clone());
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_the_cpus_that_it_was_given_last() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let process = |pid, start| Change::Process { pid, start, cpus: cpus("0-1") };
        let moved = |pid, tid, new| Change::Affinity { pid, tid, old: cpus("0-1"), new: cpus(new) };
        let changes = [
            process(10, 5),
            moved(10, 10, "0"),
            moved(10, 11, "0"),
            moved(10, 11, "1"),
            // Without its process, its start time is unknown.
            moved(20, 20, "0"),
            Change::ControlGroup { path: "/sys/fs/cgroup/x".into() },
            process(30, 6),
            moved(30, 31, "1"),
            process(30, 7),
        ];
        let expected = BTreeMap::from([
            (10, (5, BTreeMap::from([(10, cpus("0")), (11, cpus("1"))]))),
            (30, (7, BTreeMap::new())),
        ]);
        assert_eq!(given(&changes), expected);
    }
}
