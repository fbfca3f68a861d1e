//! The kernel's own scheduler of normal tasks.

use super::{
    facts::Facts,
    report::{EnergyAware, FairAlgorithm, KernelScheduler},
};
use manycore_linux::kernel::Release;
use std::collections::BTreeMap;

/// Returns what the facts say about the kernel's own scheduler.
pub(super) fn from_facts(facts: &Facts, release: Release) -> KernelScheduler {
    let features = facts.features.as_deref().map(parse_features);
    let (algorithm, evidence) = algorithm(features.as_ref(), facts, release);
    KernelScheduler {
        algorithm,
        evidence,
        preemption: facts.preempt.as_deref().and_then(preemption),
        features,
        tunables: facts.tunables.clone(),
        cache_aware: facts.cache_aware.as_deref().map(is_cache_aware),
        autogroup: facts.autogroup.as_deref().map(|text| text.trim() != "0"),
        energy_aware: match facts.energy_aware.as_deref().map(str::trim) {
            None => EnergyAware::Absent,
            Some("0") => EnergyAware::Off,
            // The file is empty where the CPUs have no energy model (since Linux 6.7).
            Some("") => EnergyAware::Impossible,
            Some(_) => EnergyAware::On,
        },
    }
}

/// Parses `PLACE_LAG NO_NEXT_BUDDY`.
fn parse_features(text: &str) -> BTreeMap<String, bool> {
    let feature = |word: &str| match word.strip_prefix("NO_") {
        Some(name) => (name.to_owned(), false),
        None => (word.to_owned(), true),
    };
    text.split_whitespace().map(feature).collect()
}

/// Returns the algorithm, and what it is known from. Features decide, because distributions move code to older kernels.
fn algorithm(
    features: Option<&BTreeMap<String, bool>>,
    facts: &Facts,
    release: Release,
) -> (FairAlgorithm, String) {
    let new =
        features.and_then(|all| ["PLACE_LAG", "RUN_TO_PARITY"].into_iter().find(|it| all.contains_key(*it)));
    if let Some(name) = new {
        return (FairAlgorithm::Eevdf, format!("has the feature {name}"));
    }
    let old = features
        .and_then(|all| ["GENTLE_FAIR_SLEEPERS", "START_DEBIT"].into_iter().find(|it| all.contains_key(*it)));
    if let Some(name) = old {
        return (FairAlgorithm::Cfs, format!("has the feature {name}"));
    }
    let kernel = facts.machine.system.kernel.as_deref().unwrap_or_default();
    match release.is_since(6, 6) {
        Some(true) => (FairAlgorithm::Eevdf, format!("kernel {kernel} is 6.6 or newer")),
        Some(false) => (FairAlgorithm::Cfs, format!("kernel {kernel} is older than 6.6")),
        None => (FairAlgorithm::Unknown, "neither features nor the kernel release can be read".to_owned()),
    }
}

/// Parses `none voluntary (full) lazy`: the mode in brackets is in force.
fn preemption(text: &str) -> Option<String> {
    Some(text.split_once('(')?.1.split_once(')')?.0.to_owned())
}

/// Parses `1`, `Y`, or `[always] advise never`, the form of newer kernels.
fn is_cache_aware(text: &str) -> bool {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(word, _)| word);
    !matches!(word.trim(), "0" | "N" | "never")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_kernel() {
        assert_eq!(preemption("full (lazy) ").as_deref(), Some("lazy"));
        assert_eq!(preemption("none voluntary (full)").as_deref(), Some("full"));
        assert_eq!(preemption("full"), None);
        let on: Vec<bool> =
            ["1", "0", "Y", "N", "[always] advise never", "always [advise] never", "always advise [never]"]
                .map(is_cache_aware)
                .to_vec();
        assert_eq!(on, [true, false, true, false, true, true, false]);
        let features = parse_features("PLACE_LAG NO_NEXT_BUDDY ");
        assert_eq!(
            features,
            BTreeMap::from([("PLACE_LAG".to_owned(), true), ("NEXT_BUDDY".to_owned(), false)])
        );
    }
}
