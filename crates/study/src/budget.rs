//! The budget of an experiment, and the interim analyses at which it may end early.

use crate::{
    Options,
    error::{Error, Result},
};
use manycore_experiment::engine::Budget;
use manycore_stats::{Estimator, interim_level};
use manycore_text::units::{counted, duration};
use std::time::Duration;

/// Maximum number of planned analyses of a comparison, including the last one.
const ANALYSES: usize = 3;

/// Factor by which a budget that is named to the user exceeds the estimate, as runs differ in length.
const RESERVE: f64 = 1.1;

/// Returns the smallest number of pairs for an interval of the clearest of `comparisons` that hold jointly, at the
/// level of the first of that many analyses, by the signed-rank test.
pub fn min_pairs(analyses: usize, comparisons: usize) -> usize {
    min_pairs_by(Estimator::Median, analyses, comparisons)
}

/// Returns the same for another estimator.
pub fn min_pairs_by(estimator: Estimator, analyses: usize, comparisons: usize) -> usize {
    estimator.least_pairs(interim_level(1, analyses) / comparisons.max(1) as f64)
}

/// Returns the number of interim analyses for that many pairs of each of the `comparisons`, so that each analysis has
/// enough pairs for an interval.
pub fn analyses_for(pairs: f64, comparisons: usize) -> usize {
    analyses_by(Estimator::Median, pairs, comparisons)
}

/// Returns the same for another estimator.
pub fn analyses_by(estimator: Estimator, pairs: f64, comparisons: usize) -> usize {
    let fits =
        |&analyses: &usize| pairs / analyses as f64 >= min_pairs_by(estimator, analyses, comparisons) as f64;
    (1..=ANALYSES).rev().find(fits).unwrap_or(1)
}

/// The rounds of an experiment, as timed by one run of each variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// What a round is: `pair`.
    pub what: &'static str,
    /// Seconds of a round.
    pub seconds: f64,
    /// Number of comparisons that hold jointly.
    pub comparisons: usize,
}

impl Rounds {
    /// Returns the least number of rounds that an interval needs.
    pub(crate) fn min_count(self, estimator: Estimator) -> usize {
        min_pairs_by(estimator, 1, self.comparisons)
    }

    /// Returns the seconds of that many rounds.
    fn needed(self, estimator: Estimator) -> f64 {
        self.min_count(estimator) as f64 * self.seconds
    }
}

impl Options {
    /// Returns the time of a run, from its start to its end.
    pub fn time(&self) -> Duration {
        self.budget.unwrap_or(self.default_budget)
    }
}

/// Returns the budget of the experiment of a run that has taken `used` seconds so far, and a note where it takes longer
/// than the user may expect. The budget of the user is kept, the default one gives way to a result.
///
/// # Errors
/// [`Error::BudgetTooSmall`] if the user's budget does not suffice for a result.
pub(crate) fn budget(options: &Options, rounds: Rounds, used: f64) -> Result<(Budget, Option<String>)> {
    if let Some(count) = options.rounds {
        let seconds = count as f64 * rounds.seconds;
        return Ok((Budget { seconds, min_blocks: count, max_blocks: count }, None));
    }
    let left = options.time().as_secs_f64() - used;
    let budget = |seconds| Budget { min_blocks: rounds.min_count(options.by), ..Budget::seconds(seconds) };
    if left >= rounds.needed(options.by) {
        return Ok((budget(left), None));
    }
    match options.budget {
        Some(_) => Err(too_small(options, rounds, used)),
        None => Ok((budget(rounds.needed(options.by)), Some(longer(options, rounds)))),
    }
}

/// The failure of a budget of which `used` seconds are spent.
pub(crate) fn too_small(options: &Options, rounds: Rounds, used: f64) -> Error {
    let budget = options.time();
    let fitting = ((budget.as_secs_f64() - used) / rounds.seconds).max(0.0) as usize;
    Error::BudgetTooSmall {
        fitting: counted(fitting, rounds.what),
        needed: rounds.min_count(options.by),
        budget,
        needed_seconds: ((used + rounds.needed(options.by)) * RESERVE).ceil() as u64,
    }
}

