//! A share of time with an interval that honours the correlation of successive snapshots.
//!
//! Successive snapshots are alike: tasks stay where they are. The variance of a share is therefore estimated from means
//! of batches of successive snapshots (Law and Kelton, *Simulation Modeling and Analysis*, 9.5.3), as a ratio of sums
//! because batches have different lengths. The length of a batch must exceed the time over which snapshots are
//! correlated, which is unknown: lengths from one snapshot to a tenth of all are tried, and the widest interval counts.
//!
//! A normal interval is wrong near 0 and 1. So the half-width is expressed as a number of independent observations with
//! the same half-width, for which the interval of Wilson (1927) is computed. Where the rarer state was observed in
//! fewer than [`FEWEST_STRETCHES`] separate stretches, its length cannot be estimated. It is then taken to last
//! [`STATE_NS`]: after eight seconds without any sharing the interval ends at 4.6 %, and not at 0.

use manycore_stats::{student_quantile, upper_quantile};
use serde::{Deserialize, Serialize};

/// Tail of a two-sided 95 % interval.
const TAIL: f64 = 0.025;

/// Least number of batches from which a variance is estimated.
const FEWEST_BATCHES: usize = 10;

/// Least number of stretches of the rarer state from which their length is estimated.
pub const FEWEST_STRETCHES: usize = 5;

/// Most batches that are kept.
const MOST_BATCHES: usize = 1024;

/// The time that a state is taken to last where that cannot be estimated, in nanoseconds.
pub const STATE_NS: u64 = 100_000_000;

/// A share of time, from 0 to 1, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The share, from 0 to 1.
    pub share: f64,
    /// The lower end of its 95 % interval: what a longer run under the same conditions would show. It does not contain
    /// the differences between runs.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Time in a batch of successive snapshots, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BatchTime {
    /// Time in the state.
    part: u64,
    /// All time.
    whole: u64,
}

/// The time in a state, from successive snapshots. Its memory is bounded: batches of snapshots get longer.
#[derive(Clone, Debug)]
pub struct StateTime {
    batches: Vec<BatchTime>,
    /// Snapshots in a batch.
    length: usize,
    /// The batch that is not full yet, and its number of snapshots.
    open: (BatchTime, usize),
    snapshots: u64,
    last: Option<bool>,
    /// Number of stretches out of the state, and in it.
    stretches: [usize; 2],
}

impl Default for StateTime {
    fn default() -> Self {
        let batches = Vec::with_capacity(MOST_BATCHES);
        Self {
            batches,
            length: 1,
            open: (BatchTime::default(), 0),
            snapshots: 0,
            last: None,
            stretches: [0; 2],
        }
    }
}

impl StateTime {
    /// Adds a snapshot that stands for `ns` nanoseconds: whether they were in the state.
    pub fn add(&mut self, is_in: bool, ns: u64) {
        self.snapshots += 1;
        if self.last.replace(is_in) != Some(is_in) {
            self.stretches[usize::from(is_in)] += 1;
        }
        let (batch, filled) = &mut self.open;
        batch.whole += ns;
        batch.part += if is_in { ns } else { 0 };
        *filled += 1;
        if *filled < self.length {
            return;
        }
        self.batches.push(std::mem::take(&mut self.open).0);
        if self.batches.len() == MOST_BATCHES {
            self.batches = merged(&self.batches);
            self.length *= 2;
        }
    }

    /// Returns the time of all snapshots in nanoseconds.
    pub fn whole_ns(&self) -> u64 {
        self.open.0.whole + self.batches.iter().map(|batch| batch.whole).sum::<u64>()
    }

    /// Returns the time in the state, in nanoseconds.
    pub fn part_ns(&self) -> u64 {
        self.open.0.part + self.batches.iter().map(|batch| batch.part).sum::<u64>()
    }

    /// Returns the share of the time in the state; `None` without time.
    pub fn share(&self) -> Option<Share> {
        let whole = self.whole_ns();
        if whole == 0 {
            return None;
        }
        let share = self.part_ns() as f64 / whole as f64;
        let z = upper_quantile(TAIL);
        let half = self.half_width(share);
        let observed = z * z * share * (1.0 - share) / (half * half);
        let assumed = (whole as f64 / STATE_NS as f64).max(1.0);
        let is_estimated = self.stretches[usize::from(share <= 0.5)] >= FEWEST_STRETCHES;
        let most = if is_estimated { self.snapshots as f64 } else { assumed };
        // Without any variation there is no half-width, and `observed` is no number.
        let independent = if observed.is_finite() { observed.clamp(1.0, most) } else { most };
        let (low, high) = wilson(share, independent, z);
        Some(Share { share, low, high })
    }

    /// Returns the widest half-width over all lengths of batches; infinite for a single batch.
    fn half_width(&self, share: f64) -> f64 {
        let open = (self.open.1 > 0).then_some(self.open.0);
        let mut batches: Vec<BatchTime> = self.batches.iter().copied().chain(open).collect();
        let mut widest = half_width(&batches, share);
        while batches.len() >= 2 * FEWEST_BATCHES {
            batches = merged(&batches);
            widest = widest.max(half_width(&batches, share));
        }
        widest
    }
}

