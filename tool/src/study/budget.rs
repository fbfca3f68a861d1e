//! How long an experiment takes, and how often it may be looked at.

use crate::{
    cli::Measuring,
    experiment::Budget,
    failure::{Failure, Outcome},
    output,
};

/// Planned looks at a comparison under way, over which its level is split.
const LOOKS: usize = 3;

/// Fewest pairs of which an interval at the level of one of that many looks can be made: 2 * 0.5^n must be
/// below 0.05 / looks.
pub fn least_pairs(looks: usize) -> usize {
    let level: f64 = 0.05 / looks as f64;
    ((2.0 / level).log2()).ceil() as usize
}

/// How many looks a budget has room for, so that each still has pairs enough for an answer.
pub fn looks_for(pairs: f64) -> usize {
    (1..=LOOKS).rev().find(|&looks| pairs / looks as f64 >= least_pairs(looks) as f64).unwrap_or(1)
}

/// When an experiment stops whose rounds (`what`: "a pair") take `round` seconds each.
///
/// # Errors
/// [`Failure::Input`] where not even one round fits.
pub fn budget(args: &Measuring, what: &str, round: f64) -> Outcome<Budget> {
    if let Some(rounds) = args.pairs {
        let rounds = rounds as usize;
        return Ok(Budget { seconds: rounds as f64 * round, least_blocks: rounds, most_blocks: rounds });
    }
    let budget = args.budget.as_secs_f64();
    let least = least_pairs(1) as f64;
    if budget < round {
        return Err(Failure::input(format!(
            "{what} takes {round:.1} s, more than the budget of {budget} s; for an answer give --budget {:.0}s",
            (least * round * 1.1).ceil()
        )));
    }
    if budget < least * round && !args.quiet {
        output::note(&format!(
            "The budget has room for {:.0} rounds, and an answer needs {least}: --budget {:.0}s would do.",
            (budget / round).floor(),
            (least * round * 1.1).ceil()
        ));
    }
    Ok(Budget::seconds(budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_leave_pairs_enough_for_an_interval() {
        assert_eq!([1, 2, 3].map(least_pairs), [6, 7, 7]);
        assert_eq!([5.0, 6.0, 14.0, 20.9, 21.0, 500.0].map(looks_for), [1, 1, 2, 2, 3, 3]);
    }
}
