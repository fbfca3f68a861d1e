//! The measurement of all requested runtimes and counts.

use crate::{
    cache::ProgramCache,
    cleanup::{Cleanup, ScratchDirectory},
    cost::RunCost,
    cpus::CpuSampler,
    error::{Error, Result},
    feasibility::{self, AvailableMemory, PilotRuns},
    limits,
    options::SpawnOptions,
    runtimes::{self, RuntimeProgram},
    trial::{self, RuntimeInfo, SpawnTrial},
};
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::{
    Record, interrupt,
    session::{Event, Listener, Session},
    spawning::{Ending, Purpose, Runtime, RuntimeRuns, Schedulers, SpawnRun, Work, capacity::MemoryLine},
};
use manycore_text::units;
use manycore_topology::Machine;
use std::time::{Duration, Instant};

/// Light processes started in a run up to the memory limit, if nothing is known about the runtime's memory: a
/// count that every runtime can reach.
const UNPREDICTED_COUNT: u64 = 1_000_000;

/// Measures the request on `machine`, which is this one. Returns the record even if the measurement failed, together
/// with the failure that ended it.
///
/// # Errors
/// [`Error::Unavailable`] if the measurement could not begin.
pub fn run(machine: Machine, options: SpawnOptions, listener: &mut dyn Listener) -> Result<(Record, Result)> {
    let mut measurement = Measurement {
        cache: ProgramCache::open()?,
        cleanup: Cleanup::begin(&options.journal_text())?,
        later_seconds: 0.0,
        available: feasibility::available_memory(),
        session: Session::begin("spawn", machine, 0, 0.0, listener),
        options,
    };
    let ending = measurement.all_runtimes();
    Ok((measurement.session.end(matches!(ending, Err(Error::Interrupted))), ending))
}

/// State of a measurement over all runtimes.
struct Measurement<'a> {
    options: SpawnOptions,
    cache: ProgramCache,
    cleanup: Cleanup,
    /// Memory that a runtime may use, if known.
    available: Option<AvailableMemory>,
    session: Session<'a>,
    /// Planned seconds of the runtimes after the present one.
    later_seconds: f64,
}

