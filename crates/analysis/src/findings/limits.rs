//! Whether a limit was enforced against a memory load, in one sentence.

use super::{Finding, FindingKind, scaling::ratio};
use crate::limits::{LimitProof, LimitResult};

pub(crate) fn find(proof: &LimitProof) -> Finding {
    let name = proof.check.name();
    let text = match &proof.shown {
        LimitResult::Holds => format!("The limit is enforced: {name}."),
        LimitResult::Fails(why) => format!("The limit is not enforced: {name}: {why}."),
        LimitResult::Inconclusive => format!("Whether the limit is enforced is inconclusive: {name}."),
        LimitResult::CannotShow(why) => {
            format!("Enforcement cannot be shown here: {name}: {why}.")
        }
    };
    let evidence = proof.verdict.iter().map(|verdict| ratio(verdict, "with over without")).collect();
    Finding::new(FindingKind::Answer, "limits", text, evidence)
}
