//! Which of several variants is the best, by how much, and whether the differences are real.

use crate::{
    Options, Rounds, Study, analyses_by, conditions,
    error::{Error, Result},
    format_command,
    life::Hooks,
    race::{Entrant, Race, RunSeconds},
    runs,
    scheduler::SchedulerChoice,
    subject::Variant,
    with_workers,
};
use manycore_analysis::{differences::each_once, is_conclusive_enough};
use manycore_control::{placement::place_workers, setting::Setting};
use manycore_experiment::{
    Record,
    engine::ExperimentSpec,
    record::{SAME_NAME, Treatment, factor, id, parameter, variant_label},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, Policy, PolicyKind};
use manycore_stats::Estimator;
use manycore_text::units::counted;
use manycore_topology::Machine;
use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

/// Number of variants that are compared with the reference after a race.
const FINALISTS: usize = 3;

/// Number of rounds of all variants from which a race saves nothing: a difference of 5 % shows in them.
const ENOUGH_ROUNDS: f64 = 30.0;

/// The variants that are compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// At least two.
    pub variants: Vec<VariantSpec>,
    /// What was left out of the product of the parameters, for the report.
    pub note: Option<String>,
    /// Index of the variant with which the others are compared.
    pub reference: usize,
    /// End as soon as half of each interval is no wider than this share.
    pub precision: Option<f64>,
}

/// One of the things that are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariantSpec {
    /// The user's name.
    pub name: Option<String>,
    /// The values of the parameters that it uses, by name.
    pub parameters: BTreeMap<String, String>,
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
    /// Its niceness, from -20 to 19; that of this process where it is absent.
    pub nice: Option<i32>,
    /// Settings of the machine while it runs. Those that only another variant names have their original values.
    pub settings: Vec<Setting>,
    /// Scheduler of all tasks while it runs. Where only other variants name one, the kernel's own.
    pub scheduler: Option<SchedulerChoice>,
    /// Commands around its runs, in which `{workers}` is replaced.
    pub hooks: Hooks,
}

/// Measures rounds of all variants on `machine`, which is this one. The record comes back with how the run ended.
///
/// # Errors
/// What makes the measurement impossible; nothing was measured then.
pub fn run(
    machine: Machine,
    options: &Options,
    comparison: &Comparison,
    listener: &mut dyn Listener,
) -> Result<(Record, Result)> {
    let (variants, mut treatments) = variants(comparison, &machine, options)?;
    let mut parameters = BTreeMap::new();
    if variants.iter().all(|variant| *variant == variants[0]) {
        let which = if variants.len() == 2 {
            "A and B".to_owned()
        } else {
            format!("All {} variants", variants.len())
        };
        let note = format!("{which} are the same: this measures the noise of this machine.");
        listener.event(Event::Note(&note));
        parameters.insert(parameter::SAME_VARIANTS.to_owned(), "yes".to_owned());
    }
    if comparison.reference > 0 {
        parameters.insert(parameter::REFERENCE.to_owned(), variant_label(comparison.reference));
    }
    if options.by != Estimator::Median {
        parameters.insert(parameter::ESTIMATOR.to_owned(), options.by.to_string());
    }
    if let Some(note) = &comparison.note {
        listener.event(Event::Note(note));
    }
    let command = &comparison.variants[0].command;
    let mut study = Study::begin("compare", machine, options, command, variants, listener)?;
    name_schedulers(&mut treatments, &study);
    study.subject.set_titles(treatments.iter().map(|treatment| treatment.title().to_owned()));
    study.session.record.notes.extend(comparison.note.clone());
    let ending = measure(options, comparison, &mut study, treatments, parameters);
    Ok(study.end(ending))
}

/// Returns the names that the variants will have in a record, each once.
///
/// # Errors
/// A placement or a setting is impossible on this machine.
pub fn variant_names(comparison: &Comparison, machine: &Machine, options: &Options) -> Result<Vec<String>> {
    let (_, treatments) = variants(comparison, machine, options)?;
    Ok(each_once(treatments.iter().map(|treatment| treatment.plain_name().to_owned())))
}

