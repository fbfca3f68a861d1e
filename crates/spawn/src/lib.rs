//! Measurement of light processes by the hundred thousand: the time and memory that starting, holding and
//! ending them takes.
//!
//! Each count has a fresh runtime (`runtimes`, `session`), so that none profits from what the one before has
//! allocated. What would not fit is refused before it is started (`fit`); a control group bounds the rest
//! (`cleanup`). What is said between us and a runtime is in `protocol`; [`light`] are the runtimes of our own.
#![forbid(unsafe_code)]

mod cache;
pub mod ceilings;
mod cleanup;
mod cpus;
pub mod error;
mod fit;
pub mod light;
mod protocol;
mod runtimes;
mod session;
mod trial;

pub use error::{Error, Result};

use cache::Cache;
use cleanup::{Cleanup, ScratchDirectory};
use fit::Pilots;
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::{
    Record,
    spawning::{Ending, Purpose, Run, Runtime, Schedulers, Spawning, Work, ceiling::Line},
};
use manycore_experiment::{
    interrupt,
    session::{Event, Listener, Session},
};
use manycore_text::units;
use manycore_topology::Machine;
use runtimes::Program;
use std::{path::PathBuf, time::Duration};
use trial::{Trial, Versed};

/// Usual seconds of a run without its work.
const RUN_SECONDS: f64 = 2.0;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Runtimes, without duplicates.
    pub runtimes: Vec<Runtime>,
    /// Whether the user named the runtimes. If not, missing runtimes are not an error.
    pub named: bool,
    /// Whether the user gave the counts. If not, counts that do not fit are not an error.
    pub chosen: bool,
    /// Number of light processes of each run, at least one.
    pub counts: Vec<u64>,
    /// Work of each light process.
    pub work: Work,
    /// How long they work.
    pub length: Duration,
    /// Directory below which files are created.
    pub scratch: Option<PathBuf>,
    /// Memory limit, in bytes, up to which light processes are started to find out how many fit.
    pub ceiling: Option<u64>,
    /// Whether to start counts that will not fit, too.
    pub force: bool,
}

impl Asked {
    /// Returns the largest count.
    fn largest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

/// State of a measurement over all runtimes.
struct Stage<'a> {
    asked: Asked,
    cache: Cache,
    cleanup: Cleanup,
    /// Memory that a runtime may use, in bytes, with its source.
    room: Option<(u64, String)>,
    session: Session<'a>,
    /// Completed steps, and the number of all steps.
    done: (usize, usize),
}

/// Measures the request on the running machine. Returns the record even if the run failed, together with the
/// failure that ended it.
///
/// # Errors
/// [`Error::Unavailable`] where nothing could be begun.
pub fn run(machine: Machine, asked: Asked, listener: &mut dyn Listener) -> Result<(Record, Result)> {
    let mut stage = Stage {
        cache: Cache::open()?,
        cleanup: Cleanup::begin(&what(&asked))?,
        done: (0, runs(&asked)),
        asked,
        room: fit::memory(),
        session: Session::begin("spawn", machine, 0, 0.0, listener),
    };
    let ending = stage.perform();
    Ok((stage.session.end(matches!(ending, Err(Error::Interrupted))), ending))
}

/// Number of runs, the pilots of a runtime counted as one.
fn runs(asked: &Asked) -> usize {
    asked.runtimes.len() * (asked.counts.len() + usize::from(asked.ceiling.is_some()) + 1)
}

/// Seconds that a run is expected to take.
pub fn seconds(asked: &Asked) -> f64 {
    let work = if asked.work == Work::Idle { 0.0 } else { asked.length.as_secs_f64() };
    runs(asked) as f64 * RUN_SECONDS + (asked.runtimes.len() * asked.counts.len()) as f64 * work
}

/// Returns the request as text for the journal: `spawn beam,go idle`.
fn what(asked: &Asked) -> String {
    let names: Vec<&str> = asked.runtimes.iter().map(|runtime| runtime.name()).collect();
    let work = match asked.work {
        Work::Idle => "idle",
        Work::Spin => "spin",
        Work::Io => "io",
    };
    format!("spawn {} {work}", names.join(","))
}

