//! Properties that are not the same on all nodes of a kind, and whether they separate slow nodes from the others.

use crate::evaluation::{Drift, FleetEvaluation, Verdict};
use crate::kinds::UNKNOWN;
use manycore_stats::fisher_exact;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the properties that differ within kinds: those that separate slow nodes first, then by kind, those with fewer values
/// and fewer deviating nodes first.
pub(crate) fn drift(evaluation: &FleetEvaluation) -> Vec<Drift> {
    let mut all: Vec<Drift> =
        (0..evaluation.kinds.len()).flat_map(|kind| of_kind(evaluation, kind)).collect();
    all.sort_by(|a, b| {
        let p = |one: &Drift| one.slow_p.unwrap_or(1.0);
        let deviating = |one: &Drift| one.values.iter().skip(1).map(|(_, nodes)| nodes.len()).sum::<usize>();
        p(a).total_cmp(&p(b))
            .then(a.kind.cmp(&b.kind))
            .then(a.values.len().cmp(&b.values.len()))
            .then(deviating(a).cmp(&deviating(b)))
            .then_with(|| a.property.cmp(&b.property))
    });
    all
}

fn of_kind(evaluation: &FleetEvaluation, kind: usize) -> Vec<Drift> {
    let members: Vec<usize> =
        (0..evaluation.nodes.len()).filter(|&node| evaluation.nodes[node].kind == kind).collect();
    let names: BTreeSet<&String> =
        members.iter().flat_map(|&node| evaluation.nodes[node].properties.keys()).collect();
    let property = |name: &String| {
        let mut values: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &node in &members {
            let value = evaluation.nodes[node].properties.get(name).map_or(UNKNOWN, String::as_str);
            values.entry(value).or_default().push(node);
        }
        (values.len() > 1).then(|| {
            let mut values: Vec<(String, Vec<usize>)> =
                values.into_iter().map(|(value, nodes)| (value.to_owned(), nodes)).collect();
            values.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
            Drift { kind, property: name.clone(), slow_p: slow_p(evaluation, &members, &values), values }
        })
    };
    names.into_iter().filter_map(property).collect()
}

/// Returns the smallest p-value of all values, corrected for their number. `None` without slow nodes.
fn slow_p(evaluation: &FleetEvaluation, members: &[usize], values: &[(String, Vec<usize>)]) -> Option<f64> {
    let slow = |nodes: &[usize]| {
        nodes.iter().filter(|&&node| evaluation.nodes[node].verdict == Verdict::Slow).count()
    };
    let all_slow = slow(members);
    if all_slow == 0 {
        return None;
    }
    let p = values.iter().map(|(_, nodes)| {
        let with = slow(nodes);
        let others = members.len() - nodes.len();
        fisher_exact([[with, nodes.len() - with], [all_slow - with, others + with - all_slow]])
    });
    // Of two values, one is the other's complement.
    let tests = if values.len() == 2 { 1 } else { values.len() };
    Some((p.fold(1.0, f64::min) * tests as f64).min(1.0))
}
