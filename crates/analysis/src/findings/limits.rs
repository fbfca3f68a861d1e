//! What a load of memory showed of a limit, in one sentence.

use super::{Finding, Kind, scaling::ratio};
use crate::limits::{LimitProof, LimitShown};

pub(super) fn find(proof: &LimitProof) -> Finding {
    let name = proof.check.name();
    let text = match &proof.shown {
        LimitShown::Holds => format!("The limit holds: {name}."),
        LimitShown::Fails(why) => format!("The limit does not hold: {name}: {why}."),
        LimitShown::Inconclusive => format!("Whether the limit holds is inconclusive: {name}."),
        LimitShown::CannotShow(why) => {
            format!("Whether the limit holds cannot be shown here: {name}: {why}.")
        }
    };
    let evidence = proof.verdict.iter().map(|verdict| ratio(verdict, "with over without")).collect();
    Finding::new(Kind::Answer, "limits", text, evidence)
}
