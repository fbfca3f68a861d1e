//! Whether B is better than A, by how much, and whether the difference is real.

use crate::{
    Options, Plot, Study, analyses_for,
    commands::Side,
    error::{Error, Result},
    line, with_workers,
};
use manycore_analysis::enough;
use manycore_control::placement::place_workers;
use manycore_experiment::{
    Record,
    record::{Treatment, id},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, Policy};
use manycore_topology::Machine;
use std::{collections::BTreeMap, iter};

/// The levels that are compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// A and B.
    pub variants: [Variant; 2],
    /// Number of workers that placements are for; the usable CPUs where it is absent.
    pub workers: Option<usize>,
    /// End as soon as half of the interval is no wider than this share.
    pub precision: Option<f64>,
}

/// One of two things that are compared.
#[derive(Clone, Debug)]
pub struct Variant {
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
    let (sides, names) = sides(comparison, &machine)?;
    if sides[0] == sides[1] {
        listener.event(Event::Note("A and B are the same, so this measures the noise of this machine."));
    }
    let command = &comparison.variants[0].command;
    let mut study = Study::begin("compare", machine, options, command, sides, listener)?;
    let ending = measure(options, comparison, &mut study, &names);
    Ok((study.end(&ending), ending))
}

fn measure(options: &Options, comparison: &Comparison, study: &mut Study, names: &[String; 2]) -> Result {
    let pair: f64 = study.pilot(options.warmups)?.iter().sum();
    let budget = study.budget(options, "a pair", pair)?;
    // A fixed number of pairs is always measured in full, unless --precision may end it earlier.
    let analyses = match (options.rounds, comparison.precision) {
        (Some(_), None) => 1,
        (Some(pairs), Some(_)) => analyses_for(pairs as f64),
        (None, _) => analyses_for(budget.seconds / pair),
    };
    let treatment = |(name, side): (&String, &str)| Treatment {
        name: name.clone(),
        workers: 1,
        factors: BTreeMap::from([("side".to_owned(), side.to_owned())]),
        latency: None,
    };
    let plot = Plot {
        id: id::COMPARE.to_owned(),
        title: "pairs of A and B",
        treatments: names.iter().zip(["A", "B"]).map(treatment).collect(),
        parameters: BTreeMap::new(),
        budget,
        analyses,
    };
    study.experiment(plot, &mut |experiment| enough(experiment, comparison.precision)).map(drop)
}

/// Both sides, with names that differ.
fn sides(comparison: &Comparison, machine: &Machine) -> Result<(Vec<Side>, [String; 2])> {
    let workers = comparison.workers.unwrap_or_else(|| machine.usable().len());
    let side = |variant: &Variant| {
        let (place, _) = place_workers(machine, variant.place.as_ref(), &variant.memory, workers)?;
        let (command, _) = with_workers(&variant.command, workers);
        Ok::<_, Error>(Side { command, env: variant.env.clone(), copies: 1, place })
    };
    let [a, b] = &comparison.variants;
    let sides = [side(a)?, side(b)?];
    let first = name(&sides[0], a);
    let second = name(&sides[1], b);
    // Two treatments of the same name could not be distinguished.
    let second = if first == second { format!("{second} (again)") } else { second };
    Ok((sides.into(), [first, second]))
}

/// Names a variant: `NAME=VALUE command args (close, interleave)`.
fn name(side: &Side, variant: &Variant) -> String {
    let env = side.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = env.chain(iter::once(line(&side.command))).collect();
    let mut place: Vec<String> = variant.place.iter().map(ToString::to_string).collect();
    place.extend((variant.memory != MemoryPlacement::Default).then(|| format!("memory {}", variant.memory)));
    match place.join(", ") {
        none if none.is_empty() => words.join(" "),
        place => format!("{} ({place})", words.join(" ")),
    }
}
