//! Sampling of lines with very many transfers.
//!
//! A transfer costs an emulated thread some hundreds of nanoseconds, because the line's record moves between
//! caches with it; a real transfer costs tens. After [`SAMPLE_AFTER`] transfers of a line, further transfers only
//! happen within windows of some milliseconds. One window in [`SAMPLE_RATIO`] is open, selected pseudo-randomly by
//! its number, and each transfer in it counts as [`SAMPLE_RATIO`]. Accesses are always counted.

use crate::shadow::sys;

/// Number of transfers of a line before it is sampled.
pub const SAMPLE_AFTER: u64 = 1 << 14;
/// One window in this number is open.
pub const SAMPLE_RATIO: u32 = 16;
/// Length of a window as a power of two of nanoseconds: 4.2 ms, about a tick of the clock that is used.
const BITS: u32 = 22;

/// Returns how many transfers one stands for now, given the line's transfers so far; 0 outside of open windows.
#[inline]
pub fn weight(transfers: u64) -> u32 {
    match transfers < SAMPLE_AFTER {
        true => 1,
        false if is_open(sys::coarse_ns()) => SAMPLE_RATIO,
        false => 0,
    }
}

/// Returns whether the window at this time is open. Consecutive numbers are spread with the golden ratio
/// (Fibonacci hashing); otherwise a program with a period of 16 windows would always be sampled at the same point.
fn is_open(ns: u64) -> bool {
    let spread =
        (ns >> BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    spread >> 60 == 0
}

/// Returns whether lines with many transfers are sampled now.
pub fn is_sampling() -> bool {
    is_open(sys::coarse_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_window_in_sixteen_is_open_and_never_at_an_even_step() {
        const WINDOWS: u64 = 1 << 16;
        let open: Vec<u64> = (0..WINDOWS).filter(|window| is_open(window << BITS)).collect();
        let expected = WINDOWS / u64::from(SAMPLE_RATIO);
        assert!(open.len().abs_diff(expected as usize) < expected as usize / 10, "{}", open.len());
        for step in 2..=64 {
            let most =
                (0..step).map(|phase| open.iter().filter(|window| **window % step == phase).count()).max();
            let even = open.len() / step as usize;
            assert!(most.unwrap() < 2 * even, "step {step}: {most:?} of {}", open.len());
        }
    }

    #[test]
    fn lines_with_few_transfers_are_always_followed() {
        assert_eq!(weight(0), 1);
        assert_eq!(weight(SAMPLE_AFTER - 1), 1);
        assert!([0, SAMPLE_RATIO].contains(&weight(SAMPLE_AFTER)));
    }
}
