//! Which other processes used CPU time during a run.

use crate::record::BusyProcess;
use manycore_linux::tasks::{self, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names of processes.
const MAX_NAMED: usize = 3;

/// Use of CPU time, in CPUs, below which processes of one name are not named.
const MIN_CPUS: f64 = 0.02;

/// CPU time of all processes at one moment.
#[derive(Debug)]
pub(crate) struct OtherWork(BTreeMap<u32, Usage>);

impl OtherWork {
    /// Reads the CPU time of all processes.
    pub fn now() -> Self {
        Self(tasks::all().into_iter().filter_map(|pid| Some((pid, tasks::usage(pid)?))).collect())
    }

    /// Returns the processes that used most CPU time since, `seconds` ago, without this one, `subjects`, and their descendants.
    /// Those with the same name count together.
    pub fn busiest(&self, seconds: f64, subjects: &[u32]) -> Vec<BusyProcess> {
        let own = tasks::with_descendants(&[subjects, &[std::process::id()]].concat());
        let named = |(pid, cpus)| Some((pid, tasks::name(pid)?, cpus));
        by_name(most(&self.0, &Self::now().0, &own, seconds).into_iter().filter_map(named))
    }
}

/// Adds up processes with the same name. A load of many processes would hide behind its parts otherwise.
fn by_name(processes: impl Iterator<Item = (u32, String, f64)>) -> Vec<BusyProcess> {
    let mut all: Vec<BusyProcess> = Vec::new();
    for (pid, name, cpus) in processes {
        match all.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.cpus += cpus;
                known.others += 1;
            }
            None => all.push(BusyProcess { pid, name, others: 0, cpus }),
        }
    }
    all.retain(|one| one.cpus >= MIN_CPUS);
    all.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    all.truncate(MAX_NAMED);
    all
}

/// Returns the processes that used CPU time between two readings, in CPUs, the busiest first. The time of a process includes that of
/// children that it has waited for, so a build counts for the program that started its compilers. What these had used
/// before the first reading does not count.
fn most(
    before: &BTreeMap<u32, Usage>,
    after: &BTreeMap<u32, Usage>,
    own: &BTreeSet<u32>,
    seconds: f64,
) -> Vec<(u32, f64)> {
    let is_same = |pid: &u32, then: &Usage| after.get(pid).is_some_and(|now| now.start == then.start);
    // The time that processes which have ended since had at the first reading, by the ancestor that is left.
    let mut ended: BTreeMap<u32, u64> = BTreeMap::new();
    for (pid, then) in before.iter().filter(|(pid, then)| !is_same(pid, then)) {
        let mut heir = then.parent;
        // At most one step for each process: ids that were read at different times may form a circle.
        for _ in 0..before.len() {
            match before.get(&heir) {
                Some(parent) if !is_same(&heir, parent) => heir = parent.parent,
                _ => break,
            }
        }
        if heir != *pid {
            *ended.entry(heir).or_default() += then.cpu_ns;
        }
    }
    let used = |(pid, now): (&u32, &Usage)| {
        // A process that was started since, perhaps with the id of another one, has used all its time since.
        let known = before.get(pid).filter(|then| then.start == now.start);
        let earlier = known.map_or(0, |then| then.cpu_ns + ended.get(pid).copied().unwrap_or(0));
        (*pid, now.cpu_ns.saturating_sub(earlier) as f64 / 1e9 / seconds)
    };
    let mut found: Vec<(u32, f64)> = after
        .iter()
        // Process 1 waits for the orphans of all programs, whose time from before the run would count for it.
        .filter(|(pid, _)| !own.contains(pid) && **pid != 1)
        .map(used)
        .filter(|(_, cpus)| cpus.is_finite() && *cpus > 0.0)
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(start: u64, seconds: f64) -> Usage {
        Usage { parent: 1, start, cpu_ns: (seconds * 1e9) as u64 }
    }

    #[test]
    fn processes_are_compared_by_what_they_used_during_the_run() {
        let before = BTreeMap::from([(1, usage(1, 500.0)), (2, usage(2, 3.0)), (3, usage(3, 9.0))]);
        let after = BTreeMap::from([
            (1, usage(1, 500.0)),
            (2, usage(2, 8.0)),
            // Another process with the id of an earlier one.
            (3, usage(30, 2.0)),
            (4, usage(4, 7.0)),
            (5, usage(5, 1.0)),
            (6, usage(6, 9.0)),
        ]);
        assert_eq!(
            most(&before, &after, &BTreeSet::from([6]), 10.0),
            [(4, 0.7), (2, 0.5), (3, 0.2), (5, 0.1)]
        );
        assert!(most(&before, &before, &BTreeSet::new(), 10.0).is_empty());
        assert!(most(&before, &after, &BTreeSet::new(), 0.0).is_empty());
    }

    /// Regression: of ten processes of a load, only three counted, and other work came first.
    #[test]
    fn processes_with_the_same_name_count_together() {
        let all =
            [(1, "a", 0.9), (2, "hog", 0.5), (3, "hog", 0.5), (4, "b", 0.3), (5, "c", 0.2), (6, "hog", 0.1)];
        let found = by_name(all.into_iter().map(|(pid, name, cpus)| (pid, name.to_owned(), cpus)));
        let found: Vec<_> =
            found.iter().map(|one| (one.pid, one.name.as_str(), one.others, one.cpus)).collect();
        assert_eq!(found, [(2, "hog", 2, 1.1), (1, "a", 0, 0.9), (4, "b", 0, 0.3)]);
        let small = (1..=10).map(|pid| (pid, if pid < 10 { "hog" } else { "idle" }.to_owned(), 0.01));
        let found: Vec<_> = by_name(small).into_iter().map(|one| (one.name, one.others)).collect();
        assert_eq!(found, [("hog".to_owned(), 8)]);
    }

    /// Regression test: "bash (36.07 CPUs)" on two CPUs, whose child had worked for minutes before the run.
    #[test]
    fn what_a_child_used_before_the_run_does_not_count_for_its_parent() {
        let child = |parent: u32, seconds: f64| Usage { parent, ..usage(2, seconds) };
        let before = BTreeMap::from([(10, usage(1, 1.0)), (11, child(10, 50.0)), (12, child(11, 40.0))]);
        // 10 has waited for 11, which has waited for 12: they used 3 s since.
        let after = BTreeMap::from([(10, usage(1, 94.0))]);
        assert_eq!(most(&before, &after, &BTreeSet::new(), 10.0), [(10, 0.3)]);
    }

    #[test]
    fn this_process_is_not_other_work() {
        let busiest = OtherWork(BTreeMap::new()).busiest(1e-3, &[]);
        assert!(busiest.iter().all(|process| process.pid != std::process::id()), "{busiest:?}");
    }
}
