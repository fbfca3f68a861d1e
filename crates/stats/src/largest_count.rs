//! The search for the largest count of instances at which a metric is within a bound.
//!
//! A sample is the logarithm of the metric at a count over that of the lone instance, measured directly before or after, so
//! that what changes on the machine over time cancels. It is noisy, and grows with the count in tendency. The search
//!
//! 1. doubles the count until it is above the bound, then bisects on a logarithmic scale;
//! 2. at each count takes samples until the interval of their mean is within the bound or above it, up to a limit. The noise
//!    is estimated from all counts, so that few samples at each are enough. Where it grows with the count, the noise of those
//!    from half of this count on, or of this count alone, is larger, and counts;
//! 3. leaves counts undecided that are too near to the bound, and narrows the range from both sides of them.
//!
//! The interval of the density follows from the decisions: from the largest count that is within the bound to the one below
//! the smallest count that is above it. It is honest however early the search ends, and it assumes no curve. The estimate
//! is where a non-decreasing fit of all means crosses the bound. The tests of the crate `manycore-density` measure its errors on
//! invented hosts.

use crate::{isotonic_fit, mean, student_quantile};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::RangeBounds};

/// Samples at a count from which it may be decided.
const LEAST_SAMPLES: usize = 3;
/// Samples at a count from which it stays undecided.
const MOST_SAMPLES: usize = 15;
/// Degrees of freedom of the noise from which a count may be decided.
const LEAST_FREEDOM: usize = 5;
/// Tail of the interval of a mean on each side. It is looked at after each sample, at each count: this level makes the
/// answer hold in 95 of 100 searches (`crates/density/tests/calibration.rs`).
const TAIL: f64 = 0.005;
/// The search ends when the range is narrower than this factor.
const PRECISION: f64 = 1.03;

/// What to search for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// Largest logarithm of the ratio to the lone instance that is within the bound: ln(1.1) for "at most 10 % more".
    pub bound: f64,
    /// The smallest count that is measured. All below are within the bound: 2 if a lone instance is within it by definition.
    pub first: usize,
    /// The largest count that is measured.
    pub most: usize,
    /// Samples in total, at most.
    pub samples: usize,
}

/// Where a count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The metric is within the bound.
    Within,
    /// The metric is above the bound, or an instance failed.
    Above,
    /// Too near to the bound, or too few samples.
    Undecided,
}

/// What is known of a count.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The samples, in the order of their measurement.
    pub samples: Vec<f64>,
    /// Where it is.
    pub position: Position,
    /// The interval of the mean by which that was decided, or the last one. `None` with too few samples, here or in total.
    pub interval: Option<(f64, f64)>,
}

/// The answer of a search, whether it has ended or not: the largest count that is within the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargestCount {
    /// The most likely count; `None` if no count is known to be above the bound.
    pub estimate: Option<usize>,
    /// Lower end of the interval.
    pub low: usize,
    /// Upper end of the interval; `None` if no count is known to be above the bound.
    pub high: Option<usize>,
}

/// A search. Measure at [`Self::next_count`], give the result to [`Self::add`] or [`Self::fail`], and again.
#[derive(Clone, Debug)]
pub struct Search {
    options: SearchOptions,
    visits: BTreeMap<usize, Visit>,
    /// The count that is being decided.
    current: Option<usize>,
}

impl Search {
    /// Begins a search at the smallest count.
    pub fn new(options: SearchOptions) -> Self {
        let current = (options.first <= options.most).then_some(options.first);
        Self { options, visits: BTreeMap::new(), current }
    }

    /// Returns the count at which the next sample is taken; `None` if the search has ended.
    pub fn next_count(&self) -> Option<usize> {
        self.current.filter(|_| self.samples() < self.options.samples)
    }

    /// Takes a sample at a count: the logarithm of the ratio to the lone instance.
    pub fn add(&mut self, count: usize, log_ratio: f64) {
        self.visit(count).samples.push(log_ratio);
        let interval = self.interval(count);
        let bound = self.options.bound;
        let visit = self.visit(count);
        visit.interval = interval;
        visit.position = match interval {
            Some((_, high)) if high <= bound => Position::Within,
            Some((low, _)) if low > bound => Position::Above,
            _ => Position::Undecided,
        };
        if visit.position != Position::Undecided || visit.samples.len() >= MOST_SAMPLES {
            self.current = self.choose();
        }
    }

