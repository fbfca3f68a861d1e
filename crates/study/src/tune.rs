//! Searches numbers of workers, placements, SMT use and memory policies for the best ones for a command, and confirms
//! the result.

use crate::{
    Options, Rounds, Study, analyses_for,
    candidates::{self, Candidate},
    error::{Error, Result},
    min_pairs, runs,
    subject::Variant,
};
use manycore_analysis::{BASELINE, Evaluation, is_confirmed, rank_treatments};
use manycore_experiment::{
    Record,
    engine::{Budget, ExperimentSpec, Subject as _},
    record::{Treatment, factor, id},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, PlacementPlan, Policy};
use manycore_topology::Machine;
use std::collections::BTreeMap;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// Program and arguments, in which `{workers}` is replaced.
    pub command: Vec<String>,
    /// Numbers of workers to try; the default ones if there are none.
    pub workers: Vec<usize>,
    /// Placements to try; those that differ on this machine if there are none.
    pub place: Vec<Policy>,
    /// Memory policies to try; those that differ on this machine if there are none.
    pub memory: Vec<MemoryPlacement>,
    /// Workers that the command has today; the usable CPUs where it is absent.
    pub today: Option<usize>,
}

/// The result of a search.
#[derive(Debug)]
pub struct Tuned {
    /// What was measured.
    pub record: Record,
    /// The plan that the record shows to be better than today's behaviour.
    pub winner: Option<PlacementPlan>,
}

/// Part of the budget that the search takes; the rest is for the confirmation.
const SEARCH_SHARE: f64 = 0.6;

/// Number of candidates that are confirmed on fresh pairs.
const FINALISTS: usize = 2;

/// Searches on `machine`, which is this one. The result comes back with how the run ended.
///
/// # Errors
/// What makes the measurement impossible; nothing was measured then.
pub fn run(
    machine: Machine,
    options: &Options,
    search: &Search,
    listener: &mut dyn Listener,
) -> Result<(Tuned, Result)> {
    let candidates = candidates::candidates(search, options.service.as_ref(), &machine, &machine.usable())?;
    let variants = candidates.iter().map(|candidate| candidate.variant.clone()).collect();
    let mut study = Study::begin("tune", machine, options, &search.command, variants, listener)?;
    let ending = race(options, &mut study, &candidates);
    let record = study.end(&ending);
    let winner = ending.as_ref().ok().and_then(|()| winner(&record, &candidates)?.plan.clone());
    Ok((Tuned { record, winner }, ending))
}

/// Halves the candidates until the finalists are left, then confirms them.
fn race(options: &Options, study: &mut Study, candidates: &[Candidate]) -> Result {
    let (today, others) = candidates.split_first().ok_or(Error::NoCandidates)?;
    let found = format!("{} candidates differ on this machine, beside today's behaviour", others.len());
    study.session.report(Event::Note(&found));
    study.subject.set_variants(vec![today.variant.clone()]);
    let one: f64 = study.warm_up_and_time(options, "round", candidates.len())?.iter().sum();
    let (mut left, round) = run_each_once(options, study, others)?;
    let pairs = options.rounds;
    let seconds = if pairs.is_some() { one + round } else { seconds_per_round(one + round, left.len()) };
    let total = study.budget(options, Rounds { what: "round", seconds })?.seconds;
    let rounds = rounds(left.len());
    for round in 1..=rounds {
        let budget = part(total * SEARCH_SHARE / rounds as f64, pairs, 1);
        study.later_seconds = total - total * SEARCH_SHARE / rounds as f64 * round as f64;
        let spec = spec(&format!("{}{round}", id::TUNE), today, &left, budget, 1);
        study.subject.set_variants(variants(today, &left));
        let experiment = study.experiment("candidates in interleaved rounds", spec, &mut |_| false)?;
        let keep = left.len().div_ceil(2).max(FINALISTS.min(left.len()));
        // Today's behaviour is treatment 0 and stays in every round.
        let best = rank_treatments(experiment).into_iter().filter(|(index, _)| *index > 0).take(keep);
        left = best.map(|(index, _)| left[index - 1]).collect();
    }
    left.truncate(FINALISTS);
    // A fixed number of pairs is always measured in full.
    let analyses = match pairs {
        Some(_) => 1,
        None => analyses_for(total * (1.0 - SEARCH_SHARE) / (one * (left.len() + 1) as f64)),
    };
    let budget = part(total * (1.0 - SEARCH_SHARE), pairs, min_pairs(1));
    let spec = spec(id::TUNE_CONFIRM, today, &left, budget, analyses);
    study.subject.set_variants(variants(today, &left));
    study.later_seconds = 0.0;
    let title = if analyses > 1 { "confirmation (may end earlier)" } else { "confirmation of the finalists" };
    study.experiment(title, spec, &mut is_confirmed).map(drop)
}

