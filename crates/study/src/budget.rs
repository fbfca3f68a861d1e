//! The budget of an experiment, and the interim analyses at which it may end early.

use crate::{
    Options,
    error::{Error, Result},
};
use manycore_experiment::engine::Budget;
use manycore_stats::interim_level;
use manycore_text::units::{counted, duration};
use std::time::Duration;

/// Maximum number of planned analyses of a comparison, including the last one.
const ANALYSES: usize = 3;

/// Factor by which a budget that is named to the user exceeds the estimate, as runs differ in length.
const RESERVE: f64 = 1.1;

/// Returns the smallest number of pairs for an interval at the level of the first of that many analyses: 2 *
/// 0.5^n must not be above the level.
pub fn min_pairs(analyses: usize) -> usize {
    ((2.0 / interim_level(1, analyses)).log2()).ceil() as usize
}

/// Returns the number of interim analyses for that many pairs, so that each analysis has enough pairs for an
/// interval.
pub fn analyses_for(pairs: f64) -> usize {
    let fits = |&analyses: &usize| pairs / analyses as f64 >= min_pairs(analyses) as f64;
    (1..=ANALYSES).rev().find(fits).unwrap_or(1)
}

/// The rounds of an experiment, as timed by one run of each variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// What a round is: `pair`.
    pub what: &'static str,
    /// Seconds of a round.
    pub seconds: f64,
}

impl Rounds {
    /// Returns the seconds of the least number of rounds that an interval needs.
    fn needed(self) -> f64 {
        min_pairs(1) as f64 * self.seconds
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
    let budget = |seconds| Budget { min_blocks: min_pairs(1), ..Budget::seconds(seconds) };
    if left >= rounds.needed() {
        return Ok((budget(left), None));
    }
    match options.budget {
        Some(_) => Err(too_small(options, rounds, used)),
        None => Ok((budget(rounds.needed()), Some(longer(rounds)))),
    }
}

/// The failure of a budget of which `used` seconds are spent.
pub(crate) fn too_small(options: &Options, rounds: Rounds, used: f64) -> Error {
    let budget = options.time();
    let fitting = ((budget.as_secs_f64() - used) / rounds.seconds).max(0.0) as usize;
    Error::BudgetTooSmall {
        fitting: counted(fitting, rounds.what),
        needed: min_pairs(1),
        budget,
        needed_seconds: ((used + rounds.needed()) * RESERVE).ceil() as u64,
    }
}

fn longer(rounds: Rounds) -> String {
    format!(
        "A {} takes {}, and a result needs at least {}: this takes about {}. Ctrl-C ends it and keeps what was measured.",
        rounds.what,
        duration(rounds.seconds),
        counted(min_pairs(1), rounds.what),
        duration(rounds.needed()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(budget: Option<u64>) -> Options {
        Options {
            budget: budget.map(Duration::from_secs),
            default_budget: Duration::from_mins(1),
            margin: 0.02,
            rounds: None,
            warmups: 1,
            readers: Vec::new(),
            primary: None,
            service: None,
            load_cpus: None,
            timeout: Duration::from_mins(10),
            ignore_failure: false,
            seed: 1,
        }
    }

    #[test]
    fn analyses_leave_pairs_enough_for_an_interval() {
        assert_eq!([1, 2, 3].map(min_pairs), [6, 9, 12]);
        assert_eq!([5.0, 6.0, 17.9, 18.0, 35.9, 36.0, 500.0].map(analyses_for), [1, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_budget_includes_the_warm_up_and_is_kept() {
        let (budget, note) = budget(&options(Some(20)), Rounds { what: "pair", seconds: 2.0 }, 6.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks, note), (14.0, 6, None));
    }

    #[test]
    fn a_budget_too_small_for_an_interval_is_refused_with_a_sufficient_one() {
        let refused = budget(&options(Some(10)), Rounds { what: "pair", seconds: 2.0 }, 6.0).unwrap_err();
        assert_eq!(refused.to_string(), "too few runs fit: 2 pairs in 10 s, and 6 are needed");
        let Error::BudgetTooSmall { needed_seconds, .. } = refused else { unreachable!() };
        let again = options(Some(needed_seconds));
        assert!(
            budget(&again, Rounds { what: "pair", seconds: 2.0 }, 6.0).is_ok(),
            "{needed_seconds} s suffice"
        );
    }

    #[test]
    fn the_default_budget_gives_way_to_a_result() {
        let (budget, note) = budget(&options(None), Rounds { what: "pair", seconds: 20.0 }, 40.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks), (120.0, 6));
        let note = note.unwrap();
        assert!(note.starts_with("A pair takes 20 s, and a result needs at least 6 pairs"), "{note}");
    }

    #[test]
    fn a_requested_number_of_rounds_has_no_budget() {
        let options = Options { rounds: Some(2), ..options(Some(1)) };
        let (budget, _) = budget(&options, Rounds { what: "round", seconds: 9.0 }, 30.0).unwrap();
        assert_eq!((budget.seconds, budget.min_blocks, budget.max_blocks), (18.0, 2, 2));
    }
}
