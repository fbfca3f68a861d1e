//! The result of a search, in one sentence.

use super::{Finding, FindingKind};
use crate::{
    TuneResult,
    wording::{interval, percent},
};
use manycore_stats::verdict::Answer;

pub(crate) fn find(tuning: &TuneResult) -> Finding {
    // Today's behaviour is one of the candidates.
    let tried = tuning.candidates.len().saturating_sub(1);
    let mut evidence = vec![format!("{tried} candidates beside today's behaviour, {} runs", tuning.trials)];
    evidence.extend(
        tuning
            .finalists
            .iter()
            .map(|finalist| format!("{} over today: {}", finalist.name, finalist.verdict.ratio_in_words())),
    );
    let text = match tuning.winner.map(|winner| &tuning.finalists[winner]) {
        Some(winner) => {
            let gain = |ratio: f64| percent((ratio - 1.0).max(0.0));
            evidence.push(format!("command: {}", winner.command));
            format!(
                "Use {}: {} better than today's behaviour ({}).",
                winner.name,
                gain(winner.verdict.ratio),
                interval(winner.verdict.interval, gain)
            )
        }
        None if tuning.finalists.is_empty() => {
            "The search ended before its confirmation: keep today's behaviour.".to_owned()
        }
        None if tuning.finalists.iter().all(|finalist| finalist.verdict.answer != Answer::Inconclusive) => {
            format!(
                "Keep today's behaviour: none of {tried} other candidates is better by more than the margin."
            )
        }
        None => format!(
            "Keep today's behaviour for now: whether the best of {tried} other candidates does more is inconclusive. A larger \
             budget may show it."
        ),
    };
    Finding::new(FindingKind::Answer, "tuning", text, evidence)
}
