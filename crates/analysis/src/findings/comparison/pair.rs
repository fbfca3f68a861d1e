//! The answer for two variants.

use super::{Wording, more, pairs, too_few, trade_off};
use crate::{
    Comparison, VariantComparison,
    wording::{both, percent},
};
use manycore_stats::{Estimator, verdict::Answer};

pub(super) fn answer(comparison: &Comparison, other: &VariantComparison) -> String {
    let wording = Wording::new(comparison, other);
    match wording.measured() {
        None => {
            let so_far = if comparison.same_variants {
                format!("{} are the same, so their true ratio is 1.", both(wording.titles))
            } else {
                format!("So far, {} {}.", wording.titles[1], wording.change.point(wording.ratio))
            };
            format!("{} {so_far}", too_few(comparison, "pair"))
        }
        Some(measured) if comparison.same_variants => same(&wording, &measured),
        Some(measured) => different(comparison, &wording, &measured),
    }
}

fn different(comparison: &Comparison, wording: &Wording, measured: &str) -> String {
    let (verdict, change, ratio) = (&wording.other.verdict, &wording.change, wording.ratio);
    let (margin, [a, b]) = (percent(verdict.rule.margin), wording.titles);
    match verdict.answer {
        Answer::TradeOff => wording
            .other
            .trade_off
            .as_ref()
            .map_or_else(String::new, |found| trade_off::sentence(wording, found, measured)),
        Answer::ABetter | Answer::BBetter => {
            let small = if verdict.is_within_margin() {
                format!(" The difference is real and within the margin of {margin}: too small to matter.")
            } else {
                String::new()
            };
            format!(
                "{b} is {} than {a}: it {}{} ({measured}).{small}",
                change.comparative(verdict.answer == Answer::BBetter),
                change.point(ratio),
                change.speed(ratio)
            )
        }
        Answer::Equivalent => {
            format!(
                "{} are equivalent within {margin}: {b} {} ({measured}).",
                both(wording.titles),
                change.point(ratio)
            )
        }
        Answer::Inconclusive => {
            let more =
                wording.other.pairs_needed.map(|pairs| format!("; {}", more(comparison, pairs, "pair")));
            let possible = change.possible(wording.titles, ratio);
            let contradicting = wording
                .other
                .trade_off
                .as_ref()
                .map(|found| format!(" But {}.", trade_off::clause(wording, found)));
            // What another figure shows is set against the median, which the sentence then names.
            let of_median = contradicting.is_some() && verdict.estimator == Estimator::Median;
            let by = if of_median { " by the median" } else { "" };
            format!(
                "Inconclusive{by}: {possible} ({measured}){}.{}",
                more.unwrap_or_default(),
                contradicting.unwrap_or_default()
            )
        }
    }
}

/// Says what pairs of the same variant show, which is never that one is better.
fn same(wording: &Wording, measured: &str) -> String {
    let is_different = wording.other.verdict.is_different();
    let rest = if is_different || wording.other.verdict.answer == Answer::TradeOff {
        "The difference is chance: about one of 20 such runs shows one."
    } else {
        "What remains is the noise of this machine."
    };
    format!("{} are the same, so their true ratio is 1. Measured: {measured}. {rest}", both(wording.titles))
}

pub(super) fn evidence(other: &VariantComparison) -> Vec<String> {
    vec![pairs(&other.verdict, "pair")]
}
