//! Searches numbers of workers, placements, SMT use and memory policies for the best ones for a command, and confirms
//! the result.

use crate::{
    Options, Study,
    candidates::{self, Candidate},
    error::{Error, Result},
    life::Hooks,
    race::{self, Entrant, Race, RunSeconds},
    scheduler::SchedulerChoice,
};
use manycore_analysis::{BASELINE, Evaluation, is_confirmed};
use manycore_experiment::{
    Record,
    record::{Treatment, factor, id},
    session::{Event, Listener},
};
use manycore_placement::{MemoryPlacement, PlacementPlan, Policy};
use manycore_topology::Machine;
use std::collections::BTreeMap;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// Program and arguments, in which `{workers}` is replaced.
    pub command: Vec<String>,
    /// Numbers of workers to try; the default ones if there are none.
    pub workers: Vec<usize>,
    /// Placements to try; those that differ on this machine if there are none.
    pub place: Vec<Policy>,
    /// Memory policies to try; those that differ on this machine if there are none.
    pub memory: Vec<MemoryPlacement>,
    /// Names of the settings of the machine whose values are tried.
    pub settings: Vec<String>,
    /// Schedulers to try beside the kernel's own one.
    pub schedulers: Vec<SchedulerChoice>,
    /// Commands around the runs, in which `{workers}` is replaced.
    pub hooks: Hooks,
    /// Workers that the command has today; the usable CPUs where it is absent.
    pub today: Option<usize>,
}

/// The result of a search.
#[derive(Debug)]
pub struct Tuned {
    /// What was measured.
    pub record: Record,
    /// The plan that the record shows to be better than today's behaviour.
    pub winner: Option<PlacementPlan>,
}

/// Number of candidates that are confirmed on fresh pairs.
const FINALISTS: usize = 2;

/// Searches on `machine`, which is this one. The result comes back with how the run ended.
///
/// # Errors
/// What makes the measurement impossible; nothing was measured then.
pub fn run(
    machine: Machine,
    options: &Options,
    search: &Search,
    listener: &mut dyn Listener,
) -> Result<(Tuned, Result)> {
    let mut candidates =
        candidates::candidates(search, options.service.as_ref(), &machine, &machine.usable())?;
    candidates::resolve_schedulers(&mut candidates, &options.cluster_loader);
    let variants = candidates.iter().map(|candidate| candidate.variant.clone()).collect();
    let mut study = Study::begin("tune", machine, options, &search.command, variants, listener)?;
    let ending = search_and_confirm(options, &mut study, &candidates);
    let (record, ending) = study.end(ending);
    let winner = ending.as_ref().ok().and_then(|()| winner(&record, &candidates)?.plan.clone());
    Ok((Tuned { record, winner }, ending))
}

/// Runs each candidate once, and races those that succeed.
fn search_and_confirm(options: &Options, study: &mut Study, candidates: &[Candidate]) -> Result {
    let (today, others) = candidates.split_first().ok_or(Error::NoCandidates)?;
    let found = format!("{} candidates differ on this machine, beside today's behaviour", others.len());
    study.session.report(Event::Note(&found));
    study.subject.set_variants(vec![today.variant.clone()]);
    let one: f64 = study.warm_up_and_time(options, "round", candidates.len())?.iter().sum();
    let others = others.iter().map(|candidate| entrant(study, candidate, "candidate")).collect();
    let (others, all) = race::run_each_once(options, study, others, FINALISTS)?;
    let race = Race {
        reference: entrant(study, today, BASELINE),
        others,
        finalists: FINALISTS,
        ids: [id::TUNE, id::TUNE_CONFIRM],
        parameters: BTreeMap::new(),
    };
    race.run(options, study, RunSeconds { reference: one, others: all }, &mut is_confirmed)
}

fn entrant(study: &Study, candidate: &Candidate, role: &str) -> Entrant {
    let scheduler = candidate.variant.scheduler.as_ref().map(|scheduler| scheduler.label.as_str());
    let scheduler_name = study.subject.scheduler_name(&candidate.variant).map(String::as_str);
    let factors = [
        (factor::VARIANT, role),
        (factor::COMMAND, candidate.command_line.as_str()),
        (factor::SETTINGS, candidate.settings.as_str()),
        (factor::SCHEDULER, scheduler.unwrap_or_default()),
        (factor::SCHEDULER_NAME, scheduler_name.unwrap_or_default()),
    ];
    let known = factors.into_iter().filter(|(name, value)| *name == factor::COMMAND || !value.is_empty());
    Entrant {
        variant: candidate.variant.clone(),
        treatment: Treatment {
            name: candidate.name.clone(),
            workers: candidate.workers,
            factors: known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            latency: None,
        },
    }
}

/// The candidate that the record shows to be better than today's behaviour.
fn winner<'a>(record: &Record, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
    let tuning = Evaluation::from_record(record).tuning?;
    let name = &tuning.finalists.get(tuning.winner?)?.name;
    candidates.iter().find(|candidate| candidate.name == *name)
}
