//! The answer for more than two variants: their order as far as it is proven, and the best one against the reference.

use super::{Wording, first_race, more, pairs, too_few, trade_off};
use crate::{
    Comparison, VariantComparison,
    wording::{ChangeWording, percent},
};
use manycore_experiment::Record;
use manycore_stats::verdict::Answer;
use manycore_text::names::list;

/// Number of variants of one group that are named.
const MAX_NAMED: usize = 6;

/// Number of variants of a partial order of which it is said what they are better than.
const MAX_CLAUSES: usize = 3;

pub(super) fn answer(comparison: &Comparison) -> String {
    if comparison.others.iter().all(|other| other.verdict.interval.is_none()) {
        return too_few(comparison, "round");
    }
    if comparison.same_variants {
        return same(comparison);
    }
    let parts = [Some(ranking(comparison)), best(comparison), trade_offs(comparison), undecided(comparison)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn same(comparison: &Comparison) -> String {
    let count = comparison.variants.len();
    let rest = if comparison
        .others
        .iter()
        .any(|other| other.verdict.is_different() || other.verdict.answer == Answer::TradeOff)
    {
        "The differences are chance: about one of 20 such runs shows one."
    } else {
        "What remains is the noise of this machine."
    };
    format!("All {count} variants are the same, so their true ratios are 1. {rest}")
}

/// `Fastest: B and D (a tie); then A; then C.`
fn ranking(comparison: &Comparison) -> String {
    let margin = comparison.others.first().map_or(0.0, |other| other.verdict.rule.margin);
    let are_equivalent = comparison.others.iter().all(|other| other.verdict.is_within_margin());
    let group = |group: &Vec<usize>| {
        let titles: Vec<&str> = group.iter().map(|&treatment| comparison.title(treatment)).collect();
        enumerated(&titles)
    };
    match comparison.ranking.as_slice() {
        [all] if are_equivalent => {
            format!(
                "Equivalent to {} within {}: {}.",
                title(comparison),
                percent(margin),
                without(comparison, all)
            )
        }
        [all] if comparison.ordered.is_empty() => {
            format!("No order is proven among {}.{}", group(all), rounds_for_order(comparison))
        }
        [_] => format!("{}{}", partial_order(comparison), rounds_for_order(comparison)),
        groups => {
            let named = |one: &Vec<usize>| format!("{}{}", group(one), state(comparison, one));
            let named: Vec<String> = groups.iter().map(named).collect();
            let open = groups.iter().any(|one| one.len() > 1);
            let needed = if open { rounds_for_order(comparison) } else { String::new() };
            format!("{}: {}.{needed}", change(comparison).superlative(), named.join("; then "))
        }
    }
}

/// Says what is known of the order within a group of the ranking.
fn state(comparison: &Comparison, group: &[usize]) -> &'static str {
    let is_within = |(a, b): &(usize, usize)| group.contains(a) && group.contains(b);
    match group {
        [_] => "",
        _ if comparison.ordered.iter().any(is_within) => " (ordered in part)",
        _ if comparison.rounds_for_order().is_some() => " (order open)",
        _ => " (a tie)",
    }
}

/// Says how many rounds a proof of the order needs, where fewer were measured. Begins with a blank.
fn rounds_for_order(comparison: &Comparison) -> String {
    let Some(needed) = comparison.rounds_for_order() else { return String::new() };
    format!(
        " To order all {} variants takes at least {needed} rounds (--pairs {needed}).",
        comparison.others.len() + 1
    )
}

/// `The order is proven in part: A is faster than C and D; B is faster than D.`
fn partial_order(comparison: &Comparison) -> String {
    let better = change(comparison).comparative(true);
    let clause = |&winner: &usize| {
        let losers = comparison.ordered.iter().filter(|(best, _)| *best == winner);
        let losers: Vec<&str> = losers.map(|(_, worse)| comparison.title(*worse)).collect();
        (!losers.is_empty())
            .then(|| format!("{} is {better} than {}", comparison.title(winner), enumerated(&losers)))
    };
    // That of the reference first: the comparisons are with it.
    let others = comparison.ranking.iter().flatten().filter(|one| **one != comparison.reference);
    let clauses: Vec<String> =
        std::iter::once(&comparison.reference).chain(others).filter_map(clause).collect();
    let shown = clauses.len().min(MAX_CLAUSES);
    let more = match clauses.len() - shown {
        0 => String::new(),
        more => format!("; and so on for {more} more"),
    };
    format!("The order is proven in part: {}{more}.", clauses[..shown].join("; "))
}

/// Returns the titles of a group without that of the reference.
fn without(comparison: &Comparison, group: &[usize]) -> String {
    let others = group.iter().filter(|&&treatment| treatment != comparison.reference);
    enumerated(&others.map(|&treatment| comparison.title(treatment)).collect::<Vec<_>>())
}

fn title(comparison: &Comparison) -> &str {
    comparison.title(comparison.reference)
}

fn change(comparison: &Comparison) -> ChangeWording {
    let primary = comparison.others.first().and_then(|other| other.metrics.first());
    ChangeWording::for_metric(primary.map(|primary| &primary.metric)).by(comparison.estimator())
}

/// Says what the best variant does, against the reference.
fn best(comparison: &Comparison) -> Option<String> {
    let first = comparison.ranking.first().filter(|_| comparison.ranking.len() > 1)?;
    let better = change(comparison).comparative(true);
    if first.contains(&comparison.reference) {
        return Some(format!("No variant is shown to be {better} than {}.", title(comparison)));
    }
    let best = comparison.others.iter().find(|other| Some(&other.treatment) == first.first())?;
    let wording = Wording::new(comparison, best);
    Some(format!("{} ({}).", wording.change.than(wording.titles, wording.ratio), wording.measured()?))
}

/// Names the variants that are better by one figure and worse by another.
fn trade_offs(comparison: &Comparison) -> Option<String> {
    let sentence = |other: &VariantComparison| {
        let wording = Wording::new(comparison, other);
        Some(trade_off::sentence(&wording, other.trade_off.as_ref()?, &wording.measured()?))
    };
    let sentences: Vec<String> = comparison.others.iter().filter_map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Names the variants whose comparison with the reference has no answer.
fn undecided(comparison: &Comparison) -> Option<String> {
    let undecided: Vec<&str> = comparison
        .others
        .iter()
        .filter(|other| other.verdict.answer == Answer::Inconclusive)
        .map(|other| comparison.title(other.treatment))
        .collect();
    let more = comparison.pairs_needed().map(|rounds| format!("; {}", more(comparison, rounds, "round")));
    (!undecided.is_empty()).then(|| {
        format!(
            "Inconclusive against {}: {}{}.",
            title(comparison),
            enumerated(&undecided),
            more.unwrap_or_default()
        )
    })
}

/// Says how many variants a race dropped, which the comparison does not show.
pub(super) fn race(record: &Record, comparison: &Comparison) -> Option<String> {
    let raced = first_race(record)?.variants().count();
    let dropped = raced.saturating_sub(comparison.variants.len());
    let were = if dropped == 1 { "was" } else { "were" };
    Some(format!(
        "{dropped} of {raced} variants {were} dropped in the race after a few rounds, which do not prove that they are worse."
    ))
    .filter(|_| dropped > 0)
}

/// Joins titles: `B, C and D`, `B, C and 12 more`.
fn enumerated(titles: &[&str]) -> String {
    let is_long = titles.len() > MAX_NAMED + 1;
    let named = if is_long { &titles[..MAX_NAMED] } else { titles };
    let more = is_long.then(|| format!("{} more", titles.len() - MAX_NAMED));
    list(&named.iter().map(|title| (*title).to_owned()).chain(more).collect::<Vec<_>>())
}

pub(super) fn evidence(comparison: &Comparison) -> Vec<String> {
    let of = |other: &VariantComparison| {
        let wording = Wording::new(comparison, other);
        let measured = wording.measured().unwrap_or_else(|| "too few rounds for an interval".to_owned());
        format!(
            "{} ({measured}; {})",
            wording.change.than(wording.titles, wording.ratio),
            pairs(&other.verdict, "round")
        )
    };
    let order = match comparison.ordered.as_slice() {
        [] => "",
        _ => "; what is said of the order is proven jointly for all pairs of variants",
    };
    let joint = format!("the intervals hold jointly at 95 % (Holm){order}");
    comparison.others.iter().map(of).chain([joint]).collect()
}

#[cfg(test)]
mod tests {
    use super::enumerated;

    #[test]
    fn long_groups_are_shortened() {
        assert_eq!(enumerated(&["A"]), "A");
        assert_eq!(enumerated(&["A", "B", "C"]), "A, B and C");
        assert_eq!(enumerated(&["A", "B", "C", "D", "E", "F", "G"]), "A, B, C, D, E, F and G");
        assert_eq!(enumerated(&["A", "B", "C", "D", "E", "F", "G", "H"]), "A, B, C, D, E, F and 2 more");
        assert_eq!(enumerated(&[]), "");
    }
}
