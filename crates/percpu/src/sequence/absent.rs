//! No sequence for this architecture: all adds are atomic.

use crate::area::Cells;
use std::sync::atomic::Ordering;

/// Whether there is a sequence for this architecture.
pub(crate) const PRESENT: bool = false;

/// Returns a number above that of any CPU.
pub(crate) fn cpu_id(_offset: isize) -> u32 {
    u32::MAX
}

/// Adds to the shard. Never called, because no CPU number has a row.
///
/// # Safety
/// The area of `cells` is allocated.
pub(crate) unsafe fn add(cells: &Cells, _cpu: u32, n: i64) -> i64 {
    // SAFETY: by the contract.
    unsafe { &*cells.shard }.fetch_add(n, Ordering::Relaxed).wrapping_add(n)
}
