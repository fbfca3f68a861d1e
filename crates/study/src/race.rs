//! Races: many entrants run in interleaved rounds with a reference, the worse half is dropped after each round, and the
//! best ones are compared with the reference on fresh rounds. `tune` and `compare` with many variants do this.

use crate::{
    Options, Rounds, Study, analyses_by, error::Result, min_pairs, min_pairs_by, runs, subject::Variant,
};
use manycore_analysis::rank_treatments;
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    record::{Experiment, Treatment},
};
use std::collections::BTreeMap;

/// Part of the budget that the rounds take; the rest is for the confirmation.
const SEARCH_SHARE: f64 = 0.6;

/// One that takes part.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub variant: Variant,
    pub treatment: Treatment,
}

/// What is raced.
#[derive(Debug)]
pub(crate) struct Race {
    /// Runs in every round, and is not dropped.
    pub reference: Entrant,
    pub others: Vec<Entrant>,
    /// Number of those that are confirmed.
    pub finalists: usize,
    /// Ids of the experiments: the beginning of that of a round, and the confirmation.
    pub ids: [&'static str; 2],
    pub parameters: BTreeMap<String, String>,
}

/// Seconds of one run of the reference, and of one run of all others together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSeconds {
    pub reference: f64,
    pub others: f64,
}

impl Race {
    /// Halves the entrants until the finalists are left, then confirms them, until `enough` returns true.
    ///
    /// # Errors
    /// [`crate::Error::BudgetTooSmall`], and those of the runs.
    pub(crate) fn run(
        &self,
        options: &Options,
        study: &mut Study,
        seconds: RunSeconds,
        enough: &mut dyn FnMut(&Experiment) -> bool,
    ) -> Result {
        let mut left: Vec<&Entrant> = self.others.iter().collect();
        let pairs = options.rounds;
        let finalists = self.finalists.min(left.len());
        let timed = Rounds { what: "round", seconds: self.seconds(options, seconds), comparisons: finalists };
        let total = study.budget(options, timed)?.seconds;
        let rounds = rounds(left.len(), self.finalists);
        let search = total * SEARCH_SHARE;
        for round in 1..=rounds {
            let budget = part(search / rounds as f64, pairs, 1);
            study.later_seconds = total - search / rounds as f64 * round as f64;
            let spec = self.spec(&format!("{}{round}", self.ids[0]), &left, budget, 1);
            study.subject.set_variants(self.variants(&left));
            let experiment = study.experiment("candidates in interleaved rounds", spec, &mut |_| false)?;
            let keep = left.len().div_ceil(2).max(finalists);
            // The reference is treatment 0 and stays in every round.
            let best = rank_treatments(experiment).into_iter().filter(|(index, _)| *index > 0).take(keep);
            left = best.map(|(index, _)| left[index - 1]).collect();
        }
        left.truncate(finalists);
        study.later_seconds = 0.0;
        self.confirm(options, study, &left, (total - search, seconds.reference), enough)
    }

    /// Returns the seconds of the race for each round of its confirmation.
    fn seconds(&self, options: &Options, seconds: RunSeconds) -> f64 {
        let once = seconds.reference + seconds.others;
        match options.rounds {
            Some(_) => once,
            None => seconds_per_round(once, self.others.len(), self.finalists),
        }
    }

    /// Compares the finalists with the reference in at most so many `seconds`, where one run takes `one`.
    fn confirm(
        &self,
        options: &Options,
        study: &mut Study,
        left: &[&Entrant],
        (seconds, one): (f64, f64),
        enough: &mut dyn FnMut(&Experiment) -> bool,
    ) -> Result {
        // A fixed number of pairs is always measured in full.
        let analyses = match options.rounds {
            Some(_) => 1,
            None => analyses_by(options.by, seconds / (one * (left.len() + 1) as f64), left.len()),
        };
        let budget = part(seconds, options.rounds, min_pairs_by(options.by, 1, left.len()));
        let spec = self.spec(self.ids[1], left, budget, analyses);
        study.subject.set_variants(self.variants(left));
        let title =
            if analyses > 1 { "confirmation (may end earlier)" } else { "confirmation of the finalists" };
        study.experiment(title, spec, enough).map(drop)
    }

    fn variants(&self, left: &[&Entrant]) -> Vec<Variant> {
        self.with_reference(left).map(|entrant| entrant.variant.clone()).collect()
    }

