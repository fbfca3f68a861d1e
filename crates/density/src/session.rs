//! Measures the density of a service on this machine: instances, their loads and the search together.
//!
//! A sample is a pair of slices in random order: one in which only the observed instance runs and is loaded, and one in which
//! all of a count do. The observed instance is the first one. Each instance has a load of its own, at the same rate in all
//! slices. Several variants have instances and a search of their own; their
//! pairs alternate in random order.

mod samples;

use crate::{
    Error, Result,
    instances::{Instances, ServiceSpec},
    load::{Capacity, Edge, LoadedSlice},
    options::{DensityOptions, DensityVariant, Rate},
    room, settings,
    slices::{self, Slice, SliceMeter},
};
use manycore_control::setting::SettingSwitch;
use manycore_experiment::{
    Record,
    engine::Rng,
    interrupt,
    record::{Sample, variant_label},
    session::{Event, Listener, Session},
};
use manycore_linux::child;
use manycore_stats::largest_count::Search;
use manycore_text::units::counted;
use manycore_topology::Machine;
use rand::seq::SliceRandom;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// Pairs that do not count because of their loads, after which no larger count is measured.
const MOST_LIMITED: usize = 3;
/// Why a pair does not count.
const NO_REPLY: &str = "no request was answered in a slice: take a higher rate or longer slices";

/// Measures a density. All instances are gone at the end. Returns the record, and how the measurement ended.
///
/// # Errors
/// Those of starting the first instance, and of its load. Later errors are in the result beside the record.
pub fn run(
    machine: Machine,
    options: &DensityOptions,
    listener: &mut dyn Listener,
) -> Result<(Record, Result)> {
    child::allow_many_files();
    let mut session = Session::begin("density", machine, options.seed, 0.0, listener);
    session.record.subject.clone_from(&options.subject);
    session.report(Event::Section("starting the first instance"));
    let mut measurement = Measurement::begin(&mut session, options)?;
    session.record.experiments.push(measurement.experiment(&session));
    let ending = measurement.measure(&mut session);
    let why_none = measurement.not_counted.take().unwrap_or_default();
    session.read_others(&measurement.processes());
    for note in measurement.end() {
        add_note(&mut session, note);
    }
    let has_samples = session.record.experiments.iter().any(|experiment| !experiment.samples.is_empty());
    if !has_samples {
        session.record.experiments.clear();
    }
    let ending = ending.and(if has_samples { Ok(()) } else { Err(Error::NoPair(why_none)) });
    let is_interrupted = matches!(ending, Err(Error::Interrupted));
    Ok((session.end(is_interrupted), ending))
}

/// A variant while it is measured.
struct Trial {
    label: String,
    instances: Instances,
    search: Search,
    /// Pairs in which the client was the limit.
    limited: usize,
    /// Counts that have failed once, and are measured again.
    repeated: BTreeSet<usize>,
    /// Index of the treatment of each count.
    treatments: BTreeMap<usize, usize>,
}

/// What became of a pair.
enum MeasuredPair {
    /// The slices, each with its count.
    Slices(Vec<(usize, Slice)>),
    /// The count failed, with the reason.
    CountFailed(String),
    /// Requests to the lone instance failed, with the reason.
    AloneFailed(String),
}

struct Measurement<'a> {
    options: &'a DensityOptions,
    /// The largest count.
    most: usize,
    /// Switches the settings of the variants, if they have any.
    switch: Option<SettingSwitch>,
    meter: SliceMeter,
    trials: Vec<Trial>,
    /// Why the last pair that does not count does not.
    not_counted: Option<String>,
    /// Requests per second of each instance, and what a lone instance serves in a closed loop.
    rate: (f64, Option<f64>),
    /// Number of pairs so far, of all variants.
    pairs: usize,
    /// When the first one began.
    began: Instant,
}

