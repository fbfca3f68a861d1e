//! Ends the programs of schedulers.

use super::UndoResult;
use crate::{
    cleanup::{kill_group, kill_marked},
    journal::{change::Change, pending::Pending},
    scheduler::{is_kernel, words},
};
use manycore_linux::sched_ext;
use manycore_topology::SysTree;
use std::{
    collections::BTreeSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Maximum time from the end of a program until the kernel has removed its scheduler.
const MAX_REMOVAL: Duration = Duration::from_secs(20);

/// Interval between two looks at the state of `sched_ext`.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Kills the programs and all that they have started, and waits until the kernel has removed their scheduler: it does so
/// when the last process that holds it has ended.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    // Of the programs that ran one after the other, only the last one may still run.
    let last = pending.changes.iter().rev().find_map(|change| match change {
        Change::SchedulerProcess { pid, start } => Some((*pid, *start)),
        _ => None,
    });
    restored.schedulers += last.map_or(0, |(leader, start)| kill_group(leader, start));
    let marks = pending.changes.iter().filter_map(|change| match change {
        Change::Scheduler { mark, .. } => Some(mark.as_str()),
        _ => None,
    });
    let marks: BTreeSet<&str> = marks.collect();
    restored.schedulers += marks.into_iter().map(kill_marked).sum::<usize>();
    if restored.schedulers == 0 {
        return;
    }
    let Ok(tree) = SysTree::open(Path::new("/")) else { return };
    let began = Instant::now();
    let mut state = sched_ext::read(&tree);
    while !is_kernel(&state) && began.elapsed() < MAX_REMOVAL {
        thread::sleep(POLL_INTERVAL);
        state = sched_ext::read(&tree);
    }
    if !is_kernel(&state) {
        let limit = MAX_REMOVAL.as_secs();
        let found = words(&state);
        restored
            .failed
            .push(format!("a scheduler is still loaded {limit} s after the end of its program: {found}"));
    }
}
