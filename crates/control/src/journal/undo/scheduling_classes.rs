//! Restores scheduling classes.

use super::UndoResult;
use crate::journal::{change::Change, pending::Pending};
use manycore_linux::{
    scheduling_class::{self, EXT},
    tasks,
};
use std::collections::BTreeMap;

/// Gives tasks the class that they had. Tasks that have another class now are left unchanged. Tasks that were created after
/// the last look keep the class of loaded schedulers: without one, it is the same as the ordinary one.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    let changed = pending.changes.iter().filter_map(|change| match change {
        Change::SchedulingClass { tid, start, old } => Some((*tid, (*start, *old))),
        _ => None,
    });
    let changed: BTreeMap<u32, (u64, u32)> = changed.collect();
    let alive = changed.iter().filter(|(tid, (start, _))| tasks::start_time(**tid) == Some(*start));
    for (&tid, &(_, old)) in alive {
        if scheduling_class::of(tid).is_ok_and(|class| class != EXT) {
            continue;
        }
        match scheduling_class::set(tid, old) {
            Ok(()) => restored.scheduling_classes += 1,
            Err(error) if tasks::start_time(tid).is_some() => {
                restored
                    .failed
                    .push(format!("the scheduling class of task {tid} cannot be restored: {error}"));
            }
            Err(_) => {}
        }
    }
}