    /// Notes that an instance failed at a count, which is above the bound therefore.
    pub fn fail(&mut self, count: usize) {
        self.visit(count).position = Position::Above;
        self.current = self.choose();
    }

    /// Returns what is known of each count that was visited.
    pub fn visits(&self) -> &BTreeMap<usize, Visit> {
        &self.visits
    }

    /// Returns the number of samples so far.
    pub fn samples(&self) -> usize {
        self.visits.values().map(|visit| visit.samples.len()).sum()
    }

    /// Returns the answer so far.
    pub fn answer(&self) -> LargestCount {
        let (low, above) = self.range();
        let estimate = above.map(|above| (self.crossing() as usize).clamp(low, (above - 1).max(low)));
        LargestCount { estimate, low, high: above.map(|above| above - 1) }
    }

    fn visit(&mut self, count: usize) -> &mut Visit {
        self.visits.entry(count).or_insert(Visit {
            samples: Vec::new(),
            position: Position::Undecided,
            interval: None,
        })
    }

    /// Returns the largest count that is within the bound, and the smallest one that is above it.
    fn range(&self) -> (usize, Option<usize>) {
        let of = |position| {
            self.visits.iter().filter(move |(_, visit)| visit.position == position).map(|(count, _)| *count)
        };
        (of(Position::Within).max().unwrap_or(self.options.first - 1), of(Position::Above).min())
    }

    /// Returns the interval of the mean of a count's samples so far. `None` with too few samples.
    fn interval(&self, count: usize) -> Option<(f64, f64)> {
        let samples = &self.visits.get(&count)?.samples;
        if samples.len() < LEAST_SAMPLES {
            return None;
        }
        let widths = [self.half_width(count / 2..), self.half_width(count..=count)];
        let largest = widths.into_iter().flatten().fold(self.half_width(..)?, f64::max);
        let half = largest / (samples.len() as f64).sqrt();
        mean(samples).map(|mean| (mean - half, mean + half))
    }

    /// Returns half of the width of the interval of one sample, by the noise at these counts. `None` with too few samples there.
    fn half_width(&self, counts: impl RangeBounds<usize>) -> Option<f64> {
        let (mut squares, mut freedom) = (0.0, 0);
        for Visit { samples, .. } in self.visits.range(counts).map(|(_, visit)| visit) {
            let Some(mean) = mean(samples) else { continue };
            squares += samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
            freedom += samples.len() - 1;
        }
        (freedom >= LEAST_FREEDOM)
            .then(|| student_quantile(TAIL, freedom as f64) * (squares / freedom as f64).sqrt())
    }

    /// Chooses the next count, when the current one is decided or has all its samples.
    fn choose(&self) -> Option<usize> {
        let (low, above) = self.range();
        let mut open =
            self.visits.keys().copied().filter(|&count| count > low && above.is_none_or(|a| count < a));
        let first_open = open.next();
        let last_open = open.next_back().or(first_open);
        let below = first_open.or(above).and_then(|end| between(low, end));
        match above {
            Some(above) => below.or_else(|| last_open.and_then(|begin| between(begin, above))),
            None => {
                let largest = last_open.unwrap_or(low);
                let doubled = (2 * largest).min(self.options.most).max(self.options.first);
                if doubled > largest { Some(doubled) } else { below }
            }
        }
    }

    /// Returns the count at which a non-decreasing fit of all means crosses the bound, between counts on a logarithmic scale.
    fn crossing(&self) -> f64 {
        let measured = self.visits.iter().filter_map(|(&count, visit)| {
            Some((count as f64, mean(&visit.samples)?, visit.samples.len() as f64))
        });
        let measured: Vec<(f64, f64, f64)> = measured.collect();
        let points: Vec<(f64, f64)> = measured.iter().map(|point| (point.1, point.2)).collect();
        let fit = isotonic_fit(&points);
        let bound = self.options.bound;
        let Some(after) = fit.iter().position(|&value| value > bound) else {
            return measured.last().map_or(0.0, |point| point.0);
        };
        let Some(before) = after.checked_sub(1) else { return 0.0 };
        let part = (bound - fit[before]) / (fit[after] - fit[before]);
        let (from, to) = (measured[before].0.ln(), measured[after].0.ln());
        (from + part * (to - from)).exp()
    }
}