impl<'a> Measurement<'a> {
    /// Starts the first instance of the first variant, and finds the rate.
    fn begin(session: &mut Session, options: &'a DensityOptions) -> Result<Self> {
        let trial = |(index, variant): (usize, &DensityVariant)| {
            let first_port = options
                .service
                .first_port
                .saturating_add(u16::try_from(index * options.most).unwrap_or(u16::MAX));
            let spec = ServiceSpec { first_port, tuning: variant.tuning.clone(), ..options.service.clone() };
            spec.check()?;
            Ok(Trial {
                label: variant_label(index),
                instances: Instances::new(spec),
                search: options.search(options.most),
                limited: 0,
                repeated: BTreeSet::new(),
                treatments: BTreeMap::new(),
            })
        };
        let mut switch = settings::switch(options)?;
        if let (Some(switch), Some(variant)) = (&mut switch, options.variants.first()) {
            switch.apply(&variant.settings)?;
        }
        let mut trials: Vec<Trial> = options.variants.iter().enumerate().map(trial).collect::<Result<_>>()?;
        let first = trials.first_mut().ok_or_else(|| Error::Alone("there is no variant".to_owned()))?;
        first.instances.set_active(1)?;
        let all: Vec<&Instances> = trials.iter().map(|trial| &trial.instances).collect();
        let (most, shortages) = room::most(&all, options)?;
        let (rate, capacity) = rate(options, &trials[0].instances)?;
        let of_client = capacity.filter(|capacity| capacity.is_of_client).map(|capacity| {
            format!(
                "The load generator used a whole CPU when the lone instance served {:.0} requests/s, so the instance may serve \
                 more: give a --rate.",
                capacity.per_second
            )
        });
        let notes = shortages.into_iter().chain(of_client).chain(options.few_requests(rate));
        for note in notes.chain(options.few_cpus()) {
            add_note(session, note);
        }
        for trial in &mut trials {
            trial.search = options.search(most);
        }
        let cpus = match options.variants.as_slice() {
            [only] => only.tuning.place(0),
            // The figures of several variants are those of the same CPUs: all.
            _ => None,
        };
        let meter = SliceMeter::new(session, cpus, options.load.known_figures())?;
        let rate = (rate, capacity.map(|capacity| capacity.per_second));
        Ok(Self {
            options,
            most,
            switch,
            meter,
            trials,
            not_counted: None,
            rate,
            pairs: 0,
            began: Instant::now(),
        })
    }

    /// Returns the processes of all instances.
    fn processes(&self) -> Vec<u32> {
        self.trials.iter().flat_map(|trial| trial.instances.all_processes()).collect()
    }

    /// Ends all instances, and restores the settings. Returns what could not be ended or restored.
    fn end(mut self) -> Vec<String> {
        let ended = self.trials.into_iter().filter_map(|trial| trial.instances.end());
        let mut left: Vec<String> = ended.collect();
        left.extend(self.switch.as_mut().map(SettingSwitch::restore).unwrap_or_default());
        left
    }

    /// Measures pairs, one of each variant in turn, until all searches have ended.
    fn measure(&mut self, session: &mut Session) -> Result {
        loop {
            let mut open: Vec<usize> =
                (0..self.trials.len()).filter(|&index| self.trials[index].next_count().is_some()).collect();
            if open.is_empty() {
                return Ok(());
            }
            open.shuffle(&mut session.rng);
            for index in open {
                self.report_progress(session, index);
                self.pair(session, index)?;
                session.report_measured();
            }
        }
    }

    /// Begins a sentence about one of several variants; empty where there is only one.
    fn prefix(&self, index: usize) -> String {
        if self.trials.len() > 1 { format!("{}: ", self.trials[index].label) } else { String::new() }
    }

    fn report_progress(&self, session: &mut Session, index: usize) {
        let trial = &self.trials[index];
        let Some(count) = trial.next_count() else { return };
        let name = self.prefix(index);
        let answer = trial.search.answer();
        let fit = match answer.high {
            Some(high) => format!("{} to {high}", answer.low),
            None => format!("{} or more", answer.low),
        };
        let at_once = counted(count, "instance");
        session.report(Event::Section(&format!("{name}{at_once} at once ({fit} fit so far)")));
        let open = self.trials.iter().filter(|trial| trial.next_count().is_some());
        let left: usize = open.map(|trial| self.options.pairs - trial.search.samples()).sum();
        let pair = match self.pairs as u32 {
            0 => self.options.pair_time(),
            pairs => Some(self.began.elapsed() / pairs),
        };
        if let Some(pair) = pair {
            session.report(Event::Remaining(pair * left as u32));
        }
    }

    /// Measures a pair of the variant at `index` at its next count.
    fn pair(&mut self, session: &mut Session, index: usize) -> Result {
        let Some(count) = self.trials[index].next_count() else { return Ok(()) };
        let slices = match self.slices(session, index, count)? {
            MeasuredPair::Slices(slices) => slices,
            MeasuredPair::CountFailed(why) => {
                self.failed(session, index, count, &why);
                return Ok(());
            }
            MeasuredPair::AloneFailed(why) => {
                self.limited(session, index, count, &format!("the lone instance failed: {why}"));
                return Ok(());
            }
        };
        let figure = |wanted: usize| {
            let slice = slices.iter().find(|(count, _)| *count == wanted);
            slice.map_or(0.0, |(_, slice)| slice.observed.figure_ms)
        };
        let has_unit = |slice: &Slice| slice.sample.requests.iter().all(|requests| !requests.unit.is_empty());
        if self.options.bound.limit_ms().is_some() && !slices.iter().all(|(_, slice)| has_unit(slice)) {
            let why =
                "the latencies of its client have no unit: take a bound without one, such as 'p99 < +10%'";
            return Err(Error::Alone(why.to_owned()));
        }
        let sample = self.options.bound.sample(figure(1), figure(count));
        let Some(sample) = sample else {
            self.limited(session, index, count, NO_REPLY);
            return Ok(());
        };
        if let Some(why) = slices::why_not_counted(&slices, self.options.bound, sample) {
            self.limited(session, index, count, why);
            return Ok(());
        }
        self.trials[index].search.add(count, sample);
        let block = self.pairs;
        for (count, slice) in slices {
            self.keep(session, index, count, Sample { block, ..slice.sample });
        }
        self.pairs += 1;
        Ok(())
    }

