//! Room for processes. It is made beside the way to a kill: at the start, and by the clerk where there are more.

use crate::decision::{choice::Chooser, table::Table};
use manycore_linux::tasks;

/// Processes that there is room for at least: some 1 MB.
const LEAST_CAPACITY: usize = 1 << 12;
/// Room for so many times as many as there are, and at most for [`MOST_CAPACITY`]: some 30 MB.
const SPARE: usize = 2;
/// See [`SPARE`].
const MOST_CAPACITY: usize = 1 << 17;

/// Room for processes, all of it allocated.
pub struct Room {
    pub(super) table: Table,
    pub(super) chooser: Chooser,
}

impl Room {
    /// Enough for those that there are now, and as many more.
    pub fn enough() -> Self {
        let capacity = (tasks::all().len() * SPARE).clamp(LEAST_CAPACITY, MOST_CAPACITY);
        Self { table: Table::new(capacity), chooser: Chooser::new(capacity) }
    }

    /// Processes that there is room for.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }
}
