//! The cumulative distribution between the points that a load generator prints.

use manycore_experiment::record::RequestTimes;

/// A quantile is resolved where the printed values around it are this close,
const MAX_STEP: f64 = 1.1;

/// or where the next printed point has at least this part of its tail.
const MIN_TAIL: f64 = 0.5;

/// Number of points of the tail for charts, for each power of ten.
const TAIL_POINTS: i32 = 8;

/// Smallest latency, in the unit of the points: the logarithm of 0 does not exist.
const SMALLEST: f64 = 1e-6;

/// The requests of one run or of several.
pub(super) struct Curve<'a> {
    parts: Vec<&'a RequestTimes>,
}

impl<'a> Curve<'a> {
    pub(super) fn new(parts: Vec<&'a RequestTimes>) -> Self {
        Self { parts }
    }

    /// Returns the requests of all runs together.
    pub(super) fn merged<'b>(runs: impl Iterator<Item = &'b Curve<'a>>) -> Self
    where
        'a: 'b,
    {
        Self { parts: runs.flat_map(|run| run.parts.iter().copied()).collect() }
    }

    pub(super) fn count(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.count))
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.parts.iter().filter_map(|part| Some(part.points.last()?.0)).reduce(f64::max)
    }

    /// Returns whether the points around a quantile are close, in all parts.
    pub(super) fn resolves(&self, share: f64) -> bool {
        self.parts.iter().all(|part| {
            let count = part.count as f64;
            let tail = (1.0 - share) * count;
            // A quantile beyond the last request is its maximum.
            if tail < 1.0 - 1e-9 {
                return false;
            }
            // Printed numbers of requests are rounded.
            let at = part.points.iter().position(|point| count - point.1 as f64 <= tail + 0.5);
            let Some(at) = at else { return false };
            let is_near = at > 0 && part.points[at].0 <= part.points[at - 1].0 * MAX_STEP;
            is_near || count - part.points[at].1 as f64 >= tail * MIN_TAIL - 0.5
        })
    }

    /// Returns the latency that this share of the requests does not exceed. `None` without requests.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let longer = (1.0 - share) * self.count() as f64;
        let first = self.parts.iter().filter_map(|part| Some(part.points.first()?.0)).reduce(f64::min)?;
        let (mut low, mut high) = ((first.max(SMALLEST) / 16.0).ln(), self.max()?.max(SMALLEST).ln());
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let above: f64 = self.parts.iter().map(|part| above(part, middle)).sum();
            if above > longer * (1.0 + 1e-9) { low = middle } else { high = middle }
        }
        Some(high.exp())
    }

    /// Returns the latency and the share of the requests that took longer, from one half to the last request.
    pub(super) fn tail(&self) -> Vec<(f64, f64)> {
        let count = self.count() as f64;
        let shares =
            (0..TAIL_POINTS * 16).map(|at| 0.5 * 10_f64.powf(-f64::from(at) / f64::from(TAIL_POINTS)));
        let reached = shares.take_while(|share| share * count >= 1.0);
        reached.filter_map(|share| Some((self.quantile(1.0 - share)?, share))).collect()
    }
}

/// Returns the number of requests that took longer than e^`ln`. Between two points, and below the first, the logarithm of
/// that number is linear in the logarithm of the latency, as the tail of a Pareto distribution. The last request counts as
/// half, so that its logarithm exists.
fn above(part: &RequestTimes, ln: f64) -> f64 {
    let count = part.count as f64;
    let point = |at: usize| {
        let (latency, number) = part.points[at];
        (latency.max(SMALLEST).ln(), (count - number as f64).max(0.5).ln())
    };
    let next = part.points.partition_point(|(latency, _)| latency.max(SMALLEST).ln() <= ln);
    if next == part.points.len() {
        return 0.0;
    }
    let ((x0, y0), (x1, y1)) = match (next, part.points.len()) {
        (0, 1) => return count,
        (0, _) => (point(0), point(1)),
        _ => (point(next - 1), point(next)),
    };
    if x1 <= x0 {
        return y1.exp().min(count);
    }
    (y0 + (y1 - y0) * (ln - x0) / (x1 - x0)).exp().min(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(count: f64, points: &[(f64, f64)]) -> RequestTimes {
        RequestTimes::new("", "ms", count, points.to_vec()).unwrap()
    }

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, expected {expected}");
    }

    #[test]
    fn printed_quantiles_are_returned_as_printed() {
        let wrk = times(1000.0, &[(1.0, 500.0), (2.0, 900.0), (3.0, 990.0), (50.0, 1000.0)]);
        let run = Curve::new(vec![&wrk]);
        close(run.quantile(0.5), 1.0);
        close(run.quantile(0.9), 2.0);
        close(run.quantile(0.99), 3.0);
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(|share| run.resolves(share)), [true, true, true, false]);
        assert_eq!((run.max(), run.count()), (Some(50.0), 1000));
    }

    /// One run in ten with a stall has its requests in the tail of all.
    #[test]
    fn merged_runs_have_the_tail_of_the_stalled_one() {
        let fine: Vec<(f64, f64)> = (1..=1000).map(|at| (f64::from(at) / 1000.0, f64::from(at))).collect();
        let slow: Vec<(f64, f64)> = fine.iter().map(|(latency, number)| (latency + 100.0, *number)).collect();
        let (fine, slow) = (times(1000.0, &fine), times(1000.0, &slow));
        let runs: Vec<Curve> =
            (0..10).map(|at| Curve::new(vec![if at == 0 { &slow } else { &fine }])).collect();
        let merged = Curve::merged(runs.iter());
        assert_eq!(merged.count(), 10_000);
        assert!((0.5..0.6).contains(&merged.quantile(0.5).unwrap()));
        assert!(merged.quantile(0.95).unwrap() > 100.0);
        assert!(merged.tail().windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 > pair[1].1));
    }

    proptest! {
        #[test]
        fn quantiles_ascend_and_stay_within_the_points(
            latencies in prop::collection::vec(0.0..1e6_f64, 1..40),
            count in 40_u32..1_000_000,
        ) {
            let step = f64::from(count) / latencies.len() as f64;
            let points = latencies.iter().enumerate().map(|(at, latency)| (*latency, step * (at + 1) as f64));
            let times = RequestTimes::new("", "ms", f64::from(count), points.collect()).unwrap();
            let run = Curve::new(vec![&times]);
            let found: Vec<f64> = [0.01, 0.5, 0.9, 0.999, 1.0].map(|share| run.quantile(share).unwrap()).to_vec();
            prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{found:?}");
            prop_assert!(found[4] <= run.max().unwrap().max(SMALLEST) * (1.0 + 1e-9));
        }
    }
}
