//! The rate at which available memory decreases, computed from readings at irregular times.

/// Number of readings kept.
const CAPACITY: usize = 64;

/// Least number of readings for a rate.
const MIN_READINGS: usize = 4;

/// Number of points of which the long-term rate compares all pairs.
const POINTS: usize = 12;

/// The last readings of the available memory (with swap), in bytes.
#[derive(Clone, Debug)]
pub struct Trend {
    /// Ring buffer of times, in nanoseconds of `CLOCK_MONOTONIC`, and bytes.
    readings: [(u64, u64); CAPACITY],
    count: usize,
}

impl Default for Trend {
    fn default() -> Self {
        Self { readings: [(0, 0); CAPACITY], count: 0 }
    }
}

impl Trend {
    /// Adds a reading. A reading that is not later than the last is ignored. After a gap of more than
    /// `gap_ns` (the machine was suspended, or this process was stopped) all earlier readings are discarded.
    pub fn add(&mut self, at_ns: u64, available: u64, gap_ns: u64) {
        if let Some((last, _)) = self.reading_before(0) {
            if at_ns <= last {
                return;
            }
            if at_ns - last > gap_ns {
                self.count = 0;
            }
        }
        self.readings[self.count % CAPACITY] = (at_ns, available);
        self.count += 1;
    }

    /// Discards all readings, because `available` now measures another quantity.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    fn len(&self) -> usize {
        self.count.min(CAPACITY)
    }

    /// Returns the reading that is `reading_before` readings older than the last.
    fn reading_before(&self, reading_before: usize) -> Option<(u64, u64)> {
        (reading_before < self.len()).then(|| self.readings[(self.count - 1 - reading_before) % CAPACITY])
    }

    /// Returns the short-term rate of decrease in bytes per second. It is the smaller of two rates, over the
    /// last `window_ns` (at least four readings) and over the second half of it, so that a single step is
    /// soon forgotten. 0 if available memory does not decrease.
    pub fn short_term_rate(&self, window_ns: u64) -> f64 {
        let Some((now, _)) = self.reading_before(0) else { return 0.0 };
        let within = |window: u64| {
            (0..self.len())
                .take_while(|&reading_before| {
                    self.reading_before(reading_before).is_some_and(|(at, _)| now - at <= window)
                })
                .count()
        };
        let count = within(window_ns).max(MIN_READINGS).min(self.len());
        if count < MIN_READINGS {
            return 0.0;
        }
        self.rate_since(count - 1).min(self.rate_since(count / 2)).max(0.0)
    }

    /// Returns the long-term rate of decrease in bytes per second: the median of the slopes between pairs of
    /// readings (Theil 1950, Sen 1968), so that single jumps count little. `None` if the readings cover less
    /// than `least_ns`. 0 if available memory does not decrease.
    pub fn long_term_rate(&self, least_ns: u64) -> Option<f64> {
        let oldest = self.len().checked_sub(1)?;
        let (first, last) = (self.reading_before(oldest)?.0, self.reading_before(0)?.0);
        if last - first < least_ns {
            return None;
        }
        let points = POINTS.min(self.len());
        let mut slopes = [0.0; POINTS * (POINTS - 1) / 2];
        let mut count = 0;
        for later in 0..points {
            for earlier in later + 1..points {
                let at = |point: usize| oldest * point / (points - 1).max(1);
                let ((from, had), (to, has)) =
                    (self.reading_before(at(earlier))?, self.reading_before(at(later))?);
                if to > from {
                    slopes[count] = (had as f64 - has as f64) / ((to - from) as f64 / 1e9);
                    count += 1;
                }
            }
        }
        let slopes = &mut slopes[..count];
        slopes.sort_unstable_by(f64::total_cmp);
        slopes.get(count / 2).map(|slope| slope.max(0.0))
    }

    /// Returns the rate of decrease, in bytes per second, from the reading `reading_before` before the last to the
    /// last.
    fn rate_since(&self, reading_before: usize) -> f64 {
        match (self.reading_before(reading_before), self.reading_before(0)) {
            (Some((from, had)), Some((to, has))) if to > from => {
                (had as f64 - has as f64) / ((to - from) as f64 / 1e9)
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const GAP: u64 = 60_000 * MS;

    /// Returns a trend with `available` at each time in milliseconds.
    fn trend(readings: impl IntoIterator<Item = (u64, u64)>) -> Trend {
        let mut trend = Trend::default();
        readings.into_iter().for_each(|(at, available)| trend.add(at * MS, available, GAP));
        trend
    }

    #[test]
    fn steady_decrease_shows_in_both_rates() {
        let trend = trend((0..40).map(|n| (n * 250, 1_000_000 - n * 500)));
        assert!((trend.short_term_rate(1000 * MS) - 2000.0).abs() < 1e-9);
        assert!((trend.long_term_rate(5000 * MS).unwrap() - 2000.0).abs() < 20.0);
    }

    #[test]
    fn step_is_soon_forgotten() {
        let step = |after: u64| trend((0..32 + after).map(|n| (n * 100, if n < 32 { 1000 } else { 400 })));
        assert!(step(1).short_term_rate(1000 * MS) > 0.0);
        assert_eq!(step(7).short_term_rate(1000 * MS), 0.0);
        assert_eq!(step(7).long_term_rate(1000 * MS), Some(0.0));
    }

    #[test]
    fn increase_is_no_decrease() {
        let trend = trend((0..20).map(|n| (n * 100, 1000 + n * 10)));
        assert_eq!((trend.short_term_rate(1000 * MS), trend.long_term_rate(100 * MS)), (0.0, Some(0.0)));
    }

    #[test]
    fn clock_jump_or_gap_makes_no_rate() {
        let mut odd = trend((0..10).map(|n| (n * 100, 1_000_000 - n * 1000)));
        odd.add(50 * MS, 1, GAP);
        assert!((odd.short_term_rate(1000 * MS) - 10_000.0).abs() < 1e-6);
        odd.add(10 * 60_000 * MS, 1, GAP);
        assert_eq!((odd.short_term_rate(1000 * MS), odd.long_term_rate(0)), (0.0, None));
    }

    #[test]
    fn too_few_readings_have_no_rate() {
        assert_eq!(trend([(0, 10), (1, 5), (2, 0)]).short_term_rate(MS), 0.0);
        assert_eq!(Trend::default().long_term_rate(0), None);
        assert_eq!(trend([(0, 10)]).long_term_rate(0), None);
    }

    proptest! {
        #[test]
        fn rates_are_finite_and_at_most_the_steepest_decrease(
            steps in prop::collection::vec((1u64..5000, 0u64..1 << 40), 1..200),
        ) {
            let mut at = 0;
            let readings: Vec<(u64, u64)> = steps.iter().map(|&(step, available)| { at += step; (at, available) }).collect();
            let trend = trend(readings.iter().copied());
            let steepest = readings.windows(2)
                .map(|pair| (pair[0].1 as f64 - pair[1].1 as f64) / ((pair[1].0 - pair[0].0) as f64 / 1e3))
                .fold(0.0, f64::max);
            for rate in [trend.short_term_rate(1000 * MS), trend.long_term_rate(0).unwrap_or(0.0)] {
                prop_assert!(rate.is_finite() && rate >= 0.0 && rate <= steepest * 1.000_001);
            }
        }
    }
}
