//! The requests of one run of a load generator: how many took at most how long.

use serde::{Deserialize, Serialize};

/// Maximum number of points that are kept of one run; longer tables are thinned.
pub const MAX_POINTS: usize = 256;

/// More requests than any run sends. Sums over runs do not overflow.
pub(super) const MAX_REQUESTS: u64 = 1 << 53;

/// Latencies of the requests of one run, as points of their cumulative distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestTimes {
    /// Kind of the requests where the load generator tells them apart: `get`. Otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub name: String,
    /// Unit of the latencies: `ms`, or empty where the program does not print it.
    pub unit: String,
    /// Number of requests.
    pub count: u64,
    /// Latency and number of requests that took at most as long. Both ascend; the last number is `count`.
    pub points: Vec<(f64, u64)>,
}

impl RequestTimes {
    /// Builds the distribution from points in any order. Where rounding makes a later number smaller than an earlier one,
    /// the larger one counts. Long tables are thinned to [`MAX_POINTS`].
    ///
    /// # Errors
    /// What is impossible: no requests, too many, or a latency that is negative or not finite.
    pub fn new(name: &str, unit: &str, count: f64, points: Vec<(f64, f64)>) -> Result<Self, String> {
        if !(1.0..=MAX_REQUESTS as f64).contains(&count) {
            return Err(format!("the number of requests is {count}, expected 1 to 2^53"));
        }
        let count = count.round() as u64;
        let mut points = points;
        if let Some((latency, _)) = points.iter().find(|(latency, _)| !latency.is_finite() || *latency < 0.0)
        {
            return Err(format!("a latency is {latency}, expected a finite number from 0"));
        }
        if let Some((_, number)) = points.iter().find(|(_, number)| !number.is_finite() || *number < 0.0) {
            return Err(format!("a number of requests is {number}, expected 0 to {count}"));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut kept: Vec<(f64, u64)> = Vec::new();
        for (latency, number) in points {
            let before = kept.last().map_or(0, |last| last.1);
            let number = (number.round() as u64).min(count).max(before);
            match kept.last_mut() {
                Some(last) if last.0 >= latency => last.1 = number,
                _ if number > before => kept.push((latency, number)),
                _ => {}
            }
        }
        if kept.last().is_none_or(|last| last.1 == 0) {
            return Err("it has no latency above which requests are counted".to_owned());
        }
        if let Some(last) = kept.last_mut() {
            last.1 = count;
        }
        Ok(Self { name: name.to_owned(), unit: unit.to_owned(), count, points: thinned(kept) })
    }

    /// Returns the smallest latency of the points that at least the share `q` of the requests do not exceed.
    pub fn quantile(&self, q: f64) -> f64 {
        // Printed numbers of requests are rounded.
        let wanted = q.clamp(0.0, 1.0) * self.count as f64 - 0.5;
        let reached = self.points.iter().find(|point| point.1 as f64 >= wanted).or(self.points.last());
        reached.map_or(0.0, |point| point.0)
    }

    /// As [`Self::quantile`], if the points show it: the share of the one that reaches `q` exceeds `q` by at most half of
    /// `1 - q`, or its latency that of the one before by at most 10 %.
    ///
    /// # Errors
    /// The shares of requests of the points around it.
    pub fn known_quantile(&self, q: f64) -> Result<f64, Vec<f64>> {
        let wanted = q.clamp(0.0, 1.0) * self.count as f64 - 0.5;
        let at = self.points.iter().position(|point| point.1 as f64 >= wanted).unwrap_or(0);
        let share = |at: usize| self.points[at].1 as f64 / self.count as f64;
        let (latency, before) = (self.points[at].0, at.checked_sub(1));
        let excess = self.points[at].1 as f64 - q * self.count as f64;
        // Numbers of requests are whole, and printed ones are rounded.
        let is_reached = excess <= (0.5 * (1.0 - q) * self.count as f64).max(1.0) + 0.5;
        let is_near = before.is_some_and(|before| latency - self.points[before].0 <= 0.1 * latency);
        if is_reached || is_near {
            return Ok(latency);
        }
        Err(before.into_iter().chain([at]).map(share).collect())
    }

    /// Checks what a record that was read may not contain.
    pub(super) fn check(&self) -> Result<(), String> {
        let ascend = self.points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let finite = self.points.iter().all(|(latency, _)| latency.is_finite() && *latency >= 0.0);
        let ends = self.points.last().is_some_and(|last| last.1 == self.count);
        if ascend
            && finite
            && ends
            && (1..=MAX_REQUESTS).contains(&self.count)
            && self.points.len() <= MAX_POINTS
        {
            return Ok(());
        }
        Err(format!("requests {:?}: their latencies and numbers do not ascend to {}", self.name, self.count))
    }
}

/// Keeps the ends, and of the points between those that divide the tail most evenly: two of every three, until they fit.
fn thinned(mut points: Vec<(f64, u64)>) -> Vec<(f64, u64)> {
    while points.len() > MAX_POINTS {
        let last = points.len() - 1;
        let mut index = 0;
        points.retain(|_| {
            index += 1;
            // The sparse tail, which matters most, keeps all of its points.
            index > last - MAX_POINTS / 4 || index % 3 != 2
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_ascend_and_end_at_the_number_of_requests() {
        let points = vec![(2.0, 90.0), (1.0, 50.0), (3.0, 89.0), (4.0, 99.0), (4.0, 99.6)];
        let times = RequestTimes::new("get", "ms", 100.0, points).unwrap();
        assert_eq!(times.points, [(1.0, 50), (2.0, 90), (4.0, 100)]);
        assert_eq!(times.check(), Ok(()));
    }

    #[test]
    fn a_quantile_is_the_first_point_that_reaches_it() {
        let times = RequestTimes::new("get", "ms", 1000.0, vec![(1.0, 500.0), (2.0, 990.0), (9.0, 1000.0)]);
        let times = times.unwrap();
        assert_eq!(
            [0.0, 0.5, 0.51, 0.99, 0.999, 1.0].map(|q| times.quantile(q)),
            [1.0, 1.0, 2.0, 2.0, 9.0, 9.0]
        );
    }

    /// Regression: p95 of wrk, which prints p90 and p99, was its p99.
    #[test]
    fn a_quantile_that_is_not_among_the_points_is_unknown() {
        let points = vec![(1.0, 500.0), (2.0, 900.0), (9.0, 990.0), (9.5, 1000.0)];
        let times = RequestTimes::new("", "ms", 1000.0, points).unwrap();
        let known = |q| times.known_quantile(q);
        assert_eq!([0.5, 0.9, 0.99, 1.0].map(known), [1.0, 2.0, 9.0, 9.5].map(Ok));
        assert_eq!(known(0.95), Err(vec![0.9, 0.99]));
        assert_eq!(known(0.4), Ok(1.0));
        // 9.5 ms is near 9 ms.
        assert_eq!(known(0.995), Ok(9.5));
        let redis = RequestTimes::new("", "ms", 1e5, vec![(1.0, 98_730.0), (2.0, 99_266.0), (3.0, 1e5)]);
        assert_eq!(redis.unwrap().known_quantile(0.99), Ok(2.0));
        let few = RequestTimes::new("", "ms", 10.0, vec![(1.0, 5.0), (8.0, 10.0)]).unwrap();
        assert_eq!(few.known_quantile(0.99), Ok(8.0));
        let thousand = RequestTimes::new("", "ms", 1000.0, vec![(1.0, 990.0), (8.0, 1000.0)]).unwrap();
        assert_eq!(thousand.known_quantile(0.999), Ok(8.0));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let of =
            |count, points: &[(f64, f64)]| RequestTimes::new("", "ms", count, points.to_vec()).unwrap_err();
        for count in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY] {
            assert!(of(count, &[(1.0, 1.0)]).contains("expected 1 to 2^53"), "{count}");
        }
        assert!(of(9.0, &[(-1.0, 1.0)]).starts_with("a latency is -1"));
        assert!(of(9.0, &[(f64::NAN, 1.0)]).starts_with("a latency is NaN"));
        assert!(of(9.0, &[(1.0, f64::NAN)]).starts_with("a number of requests is NaN"));
        assert!(of(9.0, &[]).contains("no latency"));
    }

    #[test]
    fn a_long_table_is_thinned_and_keeps_its_tail() {
        let points: Vec<(f64, f64)> = (1..=100_000).map(|at| (f64::from(at), f64::from(at))).collect();
        let times = RequestTimes::new("", "ms", 100_000.0, points).unwrap();
        assert!(times.points.len() <= MAX_POINTS && times.points.len() > MAX_POINTS / 2);
        assert_eq!(times.points[times.points.len() - 2..], [(99_999.0, 99_999), (100_000.0, 100_000)]);
        assert_eq!(times.check(), Ok(()));
    }

    #[test]
    fn a_record_with_other_points_is_refused() {
        let good = RequestTimes::new("", "ms", 10.0, vec![(1.0, 5.0), (2.0, 10.0)]).unwrap();
        let wrong = [
            RequestTimes { count: 11, ..good.clone() },
            RequestTimes { points: vec![(2.0, 5), (1.0, 10)], ..good.clone() },
            RequestTimes { points: vec![(1.0, 11), (2.0, 10)], ..good.clone() },
            RequestTimes { points: Vec::new(), ..good.clone() },
            RequestTimes { points: vec![(f64::NAN, 10)], ..good },
        ];
        for one in wrong {
            assert!(one.check().is_err(), "{one:?}");
        }
    }
}