fn measure(
    options: &Options,
    comparison: &Comparison,
    study: &mut Study,
    treatments: Vec<Treatment>,
    parameters: BTreeMap<String, String>,
) -> Result {
    let count = treatments.len();
    let (what, title) = match count {
        2 => ("pair", "pairs of A and B".to_owned()),
        _ => ("round", format!("rounds of {count} variants")),
    };
    let each = study.warm_up_and_time(options, what, count)?;
    let seconds: f64 = each.iter().sum();
    let fitting = (options.time().as_secs_f64() - study.used_seconds()).max(0.0) / seconds;
    if is_raced(options, comparison, fitting) {
        study.session.report(Event::Note(&race_note(comparison, fitting as usize)));
        return race(options, comparison, study, (treatments, &each), parameters);
    }
    let rounds = Rounds { what, seconds, comparisons: count - 1 };
    let budget = study.budget(options, rounds)?;
    // A fixed number of pairs is always measured in full, unless a requested precision may end it earlier.
    let analyses = match (options.rounds, comparison.precision) {
        (Some(_), None) => 1,
        (Some(pairs), Some(_)) => analyses_by(options.by, pairs as f64, count - 1),
        (None, _) => analyses_by(options.by, budget.seconds / seconds, count - 1),
    };
    let spec = ExperimentSpec { treatments, parameters, budget, analyses, ..runs(id::COMPARE) };
    // Only the end of the budget can be foreseen, not the answer of an interim analysis.
    let title = if analyses > 1 { format!("{title} (may end earlier)") } else { title };
    study
        .experiment(&title, spec, &mut |experiment| is_conclusive_enough(experiment, comparison.precision))
        .map(drop)
}

/// Returns whether the variants are raced: there are more than would be confirmed anyway, and too few rounds of all of
/// them fit into the budget. What the user fixed, the number of rounds or the precision, is measured with all of them.
fn is_raced(options: &Options, comparison: &Comparison, fitting: f64) -> bool {
    let is_fixed = options.rounds.is_some() || comparison.precision.is_some();
    !is_fixed && comparison.variants.len() > FINALISTS + 1 && fitting < ENOUGH_ROUNDS
}

fn race_note(comparison: &Comparison, fitting: usize) -> String {
    format!(
        "Only {} of all {} variants {} into the budget, so the variants are raced: the worse half is dropped after each \
         round, and the best {FINALISTS} are compared with the reference on fresh rounds. With --pairs N, all of them are \
         measured in N rounds.",
        counted(fitting, "round"),
        comparison.variants.len(),
        if fitting == 1 { "fits" } else { "fit" },
    )
}

/// Races the variants, of which one run of each took so many seconds.
fn race(
    options: &Options,
    comparison: &Comparison,
    study: &mut Study,
    (treatments, seconds): (Vec<Treatment>, &[f64]),
    parameters: BTreeMap<String, String>,
) -> Result {
    let variants = study.subject.variants().to_vec();
    let mut others: Vec<Entrant> = variants
        .into_iter()
        .zip(treatments)
        .map(|(variant, treatment)| Entrant { variant, treatment })
        .collect();
    let of_reference = seconds[comparison.reference];
    let reference = others.remove(comparison.reference);
    let seconds = RunSeconds { reference: of_reference, others: seconds.iter().sum::<f64>() - of_reference };
    let ids = [id::COMPARE_RACE, id::COMPARE];
    let race = Race { reference, others, finalists: FINALISTS, ids, parameters };
    race.run(options, study, seconds, &mut |experiment| is_conclusive_enough(experiment, None))
}

/// Adds the kernel's names of the schedulers, which are known once each was loaded.
fn name_schedulers(treatments: &mut [Treatment], study: &Study) {
    for (treatment, variant) in treatments.iter_mut().zip(study.subject.variants()) {
        if let Some(name) = study.subject.scheduler_name(variant) {
            treatment.factors.insert(factor::SCHEDULER_NAME.to_owned(), name.clone());
        }
    }
}