/// A part of the budget with at least so many rounds, or the number of rounds that was requested, however long they take.
fn part(seconds: f64, pairs: Option<usize>, least: usize) -> Budget {
    let (min_blocks, max_blocks) = pairs.map_or((least, usize::MAX), |pairs| (pairs, pairs));
    Budget { seconds, min_blocks, max_blocks }
}

/// Returns the time of a search for each round of its confirmation, of which a result needs [`min_pairs`]. `once` is the
/// time in which today's behaviour and so many candidates run once each.
fn seconds_per_round(once: f64, candidates: usize) -> f64 {
    let finalists = FINALISTS.min(candidates);
    let confirmation = once * (finalists + 1) as f64 / (candidates + 1) as f64 / (1.0 - SEARCH_SHARE);
    let search = once * rounds(candidates) as f64 / SEARCH_SHARE;
    confirmation.max(search / min_pairs(1) as f64)
}

/// Runs each candidate once. Returns those that succeed, and the seconds that all of these runs took.
///
/// # Errors
/// Errors that are not failures of the candidate's command, the error of the last candidate where none succeeds, and
/// [`Error::BudgetTooSmall`].
fn run_each_once<'a>(
    options: &Options,
    study: &mut Study,
    candidates: &'a [Candidate],
) -> Result<(Vec<&'a Candidate>, f64)> {
    let (mut started, mut failure, began) = (Vec::new(), None, study.subject.now_ns());
    for (index, candidate) in candidates.iter().enumerate() {
        study.subject.set_variants(vec![candidate.variant.clone()]);
        match study.subject.measure(0) {
            Ok(_) => started.push(candidate),
            Err(error) if error.is_of_command() => {
                study.session.record_missing(&candidate.name, &error.to_string());
                failure = Some(error);
            }
            Err(error) => return Err(error),
        }
        let so_far = (study.subject.now_ns() - began) as f64 / 1e9;
        let all = so_far * candidates.len() as f64 / (index + 1) as f64;
        let seconds = seconds_per_round(all, candidates.len());
        study.check_time(options, Rounds { what: "round", seconds }, all)?;
    }
    match failure {
        Some(error) if started.is_empty() => Err(error),
        _ => Ok((started, (study.subject.now_ns() - began) as f64 / 1e9)),
    }
}

/// Returns the number of halvings until at most the finalists are left; at least one, so that some round is
/// measured.
fn rounds(candidates: usize) -> usize {
    let mut left = candidates;
    let mut rounds = 0;
    while left > FINALISTS {
        left = left.div_ceil(2);
        rounds += 1;
    }
    rounds.max(1)
}

fn variants(today: &Candidate, left: &[&Candidate]) -> Vec<Variant> {
    std::iter::once(today).chain(left.iter().copied()).map(|candidate| candidate.variant.clone()).collect()
}

fn spec(id: &str, today: &Candidate, left: &[&Candidate], budget: Budget, analyses: usize) -> ExperimentSpec {
    let treatment = |(index, candidate): (usize, &Candidate)| {
        let role = if index == 0 { BASELINE } else { "candidate" };
        Treatment {
            name: candidate.name.clone(),
            workers: candidate.workers,
            factors: BTreeMap::from([
                (factor::VARIANT.to_owned(), role.to_owned()),
                (factor::COMMAND.to_owned(), candidate.command_line.clone()),
            ]),
            latency: None,
        }
    };
    let treatments = std::iter::once(today).chain(left.iter().copied()).enumerate().map(treatment).collect();
    ExperimentSpec { treatments, budget, analyses, ..runs(id) }
}

/// The candidate that the record shows to be better than today's behaviour.
fn winner<'a>(record: &Record, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
    let tuning = Evaluation::from_record(record).tuning?;
    let name = &tuning.finalists.get(tuning.winner?)?.name;
    candidates.iter().find(|candidate| candidate.name == *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_ends_with_two() {
        assert_eq!([1, 2, 3, 4, 5, 8, 16, 100].map(rounds), [1, 1, 1, 1, 2, 2, 3, 6]);
    }

    #[test]
    fn a_sufficient_budget_has_rounds_enough_in_both_parts() {
        for candidates in [1, 2, 3, 8, 40] {
            let once = (candidates + 1) as f64;
            let total = 6.0 * seconds_per_round(once, candidates);
            let confirmed = total * (1.0 - SEARCH_SHARE) / (FINALISTS.min(candidates) + 1) as f64;
            let searched = total * SEARCH_SHARE / rounds(candidates) as f64 / once;
            assert!(confirmed > 5.999 && searched > 0.999, "{candidates}: {confirmed}, {searched}");
        }
    }
}
