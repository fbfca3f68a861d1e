//! No sequence: all adds are atomic.

use crate::area::Cells;
use std::sync::atomic::{AtomicI64, Ordering};

/// Whether there is a sequence for this architecture.
pub(crate) const PRESENT: bool = false;

/// No CPU.
pub(crate) fn cpu_id(_offset: isize) -> u32 {
    u32::MAX
}

/// Adds to `cell`. Never called, because there is no CPU.
///
/// # Safety
/// The cell is one.
pub(crate) unsafe fn add(_cells: &Cells, _cpu: u32, cell: *const AtomicI64, n: i64) -> i64 {
    // SAFETY: by the contract.
    unsafe { &*cell }.fetch_add(n, Ordering::Relaxed).wrapping_add(n)
}
