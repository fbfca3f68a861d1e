//! Evaluates the search for the best placement of `manycore tune`, and the race of many variants of `compare`.

use super::{
    comparison,
    deciding::{Compared, estimator, score},
};
use manycore_experiment::{
    Record,
    record::{Experiment, Sample, Treatment, factor, id},
};
use manycore_stats::{
    Estimate, Estimator, log_ratio, median,
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

/// One candidate in the search, or one variant in a race.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneCandidate {
    /// Its name.
    pub name: String,
    /// Round after which it was dropped, from 1. `None` where it stayed to the end.
    pub dropped: Option<usize>,
    /// Number of runs.
    pub trials: usize,
    /// Its rate relative to today's, or to that of the reference, over the blocks of its last round. Exploratory: the best of many candidates
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

/// Returns the treatments with their scores, best first: by the estimator of the experiment. `tune` and races halve their
/// field by it.
pub fn rank_treatments(experiment: &Experiment) -> Vec<(usize, f64)> {
    let mut scores = match estimator(experiment) {
        Estimator::Median => scores_in_blocks(experiment),
        estimator => scores_by(experiment, estimator),
    };
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    scores
}

/// Returns the score of each treatment by another figure than the typical run, from the blocks that have all treatments.
fn scores_by(experiment: &Experiment, estimator: Estimator) -> Vec<(usize, f64)> {
    let mut by_block: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for sample in &experiment.samples {
        by_block.entry(sample.block).or_default().push(sample);
    }
    by_block.retain(|_, samples| samples.len() == experiment.treatments.len());
    let of = |treatment: usize| {
        let own = by_block.values().flatten().copied().filter(|sample| sample.treatment == treatment);
        let found = score(experiment, &own.collect::<Vec<_>>(), estimator);
        found.filter(|_| !experiment.all_failed(treatment)).unwrap_or(f64::NEG_INFINITY)
    };
    (0..experiment.treatments.len()).map(|treatment| (treatment, of(treatment))).collect()
}

/// Returns the score of each treatment by its typical run: the median over the blocks of the logarithm of the rate
/// relative to the block's mean rate. A run without work counts as the last of its block.
fn scores_in_blocks(experiment: &Experiment) -> Vec<(usize, f64)> {
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
    (0..experiment.treatments.len())
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
        .collect()
}

/// Evaluates a search: the experiments `tune-1`, `tune-2`, ... and `tune-confirm`.
pub(crate) fn evaluate(record: &Record) -> Option<TuneResult> {
    let rounds = rounds(record, id::TUNE);
    if rounds.is_empty() {
        return None;
    }
    let confirm = record.experiment(id::TUNE_CONFIRM);
    let finalists = confirm.map(finalists).unwrap_or_default();
    let better = |finalist: &Finalist| {
        finalist.verdict.answer == Answer::BBetter && !finalist.verdict.is_within_margin()
    };
    Some(TuneResult {
        candidates: candidates(&rounds, &today, &|treatment| treatment.name.clone()),
        winner: finalists.iter().position(better),
        finalists,
        trials: rounds.iter().copied().chain(confirm).map(|experiment| experiment.samples.len()).sum(),
    })
}

fn is_today(treatment: &Treatment) -> bool {
    treatment.factors.get(factor::VARIANT).is_some_and(|variant| variant == BASELINE)
}

/// Evaluates the race of a comparison: its variants without the reference, best first. Empty where there was none.
pub(crate) fn race(record: &Record) -> Vec<TuneCandidate> {
    let rounds = rounds(record, id::COMPARE_RACE);
    let mut raced = candidates(&rounds, &Experiment::reference, &|treatment| treatment.title().to_owned());
    let reference = rounds.first().and_then(|first| Some(first.treatments[first.reference()?].title()));
    // Those of the last round that are not among the finalists were dropped after it.
    let finalists = record.experiment(id::COMPARE);
    for candidate in raced.iter_mut().filter(|candidate| candidate.dropped.is_none()) {
        let is_final = |last: &Experiment| last.treatments.iter().any(|one| one.title() == candidate.name);
        candidate.dropped = finalists.filter(|last| !is_final(last)).map(|_| rounds.len());
    }
    raced.retain(|candidate| Some(candidate.name.as_str()) != reference);
    raced
}

/// Returns the rounds of a search or race, whose ids begin with `prefix`.
fn rounds<'a>(record: &'a Record, prefix: &str) -> Vec<&'a Experiment> {
    (1..).map_while(|round| record.experiment(&format!("{prefix}{round}"))).collect()
}

/// Returns the index of today's behaviour.
fn today(experiment: &Experiment) -> Option<usize> {
    experiment.treatments.iter().position(is_today)
}

fn candidates(
    rounds: &[&Experiment],
    reference: &dyn Fn(&Experiment) -> Option<usize>,
    name: &dyn Fn(&Treatment) -> String,
) -> Vec<TuneCandidate> {
    let mut candidates = Vec::new();
    // From the last round to the first: the candidates that stayed longest are the best.
    for (round, experiment) in rounds.iter().enumerate().rev() {
        let today = reference(experiment);
        for (index, _) in rank_treatments(experiment) {
            let treatment = &experiment.treatments[index];
            let name = name(treatment);
            if candidates.iter().any(|known: &TuneCandidate| known.name == name) {
                continue;
            }
            let with_today = today.map(|today| Compared::primary(experiment, today, index));
            let verdict = with_today.and_then(|compared| compared.verdict(DecisionRule::default(), None));
            let trials =
                rounds.iter().filter_map(|e| Some(e.samples_of(e.treatment(&treatment.name)?).count())).sum();
            candidates.push(TuneCandidate {
                name,
                dropped: (round + 1 < rounds.len()).then_some(round + 1),
                trials,
                ratio: verdict.map(|verdict| Estimate {
                    median: verdict.ratio,
                    interval: verdict.interval,
                    n: verdict.pairs,
                }),
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
    let Some(today) = today(experiment) else { return Vec::new() };
    let all: Vec<usize> = (0..experiment.treatments.len()).collect();
    let mut finalists: Vec<Finalist> = comparison::against(experiment, today, &all)
        .into_iter()
        .map(|(index, verdict)| {
            let treatment = &experiment.treatments[index];
            Finalist {
                name: treatment.name.clone(),
                verdict,
                command: treatment.factors.get(factor::COMMAND).cloned().unwrap_or_default(),
            }
        })
        .collect();
    finalists.sort_by(|a, b| b.verdict.ratio.total_cmp(&a.verdict.ratio));
    finalists
}
