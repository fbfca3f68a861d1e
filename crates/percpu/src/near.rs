//! The part of a row's value that is contained in the shared value, which `approx` reads.
//!
//! A row with value `v` has published `v` rounded to the nearest multiple of [`BATCH`]. That is a function of
//! `v` only, so there is no further state to keep consistent. A thread that takes a row from one value to
//! another adds the difference of the two roundings to the shared value. For nearly all adds of small
//! amounts, it is 0.

/// Number of adds of 1 to one row between two that change the shared value.
pub(crate) const BATCH: i64 = 1024;

const HALF: i64 = BATCH / 2;
const MASK: i64 = BATCH - 1;

/// Largest difference between a row's value and its published value.
pub(crate) const MAX_DIFFERENCE: i64 = HALF;

/// Returns the published value of a row with this value.
fn published(value: i64) -> i64 {
    value.wrapping_add(HALF) & !MASK
}

/// Returns what an add of `n` that took a row to `new` has to add to the shared value.
pub(crate) fn owed(new: i64, n: i64) -> i64 {
    published(new).wrapping_sub(published(new.wrapping_sub(n)))
}

/// Returns whether [`owed`] can differ from 0: exact for amounts below [`BATCH`], always true for larger
/// ones. If `n` is a constant, this is one addition and one test.
#[inline]
pub(crate) fn owes(new: i64, n: i64) -> bool {
    let above = (new.wrapping_add(HALF) & MASK) as u64;
    if n >= 0 { above < n as u64 } else { above + n.unsigned_abs() > MASK as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::cases())]

        #[test]
        fn what_is_owed_adds_up_to_what_is_published(amounts in proptest::collection::vec(any::<i64>(), 0..50)) {
            let (mut value, mut shared) = (0_i64, 0_i64);
            for n in amounts {
                // Alternates between small and large amounts.
                let n = if n & 1 == 0 { n % 2000 } else { n };
                value = value.wrapping_add(n);
                shared = shared.wrapping_add(owed(value, n));
                prop_assert_eq!(shared, published(value));
                prop_assert!((-MAX_DIFFERENCE..=MAX_DIFFERENCE).contains(&value.wrapping_sub(shared)));
            }
        }

        #[test]
        fn small_amounts_owe_exactly_if_the_test_is_true(new: i64, n in -MASK..=MASK) {
            prop_assert_eq!(owes(new, n), owed(new, n) != 0);
        }

        #[test]
        fn nothing_owed_is_overlooked(new: i64, n: i64) {
            prop_assert!(owes(new, n) || owed(new, n) == 0);
        }
    }

    #[test]
    fn amounts_at_the_ends_of_the_range_are_not_overlooked() {
        for new in [i64::MIN, -1, 0, 1, HALF - 1, HALF, i64::MAX] {
            for n in [i64::MIN, i64::MIN + 1, -BATCH, BATCH, i64::MAX] {
                assert!(owes(new, n) || owed(new, n) == 0, "{new} {n}");
            }
        }
    }
}