    fn with_reference<'a>(&'a self, left: &'a [&Entrant]) -> impl Iterator<Item = &'a Entrant> {
        std::iter::once(&self.reference).chain(left.iter().copied())
    }

    fn spec(&self, id: &str, left: &[&Entrant], budget: Budget, analyses: usize) -> ExperimentSpec {
        let treatments = self.with_reference(left).map(|entrant| entrant.treatment.clone()).collect();
        ExperimentSpec { treatments, parameters: self.parameters.clone(), budget, analyses, ..runs(id) }
    }
}

/// Runs the variant of each entrant once. Returns those that succeed, and the seconds that all of these runs took.
///
/// # Errors
/// Errors that are not failures of the command of an entrant, the error of the last one where none succeeds, and
/// [`crate::Error::BudgetTooSmall`].
pub(crate) fn run_each_once(
    options: &Options,
    study: &mut Study,
    entrants: Vec<Entrant>,
    finalists: usize,
) -> Result<(Vec<Entrant>, f64)> {
    use manycore_experiment::engine::Subject as _;
    let (mut started, mut failure, began) = (Vec::new(), None, study.subject.now_ns());
    let count = entrants.len();
    for (index, entrant) in entrants.into_iter().enumerate() {
        study.subject.set_variants(vec![entrant.variant.clone()]);
        match study.subject.measure(0) {
            Ok(_) => started.push(entrant),
            Err(error) if error.is_of_command() => {
                study.session.record_missing(&entrant.treatment.name, &error.to_string());
                failure = Some(error);
            }
            Err(error) => return Err(error),
        }
        let so_far = (study.subject.now_ns() - began) as f64 / 1e9;
        let all = so_far * count as f64 / (index + 1) as f64;
        let seconds = seconds_per_round(all, count, finalists);
        study.check_time(
            options,
            Rounds { what: "round", seconds, comparisons: finalists.min(count) },
            all,
        )?;
    }
    match failure {
        Some(error) if started.is_empty() => Err(error),
        _ => Ok((started, (study.subject.now_ns() - began) as f64 / 1e9)),
    }
}

/// A part of the budget with at least so many rounds, or the number of rounds that was requested, however long they take.
fn part(seconds: f64, pairs: Option<usize>, least: usize) -> Budget {
    let (min_blocks, max_blocks) = pairs.map_or((least, usize::MAX), |pairs| (pairs, pairs));
    Budget { seconds, min_blocks, max_blocks }
}

/// Returns the time of a race for each round of its confirmation, of which a result needs [`min_pairs`]. `once` is the
/// time in which the reference and so many others run once each.
fn seconds_per_round(once: f64, others: usize, finalists: usize) -> f64 {
    let finalists = finalists.min(others);
    let confirmation = once * (finalists + 1) as f64 / (others + 1) as f64 / (1.0 - SEARCH_SHARE);
    let search = once * rounds(others, finalists) as f64 / SEARCH_SHARE;
    confirmation.max(search / min_pairs(1, finalists) as f64)
}

/// Returns the number of halvings until at most the finalists are left; at least one, so that some round is
/// measured.
fn rounds(others: usize, finalists: usize) -> usize {
    let mut left = others;
    let mut rounds = 0;
    while left > finalists.max(1) {
        left = left.div_ceil(2);
        rounds += 1;
    }
    rounds.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_ends_with_the_finalists() {
        assert_eq!([1, 2, 3, 4, 5, 8, 16, 100].map(|others| rounds(others, 2)), [1, 1, 1, 1, 2, 2, 3, 6]);
        assert_eq!([3, 6, 7, 63].map(|others| rounds(others, 3)), [1, 1, 2, 5]);
        assert_eq!((rounds(8, 0), rounds(0, 0)), (3, 1));
    }

    #[test]
    fn a_sufficient_budget_has_rounds_enough_in_both_parts() {
        for (others, finalists) in [(1, 2), (2, 2), (3, 2), (8, 2), (40, 2), (40, 3)] {
            let once = (others + 1) as f64;
            let least = min_pairs(1, finalists.min(others)) as f64;
            let total = least * seconds_per_round(once, others, finalists);
            let confirmed = total * (1.0 - SEARCH_SHARE) / (finalists.min(others) + 1) as f64;
            let searched = total * SEARCH_SHARE / rounds(others, finalists.min(others)) as f64 / once;
            assert!(confirmed > least - 0.001 && searched > 0.999, "{others}: {confirmed}, {searched}");
        }
    }
}
