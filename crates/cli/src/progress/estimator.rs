//! The time left of a run, from its plan and from how long the planned work has really taken so far. Pure: time is an
//! argument.

/// Weight of the plan against the observed pace, as a share of the plan: with nothing done, the plan holds.
const PLAN_WEIGHT: f64 = 0.05;

/// A plan whose remaining seconds fall this many times faster than time passes was shortened: a part was skipped.
const SKIP: f64 = 4.0;

/// Seconds of the plan that may pass at once without being a skipped part.
const SKIP_SECONDS: f64 = 1.0;

/// An estimator of the time left. All times are seconds.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    /// Elapsed time when the present plan began.
    began: f64,
    /// Planned seconds of the present plan.
    planned: f64,
    /// Planned seconds that are left.
    left: f64,
    /// Elapsed time at which that was reported.
    at: f64,
}

impl Estimator {
    /// Returns the estimator of a run that is planned to take `seconds`.
    pub(super) fn new(seconds: f64) -> Self {
        let seconds = if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
        Self { began: 0.0, planned: seconds, left: seconds, at: 0.0 }
    }

    /// Notes that `left` planned seconds are left at this elapsed time.
    pub(super) fn update(&mut self, elapsed: f64, left: f64) {
        let is_same_plan = left < self.planned && left <= self.left;
        if is_same_plan {
            let (fall, passed) = (self.left - left, elapsed - self.at);
            if fall > SKIP * passed + SKIP_SECONDS {
                self.planned -= fall - passed;
            }
        } else {
            // Preparations have ended, or more was found to do.
            self.plan(elapsed, left);
        }
        (self.left, self.at) = (left, elapsed);
    }

    /// Begins a new plan of so many seconds at this elapsed time.
    pub(super) fn plan(&mut self, elapsed: f64, left: f64) {
        *self = Self { began: elapsed, at: elapsed, ..Self::new(left) };
    }

    /// Returns the seconds left at this elapsed time.
    pub(super) fn left(&self, elapsed: f64) -> f64 {
        let weight = PLAN_WEIGHT * self.planned;
        let done = self.planned - self.left;
        let pace = if done + weight > 0.0 { (self.at - self.began + weight) / (done + weight) } else { 1.0 };
        (self.left * pace - (elapsed - self.at)).max(0.0)
    }

    /// Returns the share of the whole time that has passed, 0 to 1.
    pub(super) fn share(&self, elapsed: f64) -> f64 {
        let whole = elapsed + self.left(elapsed);
        if whole > 0.0 { (elapsed / whole).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a plan of parts, each with its planned and its real seconds, in so many steps per part. Returns the time
    /// that was predicted to be left, and the time that was left, at the first step after half of the real time.
    fn at_half_time(parts: &[(f64, f64)], steps: usize) -> (f64, f64) {
        let planned: f64 = parts.iter().map(|part| part.0).sum();
        let real: f64 = parts.iter().map(|part| part.1).sum();
        let mut estimator = Estimator::new(planned);
        let (mut elapsed, mut left) = (0.0, planned);
        for (plan, took) in parts {
            for _ in 0..steps {
                elapsed += took / steps as f64;
                left -= plan / steps as f64;
                estimator.update(elapsed, left);
                if elapsed >= real / 2.0 {
                    return (estimator.left(elapsed), real - elapsed);
                }
            }
        }
        (0.0, 0.0)
    }

    fn is_right((predicted, real): (f64, f64)) -> bool {
        (predicted - real).abs() <= 0.2 * real
    }

    #[test]
    fn half_time_is_predicted_within_a_fifth() {
        // As planned; all parts slower or faster than planned; one part of many twice as long.
        for parts in [vec![(90.0, 90.0)], vec![(60.0, 120.0)], vec![(60.0, 33.0)], vec![(10.0, 15.0); 9], {
            let mut parts = vec![(10.0, 10.0); 8];
            parts.push((10.0, 20.0));
            parts
        }] {
            let half = at_half_time(&parts, 20);
            assert!(is_right(half), "{parts:?}: {half:?}");
        }
    }

    #[test]
    fn preparations_and_skipped_parts_do_not_change_the_pace() {
        let mut estimator = Estimator::new(60.0);
        // Warm-up of 30 s, then the plan begins.
        estimator.update(30.0, 60.0);
        assert_eq!(estimator.left(30.0), 60.0);
        estimator.update(60.0, 30.0);
        assert_eq!((estimator.left(60.0), estimator.left(70.0)), (30.0, 20.0));
        // A part of 20 s is not possible here.
        estimator.update(60.1, 10.0);
        assert!((estimator.left(60.1) - 10.0).abs() < 0.2, "{}", estimator.left(60.1));
        // More was found to do.
        estimator.update(62.0, 100.0);
        assert_eq!(estimator.left(62.0), 100.0);
    }

    /// Regression test: `bench stream` showed 143 s left of 5 s after it had allocated memory for 8 s.
    #[test]
    fn a_new_plan_has_a_pace_of_its_own() {
        let mut estimator = Estimator::new(5.0);
        estimator.plan(8.0, 5.0);
        assert_eq!(estimator.left(8.0), 5.0);
        estimator.update(8.5, 4.5);
        assert!((estimator.left(8.5) - 4.5).abs() < 1e-9, "{}", estimator.left(8.5));
    }

    proptest! {
        #[test]
        fn any_constant_pace_is_found(planned in 5.0..5000.0, pace in 0.6..4.0, steps in 10usize..300) {
            let half = at_half_time(&[(planned, planned * pace)], steps);
            prop_assert!(is_right(half), "{half:?}");
        }

        #[test]
        fn estimates_are_finite_and_shares_in_range(
            planned in prop::num::f64::ANY,
            updates in prop::collection::vec((0.0..1e6, 0.0..1e6), 0..20),
        ) {
            let mut estimator = Estimator::new(planned);
            let mut elapsed = 0.0;
            for (more, left) in updates {
                elapsed += more;
                estimator.update(elapsed, left);
                prop_assert!(estimator.left(elapsed).is_finite() && estimator.left(elapsed) >= 0.0);
                prop_assert!((0.0..=1.0).contains(&estimator.share(elapsed)));
            }
        }
    }
}
