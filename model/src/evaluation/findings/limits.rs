//! Whether a limit was enforced against a memory load, in one sentence.

use super::{Finding, Kind, scaling::ratio};
use crate::qos::proof::{Proof, Shown};

pub(super) fn find(proof: &Proof) -> Finding {
    let name = proof.check.name();
    let text = match &proof.shown {
        Shown::Holds => format!("The limit is enforced: {name}."),
        Shown::Fails(why) => format!("The limit is not enforced: {name}: {why}."),
        Shown::Inconclusive => format!("Whether the limit is enforced is inconclusive: {name}."),
        Shown::CannotShow(why) => format!("Enforcement cannot be shown here: {name}: {why}."),
    };
    let evidence =
        proof.verdict.iter().map(|verdict| ratio(verdict, "with the limit over without")).collect();
    Finding::new(Kind::Answer, "limits", text, evidence)
}
