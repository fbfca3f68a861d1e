//! No sequence: all adds are atomic.

use crate::area::Cells;
use std::sync::atomic::Ordering;

/// Whether there is a sequence for this architecture.
pub(crate) const PRESENT: bool = false;

/// No CPU.
pub(crate) fn cpu_id(_offset: isize) -> u32 {
    u32::MAX
}

/// Adds to the shard. Never called, because there is no CPU.
///
/// # Safety
/// The area of `cells` lives.
pub(crate) unsafe fn add(cells: &Cells, _cpu: u32, n: i64) -> i64 {
    // SAFETY: by the contract.
    unsafe { &*cells.shard }.fetch_add(n, Ordering::Relaxed).wrapping_add(n)
}
