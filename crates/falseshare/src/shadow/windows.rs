//! Lines that change hands all the time are looked at some of the time.
//!
//! A hand-over costs an emulated thread some hundreds of nanoseconds, for what is kept of the line moves between
//! caches with it; a real one costs tens. Once a line has changed hands [`MANY`] times, it does so only within
//! windows of some milliseconds, one in [`EACH`] of which the number decides as by chance, and each hand-over in
//! them stands for as many. Accesses are counted all the time.

use crate::shadow::sys;

/// Hand-overs of a line of which each is looked at.
pub const MANY: u64 = 1 << 14;
/// Of so many windows, one is looked at.
pub const EACH: u32 = 16;
/// A window lasts 2 to this power nanoseconds, 4.2 ms: about a tick of the clock that is read.
const BITS: u32 = 22;

/// How many hand-overs one stands for now, at a line that changed hands so often; 0 outside of windows.
#[inline]
pub fn weight(hand_overs: u64) -> u32 {
    match hand_overs < MANY {
        true => 1,
        false if is_open(sys::coarse_ns()) => EACH,
        false => 0,
    }
}

/// Whether the window at this time is one to look in. Neighbouring numbers are spread by the golden ratio
/// (Fibonacci hashing), lest a program that repeats itself every 16 windows is seen at one point only.
fn is_open(ns: u64) -> bool {
    let spread =
        (ns >> BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    spread >> 60 == 0
}

/// Whether lines that change hands often are looked at now.
pub fn is_now() -> bool {
    is_open(sys::coarse_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_window_in_sixteen_is_looked_at_and_never_at_an_even_step() {
        const WINDOWS: u64 = 1 << 16;
        let open: Vec<u64> = (0..WINDOWS).filter(|window| is_open(window << BITS)).collect();
        let expected = WINDOWS / u64::from(EACH);
        assert!(open.len().abs_diff(expected as usize) < expected as usize / 10, "{}", open.len());
        for step in 2..=64 {
            let most =
                (0..step).map(|phase| open.iter().filter(|window| **window % step == phase).count()).max();
            let even = open.len() / step as usize;
            assert!(most.unwrap() < 2 * even, "step {step}: {most:?} of {}", open.len());
        }
    }

    #[test]
    fn a_line_that_seldom_changes_hands_is_looked_at_always() {
        assert_eq!(weight(0), 1);
        assert_eq!(weight(MANY - 1), 1);
        assert!([0, EACH].contains(&weight(MANY)));
    }
}