impl Stage<'_> {
    fn perform(&mut self) -> Result {
        // An impossible control group is reported before the first measurement takes its time.
        if let Some(limit) = self.asked.ceiling.or(self.most_memory().filter(|_| self.asked.force)) {
            self.bounded(limit)?.remove().map_err(Error::unavailable)?;
        }
        let mut ending = Ok(());
        for runtime in self.asked.runtimes.clone() {
            match self.runtime(runtime) {
                Ok(()) => {}
                Err(failure @ (Error::Unavailable(_) | Error::Invalid(_))) if self.asked.named => {
                    return Err(failure);
                }
                Err(Error::Unavailable(why) | Error::Invalid(why)) => self.miss(runtime, &why),
                Err(Error::Failed(why)) => {
                    ending = ending.and(Err(Error::Failed(format!("{}: {why}", runtime.name()))));
                }
                Err(failure) => return Err(failure),
            }
        }
        ending
    }

    /// Measures one runtime and adds the results to the record.
    fn runtime(&mut self, runtime: Runtime) -> Result {
        self.begin(&format!("{}: preparing", runtime.name()));
        let program = runtimes::find(runtime, &self.cache)?;
        fit::check_bounds(&self.asked, &*program, self.room.as_ref())?;
        let pilots = self.pilots(runtime, &*program)?;
        let counts = self.fitting(runtime, &pilots)?;
        let place = self.session.record.spawnings.len();
        if self.asked.ceiling.is_some() || self.asked.force {
            // The runs behind the prediction: requested counts may be too small for it, or killed.
            for run in pilots.runs.clone() {
                self.keep(place, runtime, &*program, pilots.versed.clone(), run);
            }
        }
        let mut ending = Ok(());
        for count in counts {
            self.begin(&format!("{}: {} {}", runtime.name(), units::count(count), self.doing()));
            let trial = Trial { work: self.asked.work, length: self.asked.length, ..Trial::of(count) };
            let (versed, run) = self.trial(&*program, trial, self.most_memory())?;
            ending = ending.and(judge(&run));
            self.keep(place, runtime, &*program, versed, run);
            interrupt::check()?;
        }
        if let Some(limit) = self.asked.ceiling {
            self.ceiling(runtime, &*program, &pilots, limit, place)?;
        }
        ending
    }

    /// Returns the counts that will fit. If the user did not name runtimes or did not give counts, the other
    /// counts are recorded as missed, so that every runtime shows what it can.
    fn fitting(&mut self, runtime: Runtime, pilots: &Pilots) -> Result<Vec<u64>> {
        let mut fitting = Vec::new();
        for count in self.asked.counts.clone() {
            match fit::check(&self.asked, count, runtime, pilots, self.room.as_ref()) {
                Ok(()) => fitting.push(count),
                Err(Error::Invalid(why)) if !self.asked.named || !self.asked.chosen => {
                    self.miss(runtime, &why);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(fitting)
    }

    /// Records that something of a runtime could not be measured.
    fn miss(&mut self, runtime: Runtime, why: &str) {
        self.session.miss(&format!("runtime {}", runtime.name()), &why);
    }

    /// Small runs, by which the memory of larger ones is foretold.
    fn pilots(&mut self, runtime: Runtime, program: &dyn Program) -> Result<Pilots> {
        let large = program.pilot();
        let needed = self.asked.ceiling.is_some() || self.asked.largest() > large;
        let mut pilots = Pilots::default();
        for count in [large / 10, large].into_iter().filter(|_| needed) {
            self.begin(&format!("{}: pilot run of {}", runtime.name(), units::count(count)));
            let (versed, run) = self.trial(program, Trial::of(count), self.most_memory())?;
            judge(&run)?;
            interrupt::check()?;
            pilots.versed = versed;
            pilots.runs.push(Run { purpose: Purpose::Pilot, ..run });
        }
        Ok(pilots)
    }

    /// Starts more than will fit into `limit`, until the limit is reached.
    fn ceiling(
        &mut self,
        runtime: Runtime,
        program: &dyn Program,
        pilots: &Pilots,
        limit: u64,
        place: usize,
    ) -> Result {
        self.begin(&format!("{}: up to the limit of {}", runtime.name(), units::bytes(limit)));
        // One and a half times the predicted count, or a count that every runtime can reach if there is no
        // prediction.
        let count = Line::of(&pilots.runs).map_or(1_000_000, |line| line.most(limit));
        let count = count.saturating_add(count / 2).saturating_add(1000);
        let count = program.most().map_or(count, |(most, _)| count.min(most));
        let trial = Trial { purpose: Purpose::Ceiling, ..Trial::of(count) };
        let (versed, run) = self.trial(program, trial, Some(limit))?;
        self.keep(place, runtime, program, versed, run);
        Ok(interrupt::check()?)
    }

    /// Returns the memory that a run may use, in bytes.
    fn most_memory(&self) -> Option<u64> {
        self.room.as_ref().map(|(bytes, _)| *bytes)
    }

    /// Creates the control group that a run without any other limit needs.
    fn bounded(&mut self, limit: u64) -> Result<MemoryGroup> {
        let option = if self.asked.force { "--beyond-memory" } else { "--ceiling" };
        self.cleanup.group(limit).map_err(|why| {
            Error::unavailable(format!("{option} needs a control group with a memory limit: {why}"))
        })
    }

    /// Makes one run in a control group of its own if possible. It is required if nothing else limits the
    /// memory.
    fn trial(&mut self, program: &dyn Program, trial: Trial, limit: Option<u64>) -> Result<(Versed, Run)> {
        let must = self.asked.force || trial.purpose == Purpose::Ceiling;
        let group = match limit {
            Some(limit) if must => Some(self.bounded(limit)?),
            Some(limit) => match self.cleanup.group(limit) {
                Ok(group) => Some(group),
                Err(why) => {
                    self.note(format!("The runtimes ran without a control group of their own: {why}"));
                    None
                }
            },
            None => None,
        };
        let folder = match trial.work {
            Work::Io => Some(self.cleanup.scratch(self.asked.scratch.as_deref())?),
            _ => None,
        };
        let cpus = cpus::Watched::of(&self.session.record.machine);
        let ended =
            trial::run(program, &trial, group.as_ref(), folder.as_ref().map(ScratchDirectory::path), &cpus);
        if let Some(group) = group
            && let Err(error) = group.remove()
        {
            self.note(format!("cannot remove the control group {}: {error}", group.folder().display()));
        }
        let (versed, mut run, notes) = ended?;
        run.memory_limit_bytes = run.memory_limit_bytes.and(limit);
        for note in notes {
            self.note(note);
        }
        Ok((versed, run))
    }

    /// Adds a note to the record, once.
    fn note(&mut self, note: String) {
        if !self.session.record.notes.contains(&note) {
            self.session.record.notes.push(note);
        }
    }

    /// Adds a run to the record.
    fn keep(&mut self, place: usize, runtime: Runtime, program: &dyn Program, versed: Versed, run: Run) {
        if self.session.record.spawnings.len() == place {
            let allowed = &self.session.record.machine.allowed;
            let option = versed.schedulers.map_or_else(String::new, |_| program.option(allowed.cpus.len()));
            self.session.record.spawnings.push(Spawning {
                runtime,
                version: versed.version,
                unit: versed.unit,
                work: self.asked.work,
                schedulers: Schedulers {
                    count: versed.schedulers,
                    binding: versed.binding,
                    cpus: allowed.cpus.clone(),
                    quota_cpus: allowed.quota_cpus,
                    option,
                },
                limits: Vec::new(),
                memory_bytes: self.room.as_ref().map_or(0, |(bytes, _)| *bytes),
                memory_source: self.room.as_ref().map_or_else(String::new, |(_, source)| source.clone()),
                runs: Vec::new(),
            });
        }
        let spawning = &mut self.session.record.spawnings[place];
        let largest = self.asked.largest();
        spawning.limits = fit::limits(runtime, &spawning.unit, spawning.work, largest);
        if let Some((places, taken)) = versed.table {
            spawning.limits.push(ceilings::erlang_processes(places, taken, largest));
            spawning.limits.sort_by_key(|limit| limit.room);
        }
        spawning.runs.push(run);
        self.session.measured();
    }

    fn begin(&mut self, what: &str) {
        let (done, all) = self.done;
        let left = seconds(&self.asked) * (1.0 - done as f64 / all.max(1) as f64);
        self.session.tell(Event::Left(Duration::from_secs_f64(left)));
        self.session.tell(Event::Section(what));
        self.done = ((done + 1).min(all), all);
    }

    fn doing(&self) -> &'static str {
        match self.asked.work {
            Work::Idle => "held",
            Work::Spin => "computing",
            Work::Io => "working on files",
        }
    }
}

/// Returns an error if a run did not end as planned.
fn judge(run: &Run) -> Result {
    let failed = |why: &str| {
        let [asked, alive] = [run.asked, run.alive].map(units::count);
        Err(Error::Failed(format!("{asked} were requested, {alive} were alive at the end: {why}")))
    };
    match &run.ending {
        Ending::Clean => Ok(()),
        Ending::Refused { why } | Ending::Killed { why } | Ending::Failed { why } => failed(why),
        Ending::Interrupted => Err(Error::Interrupted),
    }
}
