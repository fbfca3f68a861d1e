//! When the next snapshot is taken.
//!
//! Times between snapshots are random, so that they do not fall into step with work of a fixed period. The CPU time of
//! the snapshots so far limits the next one, so that they never use more than a given share of one CPU in total.

use std::time::Duration;

/// Largest share of one CPU that taking snapshots may use.
pub const MOST_CPU: f64 = 0.02;

/// The shortest mean time between snapshots that can be requested.
const SHORTEST: Duration = Duration::from_micros(100);

/// Chooses the times of snapshots.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    mean_ns: u64,
    /// State of `SplitMix64` (Steele, Lea and Flood 2014).
    random: u64,
}

impl Pace {
    /// Returns a pace with this mean time between snapshots, and a seed for the random part.
    pub(crate) fn new(mean: Duration, seed: u64) -> Self {
        Self { mean_ns: mean.max(SHORTEST).as_nanos() as u64, random: seed }
    }

    /// Returns the time until the next snapshot: between half and one and a half of the mean, or longer where
    /// `cpu_ns` of CPU time were used in the first `elapsed_ns`.
    pub(crate) fn next(&mut self, cpu_ns: u64, elapsed_ns: u64) -> Duration {
        let random = self.mean_ns / 2 + self.random() % self.mean_ns;
        let affordable = (cpu_ns as f64 / MOST_CPU) as u64;
        Duration::from_nanos(random.max(affordable.saturating_sub(elapsed_ns)))
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cheap_snapshots_have_the_mean_that_was_requested_and_no_fixed_period() {
        let mut pace = Pace::new(Duration::from_millis(10), 1);
        let times: Vec<u128> = (0..10_000).map(|_| pace.next(0, 1).as_micros()).collect();
        let mean = times.iter().sum::<u128>() / 10_000;
        assert!((9_900..10_100).contains(&mean), "{mean}");
        assert!(times.iter().all(|time| (5_000..15_000).contains(time)));
        assert!(times.iter().any(|&time| time < 5_500) && times.iter().any(|&time| time > 14_500));
    }

    proptest! {
        /// Whatever snapshots cost, their CPU time stays below the limit whenever the next one begins.
        #[test]
        fn the_cpu_time_is_limited(costs in prop::collection::vec(1u64..50_000_000, 1..300), seed: u64) {
            let mut pace = Pace::new(Duration::from_millis(10), seed);
            let (mut used, mut now) = (0, 0);
            for cost in costs {
                let wait = pace.next(used, now).as_nanos() as u64;
                prop_assert!(wait >= 5_000_000);
                now += wait;
                prop_assert!(used as f64 <= now as f64 * MOST_CPU + 1.0, "{used} ns of {now}");
                used += cost;
                now += cost;
            }
        }
    }
}
