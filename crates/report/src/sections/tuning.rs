//! The candidates of a search, and the results of its finalists on fresh pairs.

use crate::sections::{NamedEvaluation, Table};
use manycore_analysis::{TuneCandidate, TuneResult};
use manycore_render::{
    figure::{ABSENT, factor, interval, times},
    table::Align,
};

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    named.evaluation.tuning.as_ref().map(of_tuning).unwrap_or_default()
}

/// Returns the table of what was searched or raced, best first: its title, the head of its first column, and what the
/// ratios are relative to.
pub(super) fn candidates(all: &[TuneCandidate], [title, first, over]: [&str; 3]) -> Table {
    let columns = [over, "95 % interval", "runs", "dropped after"];
    let mut tried = Table::numeric(title, (first, Align::Left), &columns);
    tried.rows = all
        .iter()
        .map(|candidate| {
            vec![
                candidate.name.clone(),
                candidate.ratio.map_or_else(|| ABSENT.to_owned(), |ratio| times(ratio.median)),
                candidate.ratio.map_or_else(|| ABSENT.to_owned(), |ratio| interval(&ratio, factor)),
                candidate.trials.to_string(),
                candidate.dropped.map_or_else(|| "stayed".to_owned(), |round| format!("round {round}")),
            ]
        })
        .collect();
    tried
}

fn of_tuning(tuning: &TuneResult) -> Vec<Table> {
    let mut tried = candidates(&tuning.candidates, ["Candidates, best first", "candidate", "over today"]);
    tried.notes.push(
        "Ratios of the search are exploratory: the best of many looks better than it is. Today's behaviour ran in \
         every round."
            .to_owned(),
    );
    let mut confirmed = Table::numeric(
        "Finalists against today's behaviour, on fresh pairs",
        ("finalist", Align::Left),
        &["over today", "interval", "pairs"],
    );
    confirmed.rows = tuning
        .finalists
        .iter()
        .map(|finalist| {
            let verdict = &finalist.verdict;
            let ends = verdict.interval.map_or_else(
                || "too few".to_owned(),
                |(low, high)| format!("{} to {}", factor(low), factor(high)),
            );
            vec![finalist.name.clone(), times(verdict.ratio), ends, verdict.pairs.to_string()]
        })
        .collect();
    confirmed.notes.push("The intervals hold jointly at 95 % (Holm, over all interim analyses).".to_owned());
    [tried, confirmed].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

pub(super) fn side_by_side(_: &[NamedEvaluation]) -> Vec<Table> {
    Vec::new()
}
