//! The load of each instance during a slice: the generator of this program, or a client that is started for each instance.

use crate::{
    Error, Result,
    clients::{self, ClientLoad},
    hosts::{self, LoadHosts},
    remote_load,
    slices::ClientFigures,
};
use manycore_experiment::{
    interrupt,
    metric::LoadModel,
    record::{RequestTimes, parameter},
    tail_bound::LatencyFigure,
};
use manycore_load::{
    ArrivalPattern, Arrivals, LoadRequest, LoadResult, Template,
    batch::{LoadBatch, PlacedLoad},
};
use manycore_topology::CpuSet;
use rand::{Rng, RngExt};
use std::{net::SocketAddr, time::Duration};

/// Nanoseconds of a millisecond.
const MS: f64 = 1e6;
/// Share of a CPU from which the thread of a load is the limit of its rate.
pub(crate) const CLIENT_LIMIT: f64 = 0.95;
/// Mean time in ms by which a generator may send its requests too late. Its instance gets another load than the others
/// otherwise.
const MOST_LATE_MS: f64 = 10.0;
/// Share of the requests of a slice that may wait for a connection when it ends. If there are more, the instance serves less than
/// the rate, and its latency is the age of a queue that grows.
const MOST_QUEUED: f64 = 0.1;

/// Why a slice does not count in which an instance has replied to nothing.
const SILENT: &str = "there was no reply in a slice: the service accepts connections and does not reply to this load, or a reply \
                      takes longer than a slice, and the slices must be longer";

/// How instances are loaded.
#[derive(Clone, Debug)]
pub enum InstanceLoad {
    /// The generator of this program, in an open loop.
    Generator {
        /// The request.
        template: Template,
        /// Connections to each instance.
        connections: usize,
        /// Requests that a connection has at a time, at most.
        pipeline: usize,
        /// How requests are distributed in time.
        pattern: ArrivalPattern,
        /// Where it runs.
        hosts: LoadHosts,
    },
    /// A client for each instance.
    Clients(ClientLoad),
}

/// The moments at which counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The loads begin.
    Begin,
    /// That of the observed instance has ended.
    End,
}

/// What is measured in a slice.
#[derive(Clone, Copy, Debug)]
pub struct SliceTimes {
    /// Its length.
    pub length: Duration,
    /// Time before it, under the same load, that does not count.
    pub settle: Duration,
}

/// A slice as loads get it.
#[derive(Clone, Copy, Debug)]
pub struct LoadedSlice<'a> {
    /// Where the instances serve, the observed one first.
    pub servers: &'a [SocketAddr],
    /// Requests per second to each instance. Clients have a rate of their own.
    pub per_second: f64,
    /// Its length.
    pub times: SliceTimes,
    /// The figure of the bound.
    pub figure: LatencyFigure,
    /// CPUs of the loads; not bound if empty.
    pub cpus: &'a CpuSet,
}

/// What a load of an instance measured.
#[derive(Clone, Debug, Default)]
pub struct LoadOutcome {
    /// The figure of the bound in ms; 0 without requests.
    pub figure_ms: f64,
    /// The latencies in ms, where they are known.
    pub requests: Option<RequestTimes>,
    /// Replies without an error per second.
    pub rate: f64,
    /// Requests that failed.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// Share of the latency that is the client's own, where it is known.
    pub own_share: Option<f64>,
    /// CPU time of the client, as a number of CPUs.
    pub client_cpus: Option<f64>,
    /// Whether the client, and not the instance, limits the rate: it has used all CPU time that it can use.
    pub is_client_limited: bool,
    /// Whether the client sent its requests much too late, or not at all.
    pub is_behind: bool,
    /// Whether the instance serves less than the rate.
    pub is_overloaded: bool,
    /// The number of requests, if the instance has replied to none of them; otherwise 0. The figure is then how long replies
    /// were waited for.
    pub all_unanswered: u64,
}

