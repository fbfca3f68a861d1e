//! The rate at which available memory decreases, computed from readings at irregular times.

/// Number of readings kept.
const KEPT: usize = 64;

/// Least number of readings for a rate.
const FEWEST: usize = 4;

/// Number of points of which the long-term rate compares all pairs.
const POINTS: usize = 12;

/// The last readings of the available memory (with swap), in bytes.
#[derive(Clone, Debug)]
pub struct Trend {
    /// Ring buffer of times, in nanoseconds of `CLOCK_MONOTONIC`, and bytes.
    readings: [(u64, u64); KEPT],
    count: usize,
}

impl Default for Trend {
    fn default() -> Self {
        Self { readings: [(0, 0); KEPT], count: 0 }
    }
}

impl Trend {
    /// Adds a reading. A reading that is not later than the last is ignored. After a gap of more than
    /// `gap_ns` (the machine was suspended, or this process was stopped) all earlier readings are discarded.
    pub fn add(&mut self, at_ns: u64, room: u64, gap_ns: u64) {
        if let Some((last, _)) = self.back(0) {
            if at_ns <= last {
                return;
            }
            if at_ns - last > gap_ns {
                self.count = 0;
            }
        }
        self.readings[self.count % KEPT] = (at_ns, room);
        self.count += 1;
    }

    /// Discards all readings, because `room` now measures another quantity.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    fn len(&self) -> usize {
        self.count.min(KEPT)
    }

    /// Returns the reading that is `back` readings older than the last.
    fn back(&self, back: usize) -> Option<(u64, u64)> {
        (back < self.len()).then(|| self.readings[(self.count - 1 - back) % KEPT])
    }

    /// Returns the short-term rate of decrease in bytes per second. It is the smaller of two rates, over the
    /// last `window_ns` (at least four readings) and over the second half of it, so that a single step is
    /// soon forgotten. 0 if available memory does not decrease.
    pub fn sharp(&self, window_ns: u64) -> f64 {
        let Some((now, _)) = self.back(0) else { return 0.0 };
        let within = |window: u64| {
            (0..self.len())
                .take_while(|&back| self.back(back).is_some_and(|(at, _)| now - at <= window))
                .count()
        };
        let count = within(window_ns).max(FEWEST).min(self.len());
        if count < FEWEST {
            return 0.0;
        }
        self.fall(count - 1).min(self.fall(count / 2)).max(0.0)
    }

    /// Returns the long-term rate of decrease in bytes per second: the median of the slopes between pairs of
    /// readings (Theil 1950, Sen 1968), so that single jumps count little. `None` if the readings cover less
    /// than `least_ns`. 0 if available memory does not decrease.
    pub fn lasting(&self, least_ns: u64) -> Option<f64> {
        let oldest = self.len().checked_sub(1)?;
        let (first, last) = (self.back(oldest)?.0, self.back(0)?.0);
        if last - first < least_ns {
            return None;
        }
        let points = POINTS.min(self.len());
        let mut slopes = [0.0; POINTS * (POINTS - 1) / 2];
        let mut count = 0;
        for later in 0..points {
            for earlier in later + 1..points {
                let at = |point: usize| oldest * point / (points - 1).max(1);
                let ((from, had), (to, has)) = (self.back(at(earlier))?, self.back(at(later))?);
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

    /// Returns the rate of decrease, in bytes per second, from the reading `back` before the last to the
    /// last.
    fn fall(&self, back: usize) -> f64 {
        match (self.back(back), self.back(0)) {
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

    /// Returns a trend with `room` at each time in milliseconds.
    fn trend(readings: impl IntoIterator<Item = (u64, u64)>) -> Trend {
        let mut trend = Trend::default();
        readings.into_iter().for_each(|(at, room)| trend.add(at * MS, room, GAP));
        trend
    }

    #[test]
    fn a_steady_fall_is_told_by_both() {
        let trend = trend((0..40).map(|n| (n * 250, 1_000_000 - n * 500)));
        assert!((trend.sharp(1000 * MS) - 2000.0).abs() < 1e-9);
        assert!((trend.lasting(5000 * MS).unwrap() - 2000.0).abs() < 20.0);
    }

    #[test]
    fn a_step_is_soon_forgotten_and_no_lasting_fall() {
        let step = |after: u64| trend((0..32 + after).map(|n| (n * 100, if n < 32 { 1000 } else { 400 })));
        assert!(step(1).sharp(1000 * MS) > 0.0);
        assert_eq!(step(7).sharp(1000 * MS), 0.0);
        assert_eq!(step(7).lasting(1000 * MS), Some(0.0));
    }

    #[test]
    fn what_grows_again_is_no_fall() {
        let trend = trend((0..20).map(|n| (n * 100, 1000 + n * 10)));
        assert_eq!((trend.sharp(1000 * MS), trend.lasting(100 * MS)), (0.0, Some(0.0)));
    }

    #[test]
    fn a_clock_that_jumps_back_or_a_long_sleep_makes_no_rate() {
        let mut odd = trend((0..10).map(|n| (n * 100, 1_000_000 - n * 1000)));
        odd.add(50 * MS, 1, GAP);
        assert!((odd.sharp(1000 * MS) - 10_000.0).abs() < 1e-6);
        odd.add(10 * 60_000 * MS, 1, GAP);
        assert_eq!((odd.sharp(1000 * MS), odd.lasting(0)), (0.0, None));
    }

    #[test]
    fn too_few_readings_tell_nothing() {
        assert_eq!(trend([(0, 10), (1, 5), (2, 0)]).sharp(MS), 0.0);
        assert_eq!(Trend::default().lasting(0), None);
        assert_eq!(trend([(0, 10)]).lasting(0), None);
    }

    proptest! {
        #[test]
        fn rates_are_finite_and_never_beyond_the_steepest_fall(
            steps in prop::collection::vec((1u64..5000, 0u64..1 << 40), 1..200),
        ) {
            let mut at = 0;
            let readings: Vec<(u64, u64)> = steps.iter().map(|&(step, room)| { at += step; (at, room) }).collect();
            let trend = trend(readings.iter().copied());
            let steepest = readings.windows(2)
                .map(|pair| (pair[0].1 as f64 - pair[1].1 as f64) / ((pair[1].0 - pair[0].0) as f64 / 1e3))
                .fold(0.0, f64::max);
            for rate in [trend.sharp(1000 * MS), trend.lasting(0).unwrap_or(0.0)] {
                prop_assert!(rate.is_finite() && rate >= 0.0 && rate <= steepest * 1.000_001);
            }
        }
    }
}