    /// Measures the lone instance and `count` instances in random order, or one slice if that is the same.
    fn slices(&mut self, session: &mut Session, index: usize, count: usize) -> Result<MeasuredPair> {
        let mut order = if count > 1 { vec![1, count] } else { vec![1] };
        order.shuffle(&mut session.rng);
        let (mut slices, mut failure) = (Vec::new(), None);
        // If the count fails, the lone instance is measured all the same: it may be the reason.
        for count in order {
            interrupt::check().map_err(|_| Error::Interrupted)?;
            match self.slice(session, index, count) {
                Ok(slice) => match slice.failure() {
                    Some(why) if count > 1 => failure = Some(why),
                    // One failed request does not end a search that has gone well so far.
                    Some(why) if self.pairs > 0 => return Ok(MeasuredPair::AloneFailed(why)),
                    Some(why) => return Err(Error::Alone(why)),
                    None => slices.push((count, slice)),
                },
                // A client that got no reply prints no latencies.
                Err(error)
                    if count > 1 && (error.is_of_count() || self.pairs > 0 && error.is_of_output()) =>
                {
                    self.trials[index].instances.remove_ended();
                    failure = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(failure.map_or(MeasuredPair::Slices(slices), MeasuredPair::CountFailed))
    }

    /// Notes that a count failed: if it fails again, it is above the bound.
    fn failed(&mut self, session: &mut Session, index: usize, count: usize, why: &str) {
        let name = self.prefix(index);
        if self.trials[index].repeated.insert(count) {
            add_note(
                session,
                format!("{name}the measurement of {count} instances failed, and is repeated: {why}"),
            );
            return;
        }
        self.trials[index].search.fail(count);
        session.report(Event::Note(&format!("{name}{count} instances count as above the bound: {why}")));
        self.keep_failure(session, index, count, why);
        self.pairs += 1;
    }

    /// Notes that a pair does not count.
    fn limited(&mut self, session: &mut Session, index: usize, count: usize, why: &str) {
        let why = format!("with {}, {why}", counted(count, "instance"));
        let trial = &mut self.trials[index];
        trial.limited += 1;
        if trial.limited == MOST_LIMITED {
            let note =
                format!("{MOST_LIMITED} pairs do not count, and the search ended. In the last one, {why}.");
            add_note(session, note);
        }
        self.not_counted = Some(why);
    }

    /// Loads the first `count` instances of a variant under its settings; those of all others are stopped.
    fn slice(&mut self, session: &mut Session, index: usize, count: usize) -> Result<Slice> {
        if let Some(switch) = &mut self.switch {
            switch.apply(&self.options.variants[index].settings)?;
        }
        for (other, trial) in self.trials.iter_mut().enumerate() {
            trial.instances.remove_ended();
            trial.instances.set_active(if other == index { count } else { 0 })?;
        }
        let instances = &mut self.trials[index].instances;
        let servers = instances.servers();
        let options = self.options;
        let slice = LoadedSlice {
            servers: &servers,
            per_second: self.rate.0,
            times: options.times,
            figure: options.bound.figure,
            cpus: &options.load_cpus,
        };
        let load = |rng: &mut Rng, edge: &mut dyn FnMut(Edge)| options.load.run(&slice, rng, edge);
        let slice = self.meter.measure(session, instances, load);
        // An instance that ended is the reason for failures of its load.
        instances.check()?;
        let in_force = self.switch.as_ref().map_or(Ok(()), SettingSwitch::check);
        slice.and_then(|slice| Ok(in_force.map(|()| slice)?))
    }
}

impl Trial {
    /// Returns the count that is measured next; `None` at the end.
    fn next_count(&self) -> Option<usize> {
        self.search.next_count().filter(|_| self.limited < MOST_LIMITED)
    }
}

/// Returns the requests per second of each instance, and the capacity of a lone one, if the rate is a share of it.
fn rate(options: &DensityOptions, instances: &Instances) -> Result<(f64, Option<Capacity>)> {
    match options.rate {
        Rate::PerSecond(rate) => Ok((rate, None)),
        Rate::ShareOfCapacity(share) => {
            let server = instances.servers()[0];
            let capacity = options.load.capacity(server, options.times, &options.load_cpus)?;
            Ok((share * capacity.map_or(0.0, |capacity| capacity.per_second), capacity))
        }
    }
}

/// Reports a note, and keeps it.
fn add_note(session: &mut Session, note: String) {
    session.report(Event::Note(&note));
    session.record.notes.push(note);
}
