//! Reads journals, and the CPUs that the threads in them may use now.

use super::{Plans, ProcessPlan, ThreadPlan};
use manycore_control::journal::{PlacedProcess, pending, placed};
use manycore_linux::affinity;
use manycore_topology::CpuSet;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Time between two readings of the journals.
const INTERVAL: Duration = Duration::from_secs(3);

/// Reads journals every few seconds.
#[derive(Debug)]
pub struct PlanReader {
    folder: PathBuf,
    due: Option<Instant>,
    plans: Plans,
}

impl PlanReader {
    /// Reads the journals in this directory, at the next call of [`Self::plans`] for the first time.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, due: None, plans: Plans::default() }
    }

    /// Returns what the journals say, read at most three seconds ago. A directory of another user says nothing, as for
    /// `undo`.
    pub fn plans(&mut self) -> &Plans {
        let now = Instant::now();
        if self.due.is_none_or(|due| now >= due) {
            self.due = Some(now + INTERVAL);
            self.plans = read(&self.folder);
        }
        &self.plans
    }
}

/// Reads journals and affinities. A command that moves a thread meanwhile records it first: only what two readings agree on
/// is broken.
fn read(folder: &Path) -> Plans {
    let first = read_once(folder);
    if first.0.values().flat_map(|process| process.threads.values()).all(|thread| thread.is_kept) {
        return first;
    }
    let mut plans = read_once(folder);
    for (pid, process) in &mut plans.0 {
        let before = first.0.get(pid);
        for (tid, thread) in &mut process.threads {
            let is_same = before.and_then(|before| before.threads.get(tid)) == Some(&*thread);
            thread.is_kept |= !is_same;
        }
    }
    plans
}

fn read_once(folder: &Path) -> Plans {
    let (journals, _) = pending(folder).unwrap_or_default();
    let placed = placed(&journals);
    if placed.is_empty() {
        return Plans::default();
    }
    // The kernel does not report CPUs that are offline.
    let online = affinity::online();
    Plans(placed.into_iter().map(|(pid, process)| (pid, process_plan(process, online.as_ref()))).collect())
}

fn process_plan(process: PlacedProcess, online: Option<&CpuSet>) -> ProcessPlan {
    let all = Arc::new(CpuSet::union_of(process.cpus.values()));
    let thread = |(tid, given): (u32, CpuSet)| {
        // It has ended.
        let now = affinity::of_thread(tid).ok()?;
        let is_kept = is_kept(&now, &given, &all, online);
        Some((tid, ThreadPlan { given: Arc::new(given), now: Arc::new(now), is_kept }))
    };
    let threads: BTreeMap<u32, ThreadPlan> = process.cpus.into_iter().filter_map(thread).collect();
    ProcessPlan { start: process.start, threads, all }
}

/// Whether a thread has the CPUs that it was given, or has chosen among `all` those of its process.
fn is_kept(now: &CpuSet, given: &CpuSet, all: &CpuSet, online: Option<&CpuSet>) -> bool {
    let shown = online.map_or_else(|| given.clone(), |online| given.intersection(online));
    *now == shown || !now.is_empty() && now.is_subset(all) && now.len() <= shown.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_chooses_other_cpus_of_its_process_keeps_to_the_plan() {
        let kept = |now: &str, given: &str| {
            let [now, given, all, online] =
                [now, given, "0-1,8", "0-7"].map(|list| list.parse::<CpuSet>().unwrap());
            is_kept(&now, &given, &all, Some(&online))
        };
        assert!(kept("0", "0") && kept("1", "0"));
        // It was widened, as by a change of its cpuset.
        assert!(!kept("0-1", "0") && !kept("2", "0") && !kept("0-2", "0") && !kept("", "0"));
        // CPU 8 is offline.
        assert!(kept("0", "0,8") && kept("", "8"));
    }
}
