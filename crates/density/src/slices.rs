//! One slice: the loads of all instances, and what the machine counted around them.

use crate::{
    Error, Result,
    instances::Instances,
    load::{Edge, LoadOutcome, failure_of},
    resources::{ResourceReader, ResourceSnapshot},
};
use manycore_experiment::{
    counters::{CounterReader, CounterSnapshot},
    engine::Rng,
    record::{CLIENT_PART, CounterDelta, Direction, Metric, Sample},
    session::Session,
    tail_bound::{LatencyFigure, TailBound},
};
use manycore_linux::{clock, tasks};
use manycore_topology::CpuSet;
use std::{path::Path, rc::Rc};

/// Why a pair does not count.
const CLIENT_LIMITED: &str = "a load generator used a whole CPU or sent its requests much too late: take a lower rate, or \
                              more CPUs for the loads";
/// The same.
const ALONE_OVERLOADED: &str = "the lone instance served less than the rate of its load, so that its latency is no reference: take a lower rate";

/// What was measured in a slice.
#[derive(Clone, Debug)]
pub struct Slice {
    /// What the load of the observed instance measured.
    pub observed: LoadOutcome,
    /// The others.
    others: Vec<LoadOutcome>,
    /// The sample for the record, without block and treatment.
    pub sample: Sample,
}

impl Slice {
    /// Returns why the slice does not count, if requests failed.
    pub fn failure(&self) -> Option<String> {
        failure_of(std::iter::once(&self.observed).chain(&self.others))
    }

    /// Whether the client of the observed instance, and not the instance, limited its rate, or sent much too late.
    pub fn is_client_limited(&self) -> bool {
        self.observed.is_client_limited || self.observed.is_behind
    }

    /// Whether another instance got less load than it should have.
    pub fn is_underloaded(&self) -> bool {
        self.others.iter().any(|outcome| outcome.is_behind || outcome.is_client_limited)
    }
}

/// Returns why a pair of slices, each with its count, does not count if its loads were not what they should be. `sample` is
/// that of [`TailBound::sample`].
pub fn why_not_counted(pair: &[(usize, Slice)], bound: TailBound, sample: f64) -> Option<&'static str> {
    // What is above the bound although others got less load is above it all the more.
    let is_underloaded = sample <= bound.log_limit() && pair.iter().any(|(_, slice)| slice.is_underloaded());
    if is_underloaded || pair.iter().any(|(_, slice)| slice.is_client_limited()) {
        return Some(CLIENT_LIMITED);
    }
    let is_overloaded = |(count, slice): &(usize, Slice)| *count == 1 && slice.observed.is_overloaded;
    (bound.limit_ms().is_none() && pair.iter().any(is_overloaded)).then_some(ALONE_OVERLOADED)
}

/// All counters at one edge of a slice.
struct Counted {
    at_ns: u64,
    /// CPU time of the instances and of this process.
    cpu_ns: u64,
    counters: CounterSnapshot,
    resources: ResourceSnapshot,
}

/// Measures slices.
#[derive(Debug)]
pub struct SliceMeter {
    counters: Rc<CounterReader>,
    resources: ResourceReader,
    origin_ns: u64,
    known: ClientFigures,
}

/// Which figures of the client of the observed instance are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFigures {
    /// Its own part of the latency.
    pub part: bool,
    /// Its CPU time.
    pub cpus: bool,
}

impl ClientFigures {
    /// Returns the metrics that are known.
    fn metrics(self) -> impl Iterator<Item = Metric> {
        let part = self.part.then_some((CLIENT_PART, "%"));
        let cpus = self.cpus.then_some(("client CPU", "CPUs"));
        let metric = |(name, unit): (&str, &str)| Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better: Direction::Lower,
        };
        part.into_iter().chain(cpus).map(metric)
    }

    /// Returns the values of these metrics.
    fn values(self, outcome: &LoadOutcome) -> impl Iterator<Item = f64> {
        let part = self.part.then(|| 100.0 * outcome.own_share.unwrap_or_default());
        let cpus = self.cpus.then(|| outcome.client_cpus.unwrap_or_default());
        part.into_iter().chain(cpus)
    }
}

impl SliceMeter {
    /// `cpus` are those to which the observed instance is bound, if it is. `known` are the figures that its load has.
    ///
    /// # Errors
    /// [`Error::Resources`]: the kernel's files cannot be read.
    pub fn new(session: &Session, cpus: Option<&CpuSet>, known: ClientFigures) -> Result<Self> {
        let resources = ResourceReader::new(session.machine(), cpus, Path::new("/"));
        Ok(Self {
            counters: Rc::clone(&session.counter_reader),
            resources: resources.map_err(Error::Resources)?,
            origin_ns: session.origin_ns,
            known,
        })
    }

    /// Returns the metrics of each sample, the figure of the bound first.
    pub fn metrics(&self, figure: LatencyFigure) -> Vec<Metric> {
        let metric =
            |name: &str, unit: &str, better| Metric { name: name.to_owned(), unit: unit.to_owned(), better };
        let mut metrics = vec![
            metric(&figure.to_string(), "ms", Direction::Lower),
            metric("replies", "requests/s", Direction::Higher),
        ];
        metrics.extend(self.known.metrics());
        metrics.extend(self.resources.metrics());
        metrics
    }

    /// Runs `load` on the running instances, and reads the kernel's counters at its edges.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn measure(
        &self,
        session: &mut Session,
        instances: &Instances,
        load: impl FnOnce(&mut Rng, &mut dyn FnMut(Edge)) -> Result<Vec<LoadOutcome>>,
    ) -> Result<Slice> {
        let processes = instances.processes();
        let cpu_ns = || -> u64 {
            let all = processes.iter().flatten().copied().chain([std::process::id()]);
            all.filter_map(|pid| Some(tasks::usage(pid)?.cpu_ns)).sum()
        };
        let read = || {
            let at_ns = clock::now_ns();
            let counters = self.counters.snapshot(&[], at_ns);
            Counted {
                at_ns,
                cpu_ns: cpu_ns(),
                counters,
                resources: self.resources.snapshot(&processes[0], None),
            }
        };
        let (mut begin, mut end) = (None, None);
        let outcomes = load(&mut session.rng, &mut |edge| match edge {
            Edge::Begin => begin = Some(read()),
            Edge::End => end = Some(read()),
        });
        let outcomes = outcomes?;
        // A load that succeeds has both.
        let begin = begin.unwrap_or_else(read);
        let end = end.unwrap_or_else(read);
        let counted = self.counters.delta(&begin.counters, &end.counters);
        let wall_ns = (end.at_ns - begin.at_ns).max(1);
        let mut outcomes = outcomes.into_iter();
        let observed = outcomes.next().unwrap_or_default();
        let mut values = vec![observed.figure_ms, observed.rate];
        values.extend(self.known.values(&observed));
        values.extend(self.resources.values(&begin.resources, &end.resources));
        let sample = Sample {
            start_ns: begin.at_ns - self.origin_ns,
            wall_ns,
            work: observed.rate * wall_ns as f64 / 1e9,
            values,
            requests: observed.requests.clone().into_iter().collect(),
            counters: CounterDelta { cpu_ns: Some(end.cpu_ns.saturating_sub(begin.cpu_ns)), ..counted },
            ..Sample::default()
        };
        Ok(Slice { observed, others: outcomes.collect(), sample })
    }
}
