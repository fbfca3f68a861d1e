//! Whether a limit was enforced against a memory load, in one sentence.

use super::{Finding, FindingKind, scaling::ratio};
use crate::limits::{LimitProof, LimitShown};

pub(super) fn find(proof: &LimitProof) -> Finding {
    let name = proof.check.name();
    let text = match &proof.shown {
        LimitShown::Holds => format!("The limit is enforced: {name}."),
        LimitShown::Fails(why) => format!("The limit is not enforced: {name}: {why}."),
        LimitShown::Inconclusive => format!("Whether the limit is enforced is inconclusive: {name}."),
        LimitShown::CannotShow(why) => {
            format!("Enforcement cannot be shown here: {name}: {why}.")
        }
    };
    let evidence = proof.verdict.iter().map(|verdict| ratio(verdict, "with over without")).collect();
    Finding::new(FindingKind::Answer, "limits", text, evidence)
}
