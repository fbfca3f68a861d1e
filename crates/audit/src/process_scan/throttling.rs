//! How often control groups were throttled because their quota was used up (`cpu.stat`,
//! `Documentation/admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst`).

use crate::{Process, Throttling};
use manycore_topology::sys_tree::SysTree;
use std::collections::BTreeMap;

/// Groups with a quota that have processes, with the counters of the first reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaGroups(BTreeMap<String, (Throttling, Counted)>);

/// `nr_periods`, `nr_throttled`, and the throttled time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    periods: u64,
    throttled: u64,
    seconds: f64,
}

impl QuotaGroups {
    /// Returns the groups with the lowest quota of any process.
    pub(super) fn new(processes: &[Process]) -> Self {
        let mut groups: BTreeMap<String, (Throttling, Counted)> = BTreeMap::new();
        for process in processes {
            let own = &process.limits;
            let Some((quota_cpus, (folder, _))) = own.quota_cpus.zip(own.quota_file.rsplit_once('/')) else {
                continue;
            };
            let group = groups.entry(folder.to_owned()).or_insert_with(|| {
                let (folder, quota_file) = (folder.to_owned(), own.quota_file.clone());
                (Throttling { folder, quota_file, quota_cpus, ..Throttling::default() }, Counted::default())
            });
            group.0.processes.push(process.pid);
        }
        Self(groups)
    }

    /// Reads the counters for the first time.
    pub fn read_baseline(&mut self, tree: &SysTree) {
        self.0.retain(|folder, (_, counted)| {
            let now = read(tree, folder);
            *counted = now.unwrap_or_default();
            now.is_some()
        });
    }

    /// Returns the increase of the counters since then.
    pub fn since(self, tree: &SysTree) -> Vec<Throttling> {
        let grown = |(folder, (group, before)): (String, (Throttling, Counted))| {
            let now = read(tree, &folder)?;
            Some(Throttling {
                periods: now.periods.saturating_sub(before.periods),
                throttled: now.throttled.saturating_sub(before.throttled),
                seconds: (now.seconds - before.seconds).max(0.0),
                ..group
            })
        };
        self.0.into_iter().filter_map(grown).collect()
    }
}

fn read(tree: &SysTree, folder: &str) -> Option<Counted> {
    parse(&tree.read(&format!("{}/cpu.stat", folder.trim_start_matches('/')))?)
}

/// Parses `cpu.stat`. Version 1 counts nanoseconds in `throttled_time`, version 2 microseconds in
/// `throttled_usec`.
fn parse(text: &str) -> Option<Counted> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let seconds = value("throttled_usec")
        .map(|us| us as f64 / 1e6)
        .or_else(|| value("throttled_time").map(|ns| ns as f64 / 1e9));
    Some(Counted {
        periods: value("nr_periods")?,
        throttled: value("nr_throttled")?,
        seconds: seconds.unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_versions_are_read() {
        let two = "usage_usec 9\nnr_periods 20\nnr_throttled 5\nthrottled_usec 1500000\nnr_bursts 0\n";
        let one = "nr_periods 20\nnr_throttled 5\nthrottled_time 1500000000\n";
        let counted = Some(Counted { periods: 20, throttled: 5, seconds: 1.5 });
        assert_eq!((parse(two), parse(one)), (counted, counted));
        assert_eq!(parse("usage_usec 9\n"), None);
    }

    proptest! {
        #[test]
        fn any_counters_are_read_or_refused(text in "(nr_periods|nr_throttled|throttled_usec| |[0-9]|\n){0,40}") {
            let _ = parse(&text);
        }
    }
}
