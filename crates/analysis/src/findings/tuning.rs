//! What a search found, in one sentence.

use super::{Finding, Kind};
use crate::{
    Tuning,
    words::{interval, percent},
};
use manycore_stats::verdict::Answer;

pub(super) fn find(tuning: &Tuning) -> Finding {
    let tried = tuning.candidates.len();
    let mut evidence = vec![format!("{tried} candidates, {} runs", tuning.trials)];
    evidence.extend(
        tuning
            .finalists
            .iter()
            .map(|finalist| format!("{} over today: {}", finalist.name, finalist.verdict.ratio_in_words())),
    );
    let text = match tuning.winner.map(|winner| &tuning.finalists[winner]) {
        Some(winner) => {
            let gain = |ratio: f64| percent((ratio - 1.0).max(0.0));
            evidence.push(format!("ready to use: {}", winner.line));
            format!(
                "Use {}: {} better than today's behaviour ({}).",
                winner.name,
                gain(winner.verdict.ratio),
                interval(winner.verdict.interval, gain)
            )
        }
        None if tuning.finalists.is_empty() => {
            "The search did not come to its confirmation: leave it as it is.".to_owned()
        }
        None if tuning.finalists.iter().all(|finalist| finalist.verdict.verdict != Answer::Inconclusive) => {
            format!("Leave it as it is: none of {tried} candidates does more by anything that matters.")
        }
        None => format!(
            "Leave it as it is for now: whether the best of {tried} candidates does more than today's behaviour is \
             inconclusive; a larger budget may show it."
        ),
    };
    Finding::new(Kind::Answer, "tuning", text, evidence)
}
