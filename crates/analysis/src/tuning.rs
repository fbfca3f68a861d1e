//! Evaluates the search for the best placement of `manycore tune`.

use super::comparison;
use manycore_experiment::{
    Record,
    record::{Experiment, Treatment, factor, log_ratio},
};
use manycore_stats::{
    Estimate, holm_divisors, median, signed_rank_p,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The value of factor `variant` that marks today's behaviour in every round of the search.
pub const BASELINE: &str = "today";

/// The evaluation of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneResult {
    /// All candidates, best first by their exploratory results.
    pub candidates: Vec<TuneCandidate>,
    /// Finalists against today's behaviour on fresh pairs, best first.
    pub finalists: Vec<Finalist>,
    /// Index of the best finalist that is better than today's behaviour and whose interval is not wholly
    /// within the margin. `None` where there is none: keep today's behaviour.
    pub winner: Option<usize>,
    /// Number of runs of the search and the confirmation.
    pub trials: usize,
}

/// One candidate in the search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneCandidate {
    /// Its name.
    pub name: String,
    /// Round after which it was dropped, from 1. `None` where it stayed to the end.
    pub dropped: Option<usize>,
    /// Number of runs.
    pub trials: usize,
    /// Its rate relative to today's, over the blocks of its last round. Exploratory: the best of many candidates
    /// looks better than it is.
    pub ratio: Option<Estimate>,
}

/// One finalist on fresh pairs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finalist {
    /// Its name.
    pub name: String,
    /// B is the finalist, A is today's behaviour. The level is that of the interim analysis, divided among
    /// the finalists (Holm).
    pub verdict: Verdict,
    /// The command that runs it without this program.
    pub command: String,
}

/// Returns the treatments with their scores, best first. A score is the median over the blocks of the
/// logarithm of the rate relative to the block's mean rate. `tune` halves its field by it. A run without
/// work counts as the last of its block.
pub fn rank_treatments(experiment: &Experiment) -> Vec<(usize, f64)> {
    let mut by_block: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
    for sample in &experiment.samples {
        by_block.entry(sample.block).or_default().push((sample.treatment, sample.rate()));
    }
    // A block that was cut short, or in which no work was done, compares nothing.
    by_block.retain(|_, rates| {
        let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        for (_, rate) in rates.iter_mut() {
            *rate = log_ratio(best, *rate).unwrap_or(f64::NAN);
        }
        rates.len() == experiment.treatments.len() && best > 0.0
    });
    let mut scores: Vec<(usize, f64)> = (0..experiment.treatments.len())
        .map(|treatment| {
            let relative: Vec<f64> = by_block
                .values()
                .filter_map(|rates| {
                    let mean = rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64;
                    rates.iter().find(|(index, _)| *index == treatment).map(|(_, rate)| rate - mean)
                })
                .collect();
            let score = median(&relative).filter(|_| !experiment.all_failed(treatment));
            (treatment, score.unwrap_or(f64::NEG_INFINITY))
        })
        .collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    scores
}

/// Evaluates a search: the experiments `tune-1`, `tune-2`, ... and `tune-confirm`.
pub(crate) fn evaluate(record: &Record) -> Option<TuneResult> {
    let rounds: Vec<&Experiment> = (1..)
        .map_while(|round| record.experiment(&format!("{}{round}", manycore_experiment::record::id::TUNE)))
        .collect();
    if rounds.is_empty() {
        return None;
    }
    let confirm = record.experiment(manycore_experiment::record::id::TUNE_CONFIRM);
    let finalists = confirm.map(finalists).unwrap_or_default();
    let better = |finalist: &Finalist| {
        finalist.verdict.answer == Answer::BBetter && !finalist.verdict.is_within_margin()
    };
    Some(TuneResult {
        candidates: candidates(&rounds),
        winner: finalists.iter().position(better),
        finalists,
        trials: rounds.iter().copied().chain(confirm).map(|experiment| experiment.samples.len()).sum(),
    })
}

fn is_today(treatment: &Treatment) -> bool {
    treatment.factors.get(factor::VARIANT).is_some_and(|variant| variant == BASELINE)
}

fn candidates(rounds: &[&Experiment]) -> Vec<TuneCandidate> {
    let mut candidates = Vec::new();
    // From the last round to the first: the candidates that stayed longest are the best.
    for (round, experiment) in rounds.iter().enumerate().rev() {
        let today = experiment.treatments.iter().position(is_today);
        for (index, _) in rank_treatments(experiment) {
            let name = &experiment.treatments[index].name;
            if candidates.iter().any(|known: &TuneCandidate| known.name == *name) {
                continue;
            }
            let ratios = today.map(|today| experiment.log_ratios(today, index)).unwrap_or_default();
            let trials = rounds.iter().filter_map(|e| Some(e.samples_of(e.treatment(name)?).count())).sum();
            candidates.push(TuneCandidate {
                name: name.clone(),
                dropped: (round + 1 < rounds.len()).then_some(round + 1),
                trials,
                ratio: Estimate::from_differences(&ratios, DecisionRule::default().level)
                    .map(|ratio| ratio.map(f64::exp)),
            });
        }
    }
    candidates
}

/// Returns whether the confirmation may end: every finalist has a conclusive verdict.
pub fn is_confirmed(experiment: &Experiment) -> bool {
    finalists(experiment).iter().all(|finalist| finalist.verdict.answer != Answer::Inconclusive)
}

fn finalists(experiment: &Experiment) -> Vec<Finalist> {
    let Some(today) = experiment.treatments.iter().position(is_today) else { return Vec::new() };
    let rule = DecisionRule::from_parameters(&experiment.parameters);
    let others: Vec<usize> = (0..experiment.treatments.len()).filter(|&index| index != today).collect();
    let ratios: Vec<Vec<f64>> = others.iter().map(|&index| experiment.log_ratios(today, index)).collect();
    let floor = comparison::noise_floor(experiment, &(0..experiment.treatments.len()).collect::<Vec<_>>());
    let shares =
        holm_divisors(&ratios.iter().map(|ratios| signed_rank_p(ratios)).collect::<Vec<_>>(), rule.level);
    let mut finalists: Vec<Finalist> = others
        .iter()
        .zip(&ratios)
        .zip(shares)
        .filter_map(|((&index, ratios), share)| {
            let treatment = &experiment.treatments[index];
            Some(Finalist {
                name: treatment.name.clone(),
                verdict: Verdict::new(ratios, rule.divided_by(share), floor)?,
                command: treatment.factors.get(factor::COMMAND).cloned().unwrap_or_default(),
            })
        })
        .collect();
    finalists.sort_by(|a, b| b.verdict.ratio.total_cmp(&a.verdict.ratio));
    finalists
}