/// Returns the count in the middle of two on a logarithmic scale; `None` if the range is narrow enough.
fn between(low: usize, high: usize) -> Option<usize> {
    let begin = low.max(1) as f64;
    let is_open = high > low + 1 && high as f64 / begin >= PRECISION;
    is_open.then(|| ((begin * high as f64).sqrt().round() as usize).clamp(low + 1, high - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(first: usize, most: usize) -> SearchOptions {
        SearchOptions { bound: 0.1, first, most, samples: 1000 }
    }

    /// Searches on a host whose samples are known.
    fn search(options: SearchOptions, mut sample: impl FnMut(usize) -> f64) -> Search {
        let mut search = Search::new(options);
        while let Some(count) = search.next_count() {
            search.add(count, sample(count));
        }
        search
    }

    /// Alternating noise, without which no interval could be wide.
    fn wobble(size: f64) -> impl FnMut() -> f64 {
        let mut sign = size;
        move || {
            sign = -sign;
            sign
        }
    }

    #[test]
    fn a_step_is_found_exactly() {
        let mut noise = wobble(0.001);
        let found = search(options(2, 64), |count| if count <= 20 { noise() } else { 0.5 + noise() });
        assert_eq!(found.answer(), LargestCount { estimate: Some(20), low: 20, high: Some(20) });
        let visited: Vec<usize> = found.visits().keys().copied().collect();
        assert_eq!(visited, [2, 4, 8, 16, 19, 20, 21, 23, 32]);
    }

    #[test]
    fn a_limit_that_is_not_reached_has_no_upper_end() {
        let mut noise = wobble(0.001);
        let found = search(options(2, 48), |_| noise());
        assert_eq!(found.answer(), LargestCount { estimate: None, low: 48, high: None });
    }

    #[test]
    fn a_first_count_above_the_bound_leaves_the_ones_below() {
        let mut noise = wobble(0.001);
        let found = search(options(2, 48), |_| 0.3 + noise());
        assert_eq!(found.answer(), LargestCount { estimate: Some(1), low: 1, high: Some(1) });
        let none = search(options(1, 48), |_| 0.3 + noise());
        assert_eq!(none.answer(), LargestCount { estimate: Some(0), low: 0, high: Some(0) });
    }

    #[test]
    fn counts_at_the_bound_stay_undecided_and_widen_the_interval() {
        let mut noise = wobble(0.05);
        let at = |count: usize| if (10..=20).contains(&count) { 0.1 } else { 0.1 * (count as f64 / 15.0) };
        let found = search(options(2, 64), |count| at(count) + noise());
        let LargestCount { estimate, low, high } = found.answer();
        assert!(low < 10 && high.is_some_and(|high| high >= 20), "{low} {high:?}");
        assert!(estimate.is_some_and(|estimate| (low..=high.unwrap()).contains(&estimate)));
    }

    #[test]
    fn an_instance_that_fails_is_above_the_bound() {
        let mut search = Search::new(options(2, 64));
        let mut noise = wobble(0.001);
        while let Some(count) = search.next_count() {
            if count > 11 { search.fail(count) } else { search.add(count, noise()) }
        }
        assert_eq!(search.answer(), LargestCount { estimate: Some(11), low: 11, high: Some(11) });
    }

    #[test]
    fn without_samples_nothing_is_known() {
        let none = Search::new(SearchOptions { samples: 0, ..options(2, 64) });
        assert_eq!((none.next_count(), none.answer().low, none.answer().high), (None, 1, None));
        assert_eq!(Search::new(options(2, 1)).next_count(), None);
    }

    proptest! {
        /// Whatever is measured: the search ends within its limits, and the interval contains the estimate.
        #[test]
        fn any_samples_give_an_answer(samples in prop::collection::vec(-1f64..1.0, 1..300), first in 1usize..4,
                                      most in 1usize..600, limit in 0usize..300) {
            let mut values = samples.iter().cycle();
            let options = SearchOptions { bound: 0.1, first, most, samples: limit };
            let found = search(options, |_| *values.next().unwrap());
            prop_assert!(found.samples() <= limit);
            prop_assert!(found.visits().keys().all(|&count| count >= first && count <= most));
            prop_assert!(found.visits().values().all(|visit| visit.samples.len() <= MOST_SAMPLES));
            let LargestCount { estimate, low, high } = found.answer();
            prop_assert_eq!(estimate.is_some(), high.is_some());
            if let (Some(estimate), Some(high)) = (estimate, high) {
                prop_assert!(low <= estimate && estimate <= high);
            }
        }
    }
}