/// All variants, and their treatments, whose names differ.
fn variants(
    comparison: &Comparison,
    machine: &Machine,
    options: &Options,
) -> Result<(Vec<Variant>, Vec<Treatment>)> {
    let specs = &comparison.variants;
    let has_schedulers = specs.iter().any(|spec| spec.scheduler.is_some());
    let scheduler = |spec: &VariantSpec| {
        let choice = spec.scheduler.as_ref().unwrap_or(&SchedulerChoice::Kernel);
        has_schedulers.then(|| choice.resolve(&options.cluster_loader))
    };
    let resolve = |spec: &VariantSpec| {
        let workers = spec.workers.unwrap_or_else(|| machine.usable().len());
        let (place, _) = place_workers(machine, spec.place.as_ref(), &spec.memory, workers)?;
        let (command, _) = with_workers(&spec.command, workers);
        let (env, settings) = (spec.env.clone(), spec.settings.clone());
        let hooks = spec.hooks.with_workers(workers);
        let (nice, scheduler) = (spec.nice, scheduler(spec));
        Ok::<_, Error>(Variant { command, env, copies: 1, place, nice, settings, scheduler, hooks })
    };
    let variants = specs.iter().map(resolve).collect::<Result<Vec<Variant>>>()?;
    let files = conditions::setting_files(&variants)?;
    // Beside a variant with a placement, "unpinned" is one as well.
    let has_places = specs.iter().any(|spec| spec.place.is_some());
    let has_counts = specs.iter().any(|spec| spec.workers != specs[0].workers);
    let mut treatments: Vec<Treatment> = specs
        .iter()
        .zip(&variants)
        .enumerate()
        .map(|(index, (spec, variant))| {
            let place = place_name(spec, has_places, has_counts);
            treatment(index, spec, variant, place, files.describe(&spec.settings))
        })
        .collect();
    distinguish(&mut treatments);
    Ok((variants, treatments))
}

/// Gives each treatment a name of its own: those of one name could not be distinguished.
fn distinguish(treatments: &mut [Treatment]) {
    let mut known = BTreeSet::new();
    for treatment in treatments {
        while !known.insert(treatment.name.clone()) {
            treatment.name.push_str(SAME_NAME);
        }
    }
}

