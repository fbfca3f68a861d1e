//! Whether the memory of the machine holds a number of instances.

use manycore_linux::{available_memory::MachineMemory, clock};
use manycore_text::units;
use manycore_topology::{cgroup, sys_tree::SysTree};
use std::path::Path;

/// Why the memory does not hold so many instances.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{count} instances of {} take {}, but {} are available: at most {}{}",
    units::bytes(*.each),
    units::bytes(*.total),
    units::bytes(*.available),
    .most / .variants,
    if *.variants > 1 { " of each variant" } else { "" }
)]
pub struct MemoryShortage {
    /// The number of instances.
    pub count: usize,
    /// Memory of each in bytes.
    pub each: u64,
    /// Memory of all in bytes.
    pub total: u64,
    /// Memory that is available for all of them in bytes.
    pub available: u64,
    /// The largest number that it holds.
    pub most: usize,
    /// The number of variants, each of which has as many instances.
    pub variants: usize,
}

/// Checks that `available` bytes hold `count` instances of `each` bytes: their limit, or what the first one has taken.
///
/// # Errors
/// [`MemoryShortage`] with the arithmetic.
pub fn check(available: u64, each: u64, count: usize) -> Result<(), MemoryShortage> {
    let total = each.saturating_mul(count as u64);
    if total <= available {
        return Ok(());
    }
    let most = usize::try_from(available / each.max(1)).unwrap_or(usize::MAX);
    Err(MemoryShortage { count, each, total, available, most, variants: 1 })
}

/// Returns the bytes of memory that new programs can take without swapping: what the machine has available, and what the
/// limits of our control groups leave. Absent if the kernel does not report it.
pub fn available() -> Option<u64> {
    let machine = MachineMemory::open(Path::new("/")).ok()?.read(clock::now_ns())?.available_bytes;
    let left = SysTree::open(Path::new("/")).ok().and_then(|tree| cgroup::memory_left(&tree));
    Some(left.map_or(machine, |left| left.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_that_do_not_fit_are_refused_with_the_arithmetic() {
        let (mib, available) = (1u64 << 20, 5325 << 20);
        assert_eq!(check(available, 128 * mib, 41), Ok(()));
        let refused = check(available, 128 * mib, 64).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "64 instances of 128 MiB take 8 GiB, but 5.2 GiB are available: at most 41"
        );
        assert_eq!(check(0, 1, 0), Ok(()));
        assert_eq!(check(10, 0, usize::MAX), Ok(()));
        assert_eq!(check(10, u64::MAX, 2).unwrap_err().most, 0);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