impl LoadOutcome {
    fn new(result: &LoadResult, times: SliceTimes, figure: LatencyFigure) -> Self {
        let ns = match figure {
            LatencyFigure::Mean => result.latency.mean(),
            LatencyFigure::Quantile(q) => result.latency_ns(q) as f64,
        };
        let client_cpus = result.cpu.as_secs_f64() / (times.settle + times.length).as_secs_f64();
        Self {
            figure_ms: ns / MS,
            requests: request_times(result),
            rate: result.rate(),
            failed: result.failed,
            first_failure: result.first_failure.clone(),
            own_share: Some(result.own_share()),
            client_cpus: Some(client_cpus),
            is_client_limited: client_cpus > CLIENT_LIMIT,
            is_behind: result.own.mean() / MS > MOST_LATE_MS,
            is_overloaded: result.queued as f64 > MOST_QUEUED * result.intended as f64,
            all_unanswered: if result.answered + result.failed + result.replies == 0 {
                result.intended
            } else {
                0
            },
        }
    }
}

/// Returns the latencies as points of their distribution. `None` without requests.
fn request_times(result: &LoadResult) -> Option<RequestTimes> {
    let mut sum = 0;
    let points = result.latency.iter_recorded().map(|bucket| {
        sum += bucket.count_since_last_iteration();
        (bucket.value_iterated_to() as f64 / MS, sum as f64)
    });
    RequestTimes::new("", "ms", result.latency.len() as f64, points.collect()).ok()
}

impl InstanceLoad {
    /// Returns what describes it in a record.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let hosts = Some(self.hosts()).filter(|hosts| !hosts.is_local());
        let hosts = hosts.map(|hosts| (parameter::LOAD_HOSTS, hosts.names()));
        self.generator_parameters().into_iter().chain(hosts).collect()
    }

    /// Returns which figures of clients are known. Other programs do not say what part of a latency is their own, and on other
    /// hosts their CPU time is unknown.
    pub(crate) fn known_figures(&self) -> ClientFigures {
        match self {
            Self::Generator { .. } => ClientFigures { part: true, cpus: true },
            Self::Clients(load) => ClientFigures { part: false, cpus: load.hosts().is_local() },
        }
    }

    fn hosts(&self) -> &LoadHosts {
        match self {
            Self::Generator { hosts, .. } => hosts,
            Self::Clients(load) => load.hosts(),
        }
    }

    fn generator_parameters(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Generator { connections, pipeline, pattern, .. } => vec![
                (parameter::ARRIVALS, pattern.name().to_owned()),
                (parameter::CONNECTIONS, connections.to_string()),
                (parameter::PIPELINE, pipeline.to_string()),
                (parameter::LOAD_GENERATOR, "manycore".to_owned()),
                (parameter::LOAD_MODEL, LoadModel::Open.name().to_owned()),
            ],
            Self::Clients(load) => {
                let model = load.model().map(|model| (parameter::LOAD_MODEL, model.name().to_owned()));
                model.into_iter().chain([(parameter::LOAD_GENERATOR, load.program().to_owned())]).collect()
            }
        }
    }

    /// Loads all instances at the same time. The first one is the observed one. Its load is bound to the first of
    /// the CPUs, and the others to the rest; nothing is bound if there are none. These are CPUs of the hosts of the loads. With
    /// several hosts, the observed load has one of its own, and all loads have all CPUs. Calls `edge` at both edges of the
    /// slice: what programs on other hosts take to start and to end is outside of it.
    ///
    /// # Errors
    /// [`crate::Error::Load`]: a server does not accept connections; [`crate::Error::Remote`]; those of clients.
    pub fn run(
        &self,
        slice: &LoadedSlice,
        random: &mut impl Rng,
        edge: &mut dyn FnMut(Edge),
    ) -> Result<Vec<LoadOutcome>> {
        let &LoadedSlice { servers, per_second, times, figure, cpus } = slice;
        match self {
            Self::Generator { template, connections, pipeline, pattern, hosts } => {
                // The observed load has a CPU or a host of its own then.
                let is_alone = cpus.len() > 1 || hosts.first_is_alone();
                let request = |(index, address): (usize, &SocketAddr)| LoadRequest {
                    address: *address,
                    template: template.clone(),
                    connections: *connections,
                    pipeline: *pipeline,
                    arrivals: pattern.at(per_second),
                    warm_up: times.settle,
                    duration: times.length,
                    seed: random.random(),
                    polls: is_alone && index == 0,
                };
                let requests: Vec<LoadRequest> = servers.iter().enumerate().map(request).collect();
                let results = generate(hosts, requests, cpus, edge)?;
                Ok(results.iter().map(|result| LoadOutcome::new(result, times, figure)).collect())
            }
            Self::Clients(load) => clients::run(load, servers, figure, cpus, edge),
        }
    }

    /// Returns what one instance serves in a closed loop. `None` for clients, which have a rate of their own.
    ///
    /// # Errors
    /// [`crate::Error::Load`]; [`crate::Error::Remote`]; [`Error::Alone`]: requests failed, or none was answered.
    pub fn capacity(&self, server: SocketAddr, times: SliceTimes, cpus: &CpuSet) -> Result<Option<Capacity>> {
        let Self::Generator { template, connections, pipeline, hosts, .. } = self else { return Ok(None) };
        let request = LoadRequest {
            address: server,
            template: template.clone(),
            connections: *connections,
            pipeline: *pipeline,
            arrivals: Arrivals::Closed,
            warm_up: times.settle,
            duration: times.length,
            seed: 0,
            polls: false,
        };
        let results = generate(hosts, vec![request], cpus, &mut |_| {})?;
        let Some(result) = results.first() else { return Ok(None) };
        let outcome = LoadOutcome::new(result, times, LatencyFigure::Mean);
        if let Some(why) = failure_of([&outcome]) {
            return Err(Error::Alone(why));
        }
        if outcome.rate <= 0.0 {
            // In a closed loop, all requests may have been sent before the slice.
            return Err(Error::Alone(SILENT.to_owned()));
        }
        Ok(Some(Capacity { per_second: outcome.rate, is_of_client: outcome.is_client_limited }))
    }
}

