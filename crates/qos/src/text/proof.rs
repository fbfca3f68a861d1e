//! The results of `qos prove` as text.

use crate::text::table;
use crate::{
    proof::Proof,
    told::{Told, words},
};
use manycore_analysis::limits::{LimitProof, LimitShown};
use manycore_linux::resctrl::dialect::Offer;
use manycore_render::{
    figure::{factor, short, with_interval},
    table::{Align, fold},
};
use manycore_stats::{Estimate, verdict::Verdict};

/// Width of a line.
const WIDTH: usize = 96;

/// Returns all checks, which were measured on `place`, as text.
pub fn proofs(proofs: &[Proof], place: &str, offer: &Offer) -> String {
    let mut text = format!("Are limits enforced? {}, {place}\n", offer.dialect.name());
    for proof in proofs {
        text.push('\n');
        text.push_str(&one(proof, offer));
    }
    text
}

fn one(proof: &Proof, offer: &Offer) -> String {
    let LimitProof { check, shown, with, without, alone, verdict } = &proof.measured;
    let (answer, why) = match shown {
        LimitShown::Holds => ("HOLDS", None),
        LimitShown::Fails(why) => ("DOES NOT HOLD", Some(why.as_str())),
        LimitShown::Inconclusive => {
            ("INCONCLUSIVE", Some("too few pairs or too much noise: increase --seconds"))
        }
        LimitShown::CannotShow(why) => ("CANNOT BE SHOWN", Some(why.as_str())),
    };
    let mut text = String::new();
    let head = format!("{answer}  {}{}", check.name(), why.map(|why| format!(": {why}")).unwrap_or_default());
    for (index, line) in fold(&head, WIDTH).into_iter().enumerate() {
        text.push_str(&format!("{}{line}\n", if index == 0 { "" } else { "    " }));
    }
    let mut rows: Vec<Vec<String>> = proof.limits.iter().map(|told| limit(told, offer)).collect();
    let rate = |what: &str, rates: &Option<Estimate>| {
        let bytes = |rate: f64| format!("{}B/s", short(rate));
        rates.as_ref().map(|rates| vec![what.to_owned(), with_interval(rates, bytes, bytes), String::new()])
    };
    rows.extend(rate("with", with));
    rows.extend(rate("without", without));
    rows.extend(rate("uncontended", alone));
    rows.extend(verdict.as_ref().map(ratio));
    if !rows.is_empty() {
        text.push_str(&table(&[("", Align::Left), ("", Align::Left), ("", Align::Left)], rows).text());
    }
    text
}

fn limit(told: &Told, offer: &Offer) -> Vec<String> {
    let in_force = told.in_force.map_or_else(|| "none".to_owned(), |value| words(offer, &told.line, value));
    let word = offer.dialect.scope(&told.line).word();
    let why = told.why.as_ref().map(|why| format!("{}: {why}", told.asked));
    vec![format!("{} of {word} {}", told.line, told.domain), in_force, why.unwrap_or_default()]
}

fn ratio(verdict: &Verdict) -> Vec<String> {
    let ends = verdict.interval.map(|(low, high)| format!(" ({} to {})", factor(low), factor(high)));
    vec![
        "ratio with/without".to_owned(),
        format!("{}{}", factor(verdict.ratio), ends.unwrap_or_default()),
        format!("{} pairs", verdict.pairs),
    ]
}