/// The treatment of a variant: `NAME=VALUE command args (close, memory interleave, thp=never)`.
fn treatment(
    index: usize,
    spec: &VariantSpec,
    variant: &Variant,
    place: String,
    settings: String,
) -> Treatment {
    let env = variant.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = env.chain(iter::once(format_command(&variant.command))).collect();
    let command = words.join(" ");
    let scheduler = variant.scheduler.as_ref().map(|scheduler| scheduler.label.clone()).unwrap_or_default();
    let shown = if scheduler.is_empty() { String::new() } else { format!("sched={scheduler}") };
    let differences: Vec<&str> = [place.as_str(), shown.as_str(), settings.as_str()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let name = match differences.as_slice() {
        [] => command.clone(),
        parts => format!("{command} ({})", parts.join(", ")),
    };
    let factors = [
        (factor::VARIANT, variant_label(index)),
        (factor::NAME, spec.name.clone().unwrap_or_default()),
        (factor::COMMAND, command),
        (factor::PLACE, place),
        (factor::SCHEDULER, scheduler),
        (factor::SETTINGS, settings),
    ];
    let known = factors.into_iter().filter(|(_, value)| !value.is_empty());
    let known = known.map(|(name, value)| (name.to_owned(), value));
    let parameters = spec.parameters.iter();
    let parameters = parameters.map(|(name, value)| (format!("{}{name}", factor::PARAMETER), value.clone()));
    Treatment { name, workers: 1, factors: known.chain(parameters).collect(), latency: None }
}

/// `close, memory interleave, 4 workers, nice 10`; empty where nothing is placed. Numbers of workers are named where they differ.
fn place_name(spec: &VariantSpec, has_places: bool, has_counts: bool) -> String {
    let unpinned = has_places.then(|| Policy::new(PolicyKind::Free, false).to_string());
    let place = spec.place.as_ref().map(ToString::to_string).or(unpinned);
    let memory = (spec.memory != MemoryPlacement::Default).then(|| format!("memory {}", spec.memory));
    let workers = spec.workers.filter(|_| has_counts).map(|workers| counted(workers, "worker"));
    let nice = spec.nice.map(|nice| format!("nice {nice}"));
    place.into_iter().chain(memory).chain(workers).chain(nice).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_control::scheduler::Scheduler;

    fn spec(place: Option<&str>) -> VariantSpec {
        VariantSpec {
            command: ["gzip", "big log"].map(str::to_owned).to_vec(),
            env: vec![("LANG".to_owned(), "C".to_owned())],
            place: place.map(|place| place.parse().unwrap()),
            workers: Some(4),
            ..VariantSpec::default()
        }
    }

    #[test]
    fn variants_are_raced_where_too_few_rounds_of_all_fit() {
        let comparison = |count: usize| Comparison {
            variants: vec![VariantSpec::default(); count],
            note: None,
            reference: 0,
            precision: None,
        };
        let options = crate::budget::tests::options(Some(60));
        let raced = |count: usize, fitting: f64| is_raced(&options, &comparison(count), fitting);
        assert_eq!(
            [raced(4, 5.0), raced(5, 5.0), raced(5, 30.0), raced(64, 29.0)],
            [false, true, false, true]
        );
        let fixed = Options { rounds: Some(9), ..options };
        assert!(!is_raced(&fixed, &comparison(64), 1.0));
        let note = race_note(&comparison(16), 9);
        assert!(note.starts_with("Only 9 rounds of all 16 variants fit into the budget"), "{note}");
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
        let nice = VariantSpec { nice: Some(10), ..spec(None) };
        assert_eq!(place_name(&nice, false, false), "nice 10");
    }

    #[test]
    fn a_treatment_has_the_command_with_its_environment_and_the_placement() {
        let spec = spec(None);
        let variant =
            Variant { command: spec.command.clone(), env: spec.env.clone(), copies: 1, ..Variant::default() };
        let placed = treatment(1, &spec, &variant, "close".to_owned(), "thp=never".to_owned());
        assert_eq!(placed.name, "LANG=C gzip 'big log' (close, thp=never)");
        assert_eq!(placed.factors[factor::SETTINGS], "thp=never");
        assert_eq!(placed.factors[factor::COMMAND], "LANG=C gzip 'big log'");
        let scheduled = Variant { scheduler: Some(Scheduler::kernel()), ..variant.clone() };
        let scheduled = treatment(1, &spec, &scheduled, "close".to_owned(), String::new());
        assert_eq!(scheduled.name, "LANG=C gzip 'big log' (close, sched=kernel)");
        assert_eq!(scheduled.factors[factor::SCHEDULER], "kernel");
        let plain = treatment(0, &spec, &variant, String::new(), String::new());
        assert_eq!((plain.name.as_str(), plain.factors.len()), ("LANG=C gzip 'big log'", 2));
        let named = VariantSpec { name: Some("packed".to_owned()), ..spec };
        assert_eq!(treatment(1, &named, &variant, String::new(), String::new()).title(), "packed");
    }

    #[test]
    fn treatments_of_the_same_variant_have_different_names() {
        let same = Treatment { name: "true".to_owned(), ..Treatment::default() };
        let mut treatments = vec![same; 3];
        distinguish(&mut treatments);
        let names: Vec<&str> = treatments.iter().map(|treatment| treatment.name.as_str()).collect();
        assert_eq!(names, ["true", "true (again)", "true (again) (again)"]);
    }
}
