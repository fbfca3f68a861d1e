//! Measures a command with more workers, or with more copies at once.

use crate::{
    Options, Rounds, Study,
    error::{Error, Result},
    life::Hooks,
    runs,
    subject::Variant,
    with_workers,
};
use manycore_control::placement::place_workers;
use manycore_experiment::{
    Record,
    engine::ExperimentSpec,
    record::{Treatment, factor, id},
    session::Listener,
};
use manycore_placement::{MemoryPlacement, Policy};
use manycore_topology::{CpuSet, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// What is scaled.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Program and arguments, in which `{workers}` is replaced.
    pub command: Vec<String>,
    /// Numbers of workers; powers of two up to all CPUs where there are none.
    pub workers: Vec<usize>,
    /// Whether that many copies run at once, instead of one command with that many workers.
    pub copies: bool,
    /// Where they run.
    pub place: Policy,
    /// Where their memory comes from.
    pub memory: MemoryPlacement,
    /// Commands around the runs, in which `{workers}` is replaced.
    pub hooks: Hooks,
}

/// Measures rounds of all numbers of workers on `machine`, which is this one. The record comes back with how the run
/// ended.
///
/// # Errors
/// What makes the measurement impossible; nothing was measured then.
pub fn run(
    machine: Machine,
    options: &Options,
    scale: &Scale,
    listener: &mut dyn Listener,
) -> Result<(Record, Result)> {
    let counts = counts(scale, machine.usable().len());
    let cpus = placed_cpus(scale, &machine)?;
    let variants = counts.iter().map(|&count| variant(scale, &machine, count)).collect::<Result<_>>()?;
    let mut study = Study::begin("scale", machine, options, &scale.command, variants, listener)?;
    let ending = measure(options, scale, &mut study, &counts, &cpus);
    Ok(study.end(ending))
}

fn measure(options: &Options, scale: &Scale, study: &mut Study, counts: &[usize], cpus: &CpuSet) -> Result {
    let round: f64 = study.warm_up_and_time(options, "round", counts.len())?.iter().sum();
    let budget = study.budget(options, Rounds { what: "round", seconds: round, comparisons: 1 })?;
    let (one, several) = if scale.copies { ("copy", "copies") } else { ("worker", "workers") };
    let treatment = |&count: &usize| Treatment {
        name: format!("{count} {}", if count == 1 { one } else { several }),
        workers: count,
        factors: BTreeMap::from([
            (factor::PLACE.to_owned(), scale.place.to_string()),
            (factor::CPUS.to_owned(), cpus.to_string()),
        ]),
        latency: None,
    };
    let spec = ExperimentSpec {
        treatments: counts.iter().map(treatment).collect(),
        parameters: BTreeMap::from([
            ("place".to_owned(), scale.place.to_string()),
            ("counted".to_owned(), several.to_owned()),
        ]),
        budget,
        ..runs(id::SCALING)
    };
    study.experiment("rounds of all numbers of workers", spec, &mut |_| false).map(drop)
}

/// Returns the numbers of workers in ascending order. They always include 1, the baseline.
fn counts(scale: &Scale, cpus: usize) -> Vec<usize> {
    let requested: BTreeSet<usize> = scale.workers.iter().copied().collect();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    let counts: BTreeSet<usize> =
        if requested.is_empty() { powers.chain([cpus]).collect() } else { requested };
    counts.into_iter().chain([1]).collect::<BTreeSet<usize>>().into_iter().collect()
}

/// Returns all CPUs that the placement has, however many workers there are.
fn placed_cpus(scale: &Scale, machine: &Machine) -> Result<CpuSet> {
    let (_, plan) = place_workers(machine, Some(&scale.place), &scale.memory, machine.usable().len())?;
    Ok(CpuSet::union_of(plan.workers.iter().map(|worker| &worker.cpus)))
}

fn variant(scale: &Scale, machine: &Machine, count: usize) -> Result<Variant> {
    let (command, has_placeholder) = with_workers(&scale.command, count);
    if !has_placeholder && !scale.copies {
        return Err(Error::NoWorkersPlaceholder);
    }
    let (place, _) = place_workers(machine, Some(&scale.place), &scale.memory, count)?;
    let copies = if scale.copies { count } else { 1 };
    let hooks = scale.hooks.with_workers(count);
    Ok(Variant { command, copies, place, hooks, ..Variant::default() })
}
