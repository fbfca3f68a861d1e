//! Pins that manycore itself has made, from its journals.

use super::facts::{ManycorePin, Process};
use manycore_control::journal::{Pending, placed};

/// Enters the newest change that pinned each process; `journals` are newest first.
pub(super) fn enter(processes: &mut [Process], journals: &[Pending]) {
    let mut newest = placed(journals);
    for process in processes {
        let pin = newest.remove(&process.pid);
        process.pinned_by = pin.map(|pin| ManycorePin { change: pin.change, owner: pin.owner });
    }
}