impl Measurement<'_> {
    fn all_runtimes(&mut self) -> Result {
        // An impossible control group is reported before the first measurement takes its time.
        if let Some(limit) = self.options.memory_limit.or(self.available_bytes())
            && self.options.needs_memory_group()
        {
            self.memory_group(limit)?.remove().map_err(Error::unavailable)?;
        }
        let mut ending = Ok(());
        let all = self.options.runtimes.clone();
        for (index, &runtime) in all.iter().enumerate() {
            let later = all[index + 1..].iter().map(|&later| self.options.runtime_seconds(later));
            self.later_seconds = later.sum();
            match self.runtime(runtime) {
                Ok(()) => {}
                Err(error) if error.is_missing() || error.is_too_large() => {
                    if self.options.runtimes_given {
                        return Err(error);
                    }
                    self.record_missed(runtime, &error);
                }
                Err(Error::Failed(why)) => {
                    ending = ending.and(Err(Error::Failed(format!("{}: {why}", runtime.name()))));
                }
                Err(error) => return Err(error),
            }
        }
        ending
    }

    /// Measures one runtime and adds the results to the record.
    fn runtime(&mut self, runtime: Runtime) -> Result {
        self.begin_step(&format!("{}: preparing", runtime.name()), self.options.runtime_seconds(runtime));
        let program = runtimes::find(runtime, &self.cache)?;
        feasibility::check_bounds(&self.options, &*program, self.available.as_ref())?;
        let (pilots, cost) = self.pilots(runtime, &*program)?;
        let counts = self.fitting_counts(runtime, &pilots)?;
        let index = self.session.record.light_processes.len();
        if self.options.needs_memory_group() {
            // The runs behind the prediction: requested counts may be too small for it, or killed.
            for run in pilots.runs.clone() {
                self.keep(index, runtime, &*program, pilots.info.clone(), run);
            }
        }
        let mut ending = Ok(());
        for (done, &count) in counts.iter().enumerate() {
            let title = format!("{}: {} {}", runtime.name(), units::count(count), self.work_text());
            self.begin_step(&title, self.options.counts_seconds(cost, &counts[done..]));
            let trial = SpawnTrial {
                work: self.options.work,
                length: self.options.length,
                ..SpawnTrial::idle(count)
            };
            let (info, run) = self.trial(&*program, trial, self.available_bytes())?;
            ending = ending.and(check_ending(&run));
            self.keep(index, runtime, &*program, info, run);
            interrupt::check()?;
        }
        if let Some(limit) = self.options.memory_limit {
            let title = format!("{}: up to the limit of {}", runtime.name(), units::bytes(limit));
            self.begin_step(&title, self.options.counts_seconds(cost, &[]));
            self.up_to_limit(runtime, &*program, &pilots, limit, index)?;
        }
        ending
    }

    /// Returns the counts that will fit. If the user did not name runtimes or did not give counts, the other
    /// counts are recorded as missed, so that every runtime shows what it can.
    fn fitting_counts(&mut self, runtime: Runtime, pilots: &PilotRuns) -> Result<Vec<u64>> {
        let mut fitting = Vec::new();
        let all_required = self.options.runtimes_given && self.options.counts_given;
        for count in self.options.counts.clone() {
            match feasibility::check(&self.options, count, runtime, pilots, self.available.as_ref()) {
                Ok(()) => fitting.push(count),
                Err(error) if error.is_too_large() && !all_required => self.record_missed(runtime, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(fitting)
    }

    /// Records that something of a runtime could not be measured.
    fn record_missed(&mut self, runtime: Runtime, why: &Error) {
        let why = why.to_string();
        // Errors about a count begin with the runtime.
        let why = why.strip_prefix(&format!("{}: ", runtime.name())).unwrap_or(&why);
        self.session.record_missing(&format!("runtime {}", runtime.name()), why);
    }

    /// Makes small runs from which the memory of larger ones is predicted. Returns what runs cost, too.
    fn pilots(&mut self, runtime: Runtime, program: &dyn RuntimeProgram) -> Result<(PilotRuns, RunCost)> {
        let (mut pilots, mut cost) = (PilotRuns::default(), RunCost::typical(runtime));
        let counts = self.options.pilot_counts(runtime);
        let mut seconds = Vec::new();
        for (done, &count) in counts.iter().enumerate() {
            let title = format!("{}: pilot run of {}", runtime.name(), units::count(count));
            let left: f64 = counts[done..].iter().map(|&count| cost.seconds(count)).sum();
            self.begin_step(&title, left + self.options.allowed_seconds(runtime, cost));
            let began = Instant::now();
            let (info, run) = self.trial(program, SpawnTrial::idle(count), self.available_bytes())?;
            check_ending(&run)?;
            interrupt::check()?;
            seconds.push((count, began.elapsed().as_secs_f64()));
            cost = RunCost::typical(runtime).of_runs(&seconds);
            pilots.info = info;
            pilots.runs.push(SpawnRun { purpose: Purpose::Pilot, ..run });
        }
        Ok((pilots, cost))
    }

    /// Starts more than will fit into `limit`, until the limit is reached.
    fn up_to_limit(
        &mut self,
        runtime: Runtime,
        program: &dyn RuntimeProgram,
        pilots: &PilotRuns,
        limit: u64,
        index: usize,
    ) -> Result {
        // One and a half times the predicted count.
        let count = MemoryLine::of(&pilots.runs).map_or(UNPREDICTED_COUNT, |line| line.most(limit));
        let count = count.saturating_add(count / 2).saturating_add(1000);
        let count = program.max_count().map_or(count, |(max_count, _)| count.min(max_count));
        let trial = SpawnTrial { purpose: Purpose::CapacityTest, ..SpawnTrial::idle(count) };
        let (info, run) = self.trial(program, trial, Some(limit))?;
        self.keep(index, runtime, program, info, run);
        Ok(interrupt::check()?)
    }

    /// Returns the memory that a run may use, in bytes.
    fn available_bytes(&self) -> Option<u64> {
        self.available.as_ref().map(|available| available.bytes)
    }

    /// Creates the control group that a run without any other limit needs.
    fn memory_group(&mut self, limit: u64) -> Result<MemoryGroup> {
        self.cleanup.group(limit).map_err(Error::NoMemoryGroup)
    }

    /// Makes one run in a control group of its own if possible. It is required if nothing else limits the
    /// memory.
    fn trial(
        &mut self,
        program: &dyn RuntimeProgram,
        trial: SpawnTrial,
        limit: Option<u64>,
    ) -> Result<(RuntimeInfo, SpawnRun)> {
        let is_required = self.options.beyond_memory || trial.purpose == Purpose::CapacityTest;
        let group = match limit {
            Some(limit) if is_required => Some(self.memory_group(limit)?),
            Some(limit) => match self.cleanup.group(limit) {
                Ok(group) => Some(group),
                Err(why) => {
                    self.note(format!("The runtimes ran without a control group of their own: {why}"));
                    None
                }
            },
            None => None,
        };
        let scratch = match trial.work {
            Work::Io => Some(self.cleanup.scratch(self.options.scratch.as_deref())?),
            _ => None,
        };
        let cpus = CpuSampler::new(&self.session.record.machine);
        let scratch = scratch.as_ref().map(ScratchDirectory::path);
        let waiting = &mut || self.session.report(Event::Waiting);
        let ended = trial::run(program, &trial, group.as_ref(), scratch, &cpus, waiting);
        if let Some(group) = group
            && let Err(error) = group.remove()
        {
            self.note(format!("cannot remove the control group {}: {error}", group.folder().display()));
        }
        let (info, mut run, notes) = ended?;
        run.memory_limit_bytes = run.memory_limit_bytes.and(limit);
        for note in notes {
            self.note(note);
        }
        Ok((info, run))
    }

    /// Adds a note to the record, once.
    fn note(&mut self, note: String) {
        if !self.session.record.notes.contains(&note) {
            self.session.record.notes.push(note);
        }
    }

    /// Adds a run to the entry of its runtime in the record, which has this index.
    fn keep(
        &mut self,
        index: usize,
        runtime: Runtime,
        program: &dyn RuntimeProgram,
        info: RuntimeInfo,
        run: SpawnRun,
    ) {
        let table = info.table;
        if self.session.record.light_processes.len() == index {
            let entry = self.entry(runtime, program, info);
            self.session.record.light_processes.push(entry);
        }
        let entry = &mut self.session.record.light_processes[index];
        let largest = self.options.largest();
        entry.limits = feasibility::limits(runtime, &entry.unit, entry.work, largest);
        if let Some((size, used)) = table {
            entry.limits.push(limits::erlang_processes(size, used, largest));
            entry.limits.sort_by_key(|limit| limit.max_count);
        }
        entry.runs.push(run);
        self.session.report_measured();
    }

    /// Returns an entry of the record without runs.
    fn entry(&self, runtime: Runtime, program: &dyn RuntimeProgram, info: RuntimeInfo) -> RuntimeRuns {
        let allowed = &self.session.record.machine.allowed;
        let option = info.schedulers.map_or_else(String::new, |_| program.option(allowed.cpus.len()));
        let available = self.available.clone().unwrap_or_default();
        RuntimeRuns {
            runtime,
            version: info.version,
            unit: info.unit,
            work: self.options.work,
            schedulers: Schedulers {
                count: info.schedulers,
                binding: info.binding,
                cpus: allowed.cpus.clone(),
                quota_cpus: allowed.quota_cpus,
                option,
            },
            limits: Vec::new(),
            memory_bytes: available.bytes,
            memory_source: available.source,
            runs: Vec::new(),
        }
    }

    /// Reports a step, from which on this runtime is planned to take so many seconds.
    fn begin_step(&mut self, title: &str, seconds: f64) {
        let left = seconds + self.later_seconds;
        self.session.report(Event::Planned(Duration::from_secs_f64(left)));
        self.session.report(Event::Section(title));
    }

    fn work_text(&self) -> &'static str {
        match self.options.work {
            Work::Idle => "held",
            Work::Spin => "computing",
            Work::Io => "working on files",
        }
    }
}

/// Returns an error if a run did not end as planned.
fn check_ending(run: &SpawnRun) -> Result {
    let failed = |why: &str| {
        let [requested, alive] = [run.requested, run.alive].map(units::count);
        Err(Error::Failed(format!("{requested} were requested, {alive} were alive at the end: {why}")))
    };
    match &run.ending {
        Ending::Clean => Ok(()),
        Ending::Refused { why } | Ending::Killed { why } | Ending::Failed { why } => failed(why),
        Ending::Interrupted => Err(Error::Interrupted),
    }
}