fn longer(options: &Options, rounds: Rounds) -> String {
    let by = match options.by {
        Estimator::Median => String::new(),
        other => format!(" by {other}"),
    };
    format!(
        "A {} takes {}, and a result{by} needs at least {}: this takes about {}. Ctrl-C ends it and keeps what was measured.",
        rounds.what,
        duration(rounds.seconds),
        counted(rounds.min_count(options.by), rounds.what),
        duration(rounds.needed(options.by)),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn options(budget: Option<u64>) -> Options {
        Options {
            budget: budget.map(Duration::from_secs),
            default_budget: Duration::from_mins(1),
            margin: 0.02,
            by: Estimator::Median,
            rounds: None,
            warmups: 1,
            readers: Vec::new(),
            primary: None,
            sharing: None,
            service: None,
            load_cpus: None,
            timeout: Duration::from_mins(10),
            ignored_failures: crate::life::IgnoredFailures::None,
            input: None,
            drop_caches: false,
            cluster_loader: Vec::new(),
            shell: None,
            seed: 1,
        }
    }

    #[test]
    fn analyses_leave_pairs_enough_for_an_interval() {
        assert_eq!([1, 2, 3].map(|analyses| min_pairs(analyses, 1)), [6, 9, 12]);
        assert_eq!([2, 4, 8, 63].map(|comparisons| min_pairs(1, comparisons)), [7, 8, 9, 12]);
        let analyses = |pairs| analyses_for(pairs, 1);
        assert_eq!([5.0, 6.0, 17.9, 18.0, 35.9, 36.0, 500.0].map(analyses), [1, 1, 1, 2, 2, 3, 3]);
        assert_eq!((analyses_for(36.0, 4), analyses_for(42.0, 4)), (2, 3));
    }

    #[test]
    fn a_budget_includes_the_warm_up_and_is_kept() {
        let (budget, note) =
            budget(&options(Some(20)), Rounds { what: "pair", seconds: 2.0, comparisons: 1 }, 6.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks, note), (14.0, 6, None));
    }

    #[test]
    fn a_budget_too_small_for_an_interval_is_refused_with_a_sufficient_one() {
        let refused = budget(&options(Some(10)), Rounds { what: "pair", seconds: 2.0, comparisons: 1 }, 6.0)
            .unwrap_err();
        assert_eq!(refused.to_string(), "too few runs fit: 2 pairs in 10 s, and 6 are needed");
        let Error::BudgetTooSmall { needed_seconds, .. } = refused else { unreachable!() };
        let again = options(Some(needed_seconds));
        assert!(
            budget(&again, Rounds { what: "pair", seconds: 2.0, comparisons: 1 }, 6.0).is_ok(),
            "{needed_seconds} s suffice"
        );
    }

    #[test]
    fn the_default_budget_gives_way_to_a_result() {
        let (budget, note) =
            budget(&options(None), Rounds { what: "pair", seconds: 20.0, comparisons: 1 }, 40.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks), (120.0, 6));
        let note = note.unwrap();
        assert!(note.starts_with("A pair takes 20 s, and a result needs at least 6 pairs"), "{note}");
    }

    #[test]
    fn a_quantile_needs_more_pairs_and_says_so() {
        assert_eq!([1, 2, 3].map(|analyses| min_pairs_by(Estimator::P90, analyses, 1)), [36, 57, 79]);
        assert_eq!(
            [71.0, 113.9, 114.0, 237.0].map(|pairs| analyses_by(Estimator::P90, pairs, 1)),
            [1, 1, 2, 3]
        );
        let options = Options { by: Estimator::P99, ..options(None) };
        let rounds = Rounds { what: "pair", seconds: 1.0, comparisons: 1 };
        let (found, note) = budget(&options, rounds, 0.0).unwrap();
        assert_eq!(found.min_blocks, 368);
        let note = note.unwrap();
        assert!(note.contains("a result by p99 needs at least 368 pairs"), "{note}");
    }

    #[test]
    fn a_requested_number_of_rounds_has_no_budget() {
        let options = Options { rounds: Some(2), ..options(Some(1)) };
        let (budget, _) =
            budget(&options, Rounds { what: "round", seconds: 9.0, comparisons: 1 }, 30.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks, budget.max_blocks), (18.0, 2, 2));
    }
}
