//! What a load of memory showed of a limit, in one sentence.

use super::{Finding, Kind, scaling::ratio};
use crate::qos::proof::{Proof, Shown};

pub(super) fn find(proof: &Proof) -> Finding {
    let name = proof.check.name();
    let text = match &proof.shown {
        Shown::Holds => format!("The limit holds: {name}."),
        Shown::Fails(why) => format!("The limit does not hold: {name}: {why}."),
        Shown::Inconclusive => format!("Whether the limit holds is inconclusive: {name}."),
        Shown::CannotShow(why) => format!("Whether the limit holds cannot be shown here: {name}: {why}."),
    };
    let evidence = proof.verdict.iter().map(|verdict| ratio(verdict, "with over without")).collect();
    Finding::new(Kind::Answer, "limits", text, evidence)
}
