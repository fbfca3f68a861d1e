//! Tables for processes. They are allocated outside of the path to a kill: at the start, and by the slow path
//! if there are more processes.

use crate::decision::{cause::CauseFinder, process_table::ProcessTable};
use manycore_linux::tasks;

/// Smallest capacity in processes: about 1 MB.
const LEAST_CAPACITY: usize = 1 << 12;
/// The capacity is this many times the number of processes, but at most [`MOST_CAPACITY`]: about 30 MB.
const SPARE: usize = 2;
/// See [`SPARE`].
const MOST_CAPACITY: usize = 1 << 17;

/// A table for processes, and the working memory to select one. All of it is allocated.
pub struct TableSpace {
    pub(super) table: ProcessTable,
    pub(super) finder: CauseFinder,
}

impl TableSpace {
    /// Creates a table for twice the present number of processes.
    pub fn allocate() -> Self {
        let capacity = (tasks::all().len() * SPARE).clamp(LEAST_CAPACITY, MOST_CAPACITY);
        Self { table: ProcessTable::new(capacity), finder: CauseFinder::new(capacity) }
    }

    /// Returns the number of processes that fit.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }
}
