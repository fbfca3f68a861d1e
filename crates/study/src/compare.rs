//! Whether B is better than A, by how much, and whether the difference is real.

use crate::{
    Options, Study, analyses_for,
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
    record::{Treatment, factor, id},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, Policy};
use manycore_topology::Machine;
use std::{collections::BTreeMap, iter};

/// The levels that are compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// A and B.
    pub variants: [VariantSpec; 2],
    /// Number of workers that placements are for; the usable CPUs where it is absent.
    pub workers: Option<usize>,
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
    let (variants, names) = variants(comparison, &machine)?;
    if variants[0] == variants[1] {
        listener.event(Event::Note("A and B are the same: this measures the noise of this machine."));
    }
    let command = &comparison.variants[0].command;
    let mut study = Study::begin("compare", machine, options, command, variants, listener)?;
    let ending = measure(options, comparison, &mut study, &names);
    Ok((study.end(&ending), ending))
}

fn measure(options: &Options, comparison: &Comparison, study: &mut Study, names: &[String; 2]) -> Result {
    let pair: f64 = study.warm_up_and_time(options.warmups)?.iter().sum();
    let budget = study.budget(options, "a pair", pair)?;
    // A fixed number of pairs is always measured in full, unless a requested precision may end it earlier.
    let analyses = match (options.rounds, comparison.precision) {
        (Some(_), None) => 1,
        (Some(pairs), Some(_)) => analyses_for(pairs as f64),
        (None, _) => analyses_for(budget.seconds / pair),
    };
    let treatment = |(name, letter): (&String, &str)| Treatment {
        name: name.clone(),
        workers: 1,
        factors: BTreeMap::from([(factor::VARIANT.to_owned(), letter.to_owned())]),
        latency: None,
    };
    let treatments = names.iter().zip(["A", "B"]).map(treatment).collect();
    let spec = ExperimentSpec { treatments, budget, analyses, ..runs(id::COMPARE) };
    // Only the end of the budget can be foreseen, not the answer of an interim analysis.
    let title = if analyses > 1 { "pairs of A and B (may end earlier)" } else { "pairs of A and B" };
    study
        .experiment(title, spec, &mut |experiment| is_conclusive_enough(experiment, comparison.precision))
        .map(drop)
}

/// Both variants, with names that differ.
fn variants(comparison: &Comparison, machine: &Machine) -> Result<(Vec<Variant>, [String; 2])> {
    let workers = comparison.workers.unwrap_or_else(|| machine.usable().len());
    let resolve = |spec: &VariantSpec| {
        let (place, _) = place_workers(machine, spec.place.as_ref(), &spec.memory, workers)?;
        let (command, _) = with_workers(&spec.command, workers);
        Ok::<_, Error>(Variant { command, env: spec.env.clone(), copies: 1, place })
    };
    let [a, b] = &comparison.variants;
    let variants = [resolve(a)?, resolve(b)?];
    let first = name(&variants[0], a);
    let second = name(&variants[1], b);
    // Treatments of one name could not be distinguished.
    let second = if first == second { format!("{second} (again)") } else { second };
    Ok((variants.into(), [first, second]))
}

/// `NAME=VALUE command args (close, interleave)`.
fn name(variant: &Variant, spec: &VariantSpec) -> String {
    let env = variant.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = env.chain(iter::once(format_command(&variant.command))).collect();
    let mut place: Vec<String> = spec.place.iter().map(ToString::to_string).collect();
    place.extend((spec.memory != MemoryPlacement::Default).then(|| format!("memory {}", spec.memory)));
    match place.join(", ") {
        none if none.is_empty() => words.join(" "),
        place => format!("{} ({place})", words.join(" ")),
    }
}
