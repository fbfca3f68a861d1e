//! Whether B is better than A, by how much, and whether the difference is real.

use crate::{
    Options, Rounds, Study, analyses_for,
    error::{Error, Result},
    format_command, runs,
    subject::Variant,
    with_workers,
};
use manycore_analysis::is_conclusive_enough;
use manycore_control::placement::place_workers;
use manycore_experiment::{
    Record,
    engine::ExperimentSpec,
    record::{SAME_NAME, Treatment, factor, id, parameter},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, Policy, PolicyKind};
use manycore_text::units::counted;
use manycore_topology::Machine;
use std::{collections::BTreeMap, iter};

/// The levels that are compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// A and B.
    pub variants: [VariantSpec; 2],
    /// End as soon as half of the interval is no wider than this share.
    pub precision: Option<f64>,
}

/// One of two things that are compared.
#[derive(Clone, Debug)]
pub struct VariantSpec {
    /// Program and arguments, in which `{workers}` is replaced.
    pub command: Vec<String>,
    /// Variables that are added to our own environment.
    pub env: Vec<(String, String)>,
    /// Where it runs; unpinned where it is absent.
    pub place: Option<Policy>,
    /// Its memory policy.
    pub memory: MemoryPlacement,
    /// Number of workers that its placement is for; the usable CPUs where it is absent.
    pub workers: Option<usize>,
}

/// Measures pairs of A and B on `machine`, which is this one. The record comes back with how the run ended.
///
/// # Errors
/// What makes the measurement impossible; nothing was measured then.
pub fn run(
    machine: Machine,
    options: &Options,
    comparison: &Comparison,
    listener: &mut dyn Listener,
) -> Result<(Record, Result)> {
    let (variants, treatments) = variants(comparison, &machine)?;
    let is_same = variants[0] == variants[1];
    if is_same {
        listener.event(Event::Note("A and B are the same: this measures the noise of this machine."));
    }
    let command = &comparison.variants[0].command;
    let mut study = Study::begin("compare", machine, options, command, variants, listener)?;
    let same = is_same.then(|| (parameter::SAME_VARIANTS.to_owned(), "yes".to_owned()));
    let ending = measure(options, comparison, &mut study, treatments, same.into_iter().collect());
    Ok((study.end(&ending), ending))
}

fn measure(
    options: &Options,
    comparison: &Comparison,
    study: &mut Study,
    treatments: Vec<Treatment>,
    parameters: BTreeMap<String, String>,
) -> Result {
    let pair: f64 = study.warm_up_and_time(options, "pair", 2)?.iter().sum();
    let budget = study.budget(options, Rounds { what: "pair", seconds: pair })?;
    // A fixed number of pairs is always measured in full, unless a requested precision may end it earlier.
    let analyses = match (options.rounds, comparison.precision) {
        (Some(_), None) => 1,
        (Some(pairs), Some(_)) => analyses_for(pairs as f64),
        (None, _) => analyses_for(budget.seconds / pair),
    };
    let spec = ExperimentSpec { treatments, parameters, budget, analyses, ..runs(id::COMPARE) };
    // Only the end of the budget can be foreseen, not the answer of an interim analysis.
    let title = if analyses > 1 { "pairs of A and B (may end earlier)" } else { "pairs of A and B" };
    study
        .experiment(title, spec, &mut |experiment| is_conclusive_enough(experiment, comparison.precision))
        .map(drop)
}

/// Both variants, and their treatments, whose names differ.
fn variants(comparison: &Comparison, machine: &Machine) -> Result<(Vec<Variant>, Vec<Treatment>)> {
    let resolve = |spec: &VariantSpec| {
        let workers = spec.workers.unwrap_or_else(|| machine.usable().len());
        let (place, _) = place_workers(machine, spec.place.as_ref(), &spec.memory, workers)?;
        let (command, _) = with_workers(&spec.command, workers);
        Ok::<_, Error>(Variant { command, env: spec.env.clone(), copies: 1, place })
    };
    let specs = &comparison.variants;
    let variants = [resolve(&specs[0])?, resolve(&specs[1])?];
    // Beside a variant with a placement, "unpinned" is one as well.
    let has_places = specs.iter().any(|spec| spec.place.is_some());
    let has_counts = specs[0].workers != specs[1].workers;
    let mut treatments: Vec<Treatment> = specs
        .iter()
        .zip(&variants)
        .zip(["A", "B"])
        .map(|((spec, variant), letter)| treatment(letter, variant, place_name(spec, has_places, has_counts)))
        .collect();
    // Treatments of one name could not be distinguished.
    if treatments[0].name == treatments[1].name {
        treatments[1].name.push_str(SAME_NAME);
    }
    Ok((variants.into(), treatments))
}

/// The treatment of a variant: `NAME=VALUE command args (close, memory interleave)`.
fn treatment(letter: &str, variant: &Variant, place: String) -> Treatment {
    let env = variant.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = env.chain(iter::once(format_command(&variant.command))).collect();
    let command = words.join(" ");
    let name = if place.is_empty() { command.clone() } else { format!("{command} ({place})") };
    let factors = [(factor::VARIANT, letter.to_owned()), (factor::COMMAND, command), (factor::PLACE, place)];
    let known = factors.into_iter().filter(|(_, value)| !value.is_empty());
    Treatment {
        name,
        workers: 1,
        factors: known.map(|(name, value)| (name.to_owned(), value)).collect(),
        latency: None,
    }
}

/// `close, memory interleave, 4 workers`; empty where nothing is placed. Numbers of workers are named where they differ.
fn place_name(spec: &VariantSpec, has_places: bool, has_counts: bool) -> String {
    let unpinned = has_places.then(|| Policy::new(PolicyKind::Free, false).to_string());
    let place = spec.place.as_ref().map(ToString::to_string).or(unpinned);
    let memory = (spec.memory != MemoryPlacement::Default).then(|| format!("memory {}", spec.memory));
    let workers = spec.workers.filter(|_| has_counts).map(|workers| counted(workers, "worker"));
    place.into_iter().chain(memory).chain(workers).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(place: Option<&str>) -> VariantSpec {
        VariantSpec {
            command: ["gzip", "big log"].map(str::to_owned).to_vec(),
            env: vec![("LANG".to_owned(), "C".to_owned())],
            place: place.map(|place| place.parse().unwrap()),
            memory: MemoryPlacement::Default,
            workers: Some(4),
        }
    }

    /// Regression test: beside a placement of B, the name of A did not say that A is unpinned.
    #[test]
    fn names_of_variants_say_how_both_are_placed() {
        assert_eq!(
            [None, Some("close")].map(|place| place_name(&spec(place), true, false)),
            ["free", "close"]
        );
        assert_eq!(place_name(&spec(None), false, false), "");
        assert_eq!(place_name(&spec(Some("close")), true, true), "close, 4 workers");
    }

    #[test]
    fn a_treatment_has_the_command_with_its_environment_and_the_placement() {
        let VariantSpec { command, env, .. } = spec(None);
        let variant = Variant { command, env, copies: 1, ..Variant::default() };
        let placed = treatment("B", &variant, "close".to_owned());
        assert_eq!(placed.name, "LANG=C gzip 'big log' (close)");
        assert_eq!(placed.factors[factor::COMMAND], "LANG=C gzip 'big log'");
        let plain = treatment("A", &variant, String::new());
        assert_eq!((plain.name.as_str(), plain.factors.len()), ("LANG=C gzip 'big log'", 2));
    }
}