/// What an instance serves in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Requests per second.
    pub per_second: f64,
    /// Whether the load generator used a whole CPU, so that the instance may serve more.
    pub is_of_client: bool,
}

/// Returns why a slice does not count, if requests failed or an instance has replied to none.
pub(crate) fn failure_of<'a>(outcomes: impl IntoIterator<Item = &'a LoadOutcome>) -> Option<String> {
    let (mut failed, mut first, mut is_silent) = (0, None, false);
    for outcome in outcomes {
        failed += outcome.failed;
        first = first.or(outcome.first_failure.as_deref());
        is_silent |= outcome.all_unanswered > 0;
    }
    if failed > 0 {
        let first = first.unwrap_or("the reason is unknown");
        return Some(format!("{failed} requests failed, the first one with: {first}"));
    }
    is_silent.then(|| SILENT.to_owned())
}

/// Runs each load in a thread, here or on its host.
fn generate(
    hosts: &LoadHosts,
    requests: Vec<LoadRequest>,
    cpus: &CpuSet,
    edge: &mut dyn FnMut(Edge),
) -> Result<Vec<LoadResult>> {
    let place =
        |(index, request)| PlacedLoad { request, cpus: hosts::cpus_of(index, cpus, hosts.first_is_alone()) };
    let loads: Vec<PlacedLoad> = requests.into_iter().enumerate().map(place).collect();
    if hosts.is_local() {
        let begin = || {
            edge(Edge::Begin);
            true
        };
        let results = LoadBatch { loads }.run(begin, interrupt::requested);
        edge(Edge::End);
        return Ok(results?);
    }
    remote_load::generate(hosts, &loads, |index| hosts::place_of(index, hosts.count()).0, edge)
}
