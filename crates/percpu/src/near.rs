//! What of a row's value is in the shared part that `approx` reads.
//!
//! A row with value `v` has published `v` rounded to the nearest multiple of [`BATCH`]. That is a function of `v`
//! alone, so there is nothing to store and to keep in step: whoever takes a row from one value to another adds the
//! difference of the two roundings to the shared part, which is 0 for nearly all adds of small amounts.

/// How many adds of 1 to one row there are between two that reach the shared part.
pub(crate) const BATCH: i64 = 1024;

const HALF: i64 = BATCH / 2;
const MASK: i64 = BATCH - 1;

/// The most that a row's value and what it has published differ by.
pub(crate) const MOST: i64 = HALF;

/// What a row of this value has published.
fn published(value: i64) -> i64 {
    value.wrapping_add(HALF) & !MASK
}

/// What an add of `n` that took a row to `new` has to add to the shared part.
pub(crate) fn owed(new: i64, n: i64) -> i64 {
    published(new).wrapping_sub(published(new.wrapping_sub(n)))
}

/// Whether [`owed`] can be other than 0: exact for amounts below [`BATCH`], always true for those beyond. Where `n` is
/// a constant, this is one addition and one test.
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
                // Small amounts and large ones by turns.
                let n = if n & 1 == 0 { n % 2000 } else { n };
                value = value.wrapping_add(n);
                shared = shared.wrapping_add(owed(value, n));
                prop_assert_eq!(shared, published(value));
                prop_assert!((-MOST..=MOST).contains(&value.wrapping_sub(shared)));
            }
        }

        #[test]
        fn small_amounts_owe_exactly_where_the_test_says_so(new: i64, n in -MASK..=MASK) {
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