/// Returns the half-width of the interval from batches that are taken as independent.
fn half_width(batches: &[BatchTime], share: f64) -> f64 {
    let n = batches.len();
    if n < 2 {
        return f64::INFINITY;
    }
    let whole: f64 = batches.iter().map(|batch| batch.whole as f64).sum();
    let squares: f64 =
        batches.iter().map(|batch| (batch.part as f64 - share * batch.whole as f64).powi(2)).sum();
    let error = (n as f64 / (n - 1) as f64 * squares).sqrt() / whole;
    student_quantile(TAIL, (n - 1) as f64) * error
}

/// Returns batches of twice the length. A last one without a neighbour is added to the one before it.
fn merged(batches: &[BatchTime]) -> Vec<BatchTime> {
    let add = |a: BatchTime, b: &BatchTime| BatchTime { part: a.part + b.part, whole: a.whole + b.whole };
    let sum = |pair: &[BatchTime]| pair.iter().fold(BatchTime::default(), add);
    let mut merged: Vec<BatchTime> = batches.chunks_exact(2).map(sum).collect();
    if let ([rest], Some(last)) = (batches.chunks_exact(2).remainder(), merged.last_mut()) {
        *last = add(*last, rest);
    }
    merged
}

/// Returns the interval of Wilson for a share of `n` independent observations.
fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let square = z * z;
    let centre = (share + square / (2.0 * n)) / (1.0 + square / n);
    let half = z / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    ((centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const SNAPSHOT_NS: u64 = 10_000_000;

    fn of(states: impl IntoIterator<Item = bool>) -> StateTime {
        let mut time = StateTime::default();
        states.into_iter().for_each(|is_in| time.add(is_in, SNAPSHOT_NS));
        time
    }

    /// A process of two states that lasts for `snapshots`; stays have geometric lengths with the given means.
    fn two_states(random: &mut impl Rng, snapshots: usize, means: [f64; 2]) -> Vec<bool> {
        let mut state = random.random::<f64>() < means[1] / (means[0] + means[1]);
        let step = |_| {
            state ^= random.random::<f64>() < 1.0 / means[usize::from(state)];
            state
        };
        (0..snapshots).map(step).collect()
    }

    #[test]
    fn eight_seconds_in_one_state_are_eighty_observations() {
        let none = of([false; 800]).share().unwrap();
        // Wilson for none of 80: z^2 / (80 + z^2).
        assert!((none.high - 0.045_82).abs() < 1e-4 && none.low == 0.0 && none.share == 0.0, "{none:?}");
        let all = of([true; 800]).share().unwrap();
        assert!((all.low - (1.0 - 0.045_82)).abs() < 1e-4 && all.high == 1.0, "{all:?}");
        assert_eq!(StateTime::default().share(), None);
    }

    #[test]
    fn snapshots_count_by_their_time() {
        let mut time = StateTime::default();
        for at in 0..100u64 {
            time.add(at % 4 == 0, if at % 4 == 0 { 30 } else { 10 });
        }
        assert_eq!((time.part_ns(), time.whole_ns()), (25 * 30, 25 * 60));
        assert_eq!(time.share().unwrap().share, 0.5);
    }

    /// In 95 % of runs the interval must contain the share of a run without end, for states of any length well below
    /// that of the run.
    #[test]
    fn intervals_contain_the_true_share_although_snapshots_are_correlated() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(18);
        for (means, snapshots) in [
            ([2.0, 2.0], 800),
            ([30.0, 30.0], 3000),
            ([100.0, 3.0], 3000),
            ([30.0, 1.0], 800),
            ([5.0, 100.0], 3000),
            ([20.0, 40.0], 20_000),
        ] {
            let truth = means[1] / (means[0] + means[1]);
            let runs = 1000;
            let contained = (0..runs).filter(|_| {
                let found = of(two_states(&mut random, snapshots, means)).share().unwrap();
                (found.low..=found.high).contains(&truth)
            });
            let rate = contained.count() as f64 / f64::from(runs);
            println!("means {means:?} snapshots, {snapshots} snapshots: {rate}");
            assert!(rate >= 0.94, "means {means:?}, {snapshots} snapshots: {rate}");
        }
    }

    /// Independent snapshots get an interval that is hardly wider than one that knows of their independence.
    #[test]
    fn intervals_of_independent_snapshots_are_narrow() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let widths = (0..200).map(|_| {
            let found = of((0..800).map(|_| random.random::<f64>() < 0.3)).share().unwrap();
            found.high - found.low
        });
        let (mean, ideal) = (widths.sum::<f64>() / 200.0, 2.0 * 1.96 * (0.3 * 0.7 / 800.0_f64).sqrt());
        assert!(mean < 1.6 * ideal, "{mean} instead of {ideal}");
    }

    proptest! {
        #[test]
        fn shares_and_times_agree(states in prop::collection::vec((any::<bool>(), 1u64..1 << 40), 1..5000)) {
            let mut time = StateTime::default();
            for &(is_in, ns) in &states {
                time.add(is_in, ns);
            }
            let sum = |only: bool| states.iter().filter(|one| one.0 || !only).map(|one| one.1).sum::<u64>();
            prop_assert_eq!((time.part_ns(), time.whole_ns()), (sum(true), sum(false)));
            let found = time.share().unwrap();
            prop_assert_eq!(found.share, sum(true) as f64 / sum(false) as f64);
            prop_assert!(0.0 <= found.low && found.low <= found.share);
            prop_assert!(found.share <= found.high && found.high <= 1.0 && found.low < found.high);
            prop_assert!(time.batches.len() < MOST_BATCHES);
        }
    }
}
