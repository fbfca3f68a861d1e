//! The budget of an experiment, and the interim analyses at which it may end early.

use crate::{
    Options,
    error::{Error, Result},
};
use manycore_experiment::engine::Budget;
use manycore_stats::interim_level;

/// Maximum number of planned analyses of a comparison, including the last one.
const ANALYSES: usize = 3;

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

/// Returns the budget of an experiment whose rounds (`what`: "a pair") take `round` seconds each, and a note
/// if the budget is too small for a result.
///
/// # Errors
/// [`Error::BudgetTooSmall`] if not even one round fits.
pub(crate) fn budget(options: &Options, what: &'static str, round: f64) -> Result<(Budget, Option<String>)> {
    if let Some(rounds) = options.rounds {
        let seconds = rounds as f64 * round;
        return Ok((Budget { seconds, min_blocks: rounds, max_blocks: rounds }, None));
    }
    let budget = options.budget.as_secs_f64();
    let needed_rounds = min_pairs(1) as f64;
    let needed_seconds = (needed_rounds * round * 1.1).ceil() as u64;
    if budget < round {
        let budget = options.budget;
        return Err(Error::BudgetTooSmall { round: what, seconds: round, budget, needed_seconds });
    }
    let note = (budget < needed_rounds * round).then(|| {
        let allowed = (budget / round).floor();
        let plural = if allowed < 2.0 { "" } else { "s" };
        format!(
            "The budget allows {allowed:.0} round{plural}, but a result needs {needed_rounds}: use --budget {needed_seconds}s."
        )
    });
    Ok((Budget::seconds(budget), note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analyses_leave_pairs_enough_for_an_interval() {
        assert_eq!([1, 2, 3].map(min_pairs), [6, 9, 12]);
        assert_eq!([5.0, 6.0, 17.9, 18.0, 35.9, 36.0, 500.0].map(analyses_for), [1, 1, 1, 2, 2, 3, 3]);
    }
}
