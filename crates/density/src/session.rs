//! Measures the density of a service on this machine: instances, their loads and the search together.
//!
//! A sample is a pair of slices in random order: one in which only the observed instance runs and is loaded, and one in which
//! all of a count do. The observed instance is the first one. Each instance has a load of its own, at the same rate in all
//! slices.

use crate::{
    Error, Result,
    bound::{Bound, LatencyFigure},
    instances::{Instances, ServiceSpec},
    search::{Density, Search, SearchOptions},
};
use manycore_load::{Arrivals, LoadRequest, LoadResult, Template};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{net::SocketAddr, thread, time::Duration};

/// How often each instance gets requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Requests per second.
    PerSecond(f64),
    /// A share of what a lone instance serves in a closed loop.
    ShareOfCapacity(f64),
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct DensityRequest {
    /// The service.
    pub service: ServiceSpec,
    /// The request that each instance gets.
    pub template: Template,
    /// Connections to each instance.
    pub connections: usize,
    /// How often each instance gets requests, with Poisson arrivals.
    pub rate: Rate,
    /// The bound of the observed instance.
    pub bound: Bound,
    /// The largest count.
    pub most: usize,
    /// Pairs of slices, at most.
    pub samples: usize,
    /// Length of a slice.
    pub slice: Duration,
    /// Time at the begin of a slice that does not count.
    pub settle: Duration,
    /// Seed of the order of slices, and of the loads.
    pub seed: u64,
}

impl DensityRequest {
    /// Returns the longest time that it takes, without starting instances.
    pub fn longest(&self) -> Duration {
        let slices = 2 * self.samples as u32 + u32::from(matches!(self.rate, Rate::ShareOfCapacity(_)));
        (self.slice + self.settle) * slices
    }
}

/// One slice: what the observed instance's load measured.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The number of instances that were loaded.
    pub count: usize,
    /// The load of the observed instance.
    pub observed: LoadResult,
    /// Requests of all other instances that failed.
    pub failed: u64,
}

/// Something that is reported while a density is measured.
#[derive(Clone, Debug)]
pub enum DensityEvent<'a> {
    /// The rate of each instance is decided.
    Rate {
        /// Requests per second.
        per_second: f64,
        /// Requests per second of a lone instance in a closed loop, if that was measured.
        capacity: Option<f64>,
    },
    /// A pair of slices is measured.
    Pair {
        /// The lone instance.
        alone: &'a Slice,
        /// All of a count.
        all: &'a Slice,
        /// The search so far.
        search: &'a Search,
    },
    /// A count failed: it is above the bound.
    Failed {
        /// The count.
        count: usize,
        /// Why.
        why: String,
    },
}

/// Receives what happens.
pub trait DensityObserver {
    /// Takes an event. Returns whether to go on.
    fn event(&mut self, event: &DensityEvent<'_>) -> bool;
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct DensityResult {
    /// The answer.
    pub density: Density,
    /// What is known of each count.
    pub search: Search,
    /// Requests per second of each instance.
    pub per_second: f64,
    /// Whether the search ended by itself, and not because the observer ended it.
    pub is_complete: bool,
}

/// Measures a density. All instances are gone at the end.
///
/// # Errors
/// Those of starting instances and loads; [`Error::Alone`] if the lone instance already fails.
pub fn measure(request: &DensityRequest, observer: &mut dyn DensityObserver) -> Result<DensityResult> {
    let mut session = Session {
        request,
        instances: Instances::new(request.service.clone()),
        random: Xoshiro256PlusPlus::seed_from_u64(request.seed),
        per_second: 0.0,
    };
    let (per_second, capacity) = session.rate()?;
    session.per_second = per_second;
    let mut goes_on = observer.event(&DensityEvent::Rate { per_second, capacity });
    let mut search = Search::new(SearchOptions {
        bound: request.bound.log_limit(),
        first: request.bound.first_count(),
        most: request.most,
        samples: request.samples,
    });
    while let Some(count) = search.next_count().filter(|_| goes_on) {
        match session.pair(count)? {
            Ok((alone, all)) => {
                search.add(count, session.sample(&alone, &all)?);
                goes_on = observer.event(&DensityEvent::Pair { alone: &alone, all: &all, search: &search });
            }
            Err(why) => {
                search.fail(count);
                goes_on = observer.event(&DensityEvent::Failed { count, why });
            }
        }
    }
    let is_complete = search.next_count().is_none();
    Ok(DensityResult { density: search.density(), search, per_second, is_complete })
}

struct Session<'a> {
    request: &'a DensityRequest,
    instances: Instances,
    random: Xoshiro256PlusPlus,
    /// Requests per second of each instance.
    per_second: f64,
}

impl Session<'_> {
    /// Returns the requests per second of each instance, and the capacity of one if that was measured.
    fn rate(&mut self) -> Result<(f64, Option<f64>)> {
        match self.request.rate {
            Rate::PerSecond(rate) => Ok((rate, None)),
            Rate::ShareOfCapacity(share) => {
                self.instances.set_active(1)?;
                let load = self.load(self.instances.servers()[0], Arrivals::Closed);
                let capacity = manycore_load::run(&load)?.rate();
                Ok((share * capacity, Some(capacity)))
            }
        }
    }

    fn load(&mut self, address: SocketAddr, arrivals: Arrivals) -> LoadRequest {
        LoadRequest {
            address,
            template: self.request.template.clone(),
            connections: self.request.connections,
            arrivals,
            warm_up: self.request.settle,
            duration: self.request.slice,
            seed: self.random.random(),
        }
    }

    /// Measures the lone instance and a count of them, in random order. The inner error says why the count failed.
    fn pair(&mut self, count: usize) -> Result<Result<(Slice, Slice), String>> {
        let alone_first: bool = self.random.random();
        let before = if alone_first { Some(self.alone()?) } else { None };
        let all = match self.slice(count) {
            Ok(all) => all,
            Err(error) if error.is_of_count() && count > 1 => {
                self.instances.remove_ended();
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let alone = before.map_or_else(|| self.alone(), Ok)?;
        if all.observed.failed + all.failed > 0 && count > 1 {
            let why = all.observed.first_failure.as_deref().unwrap_or("those of other instances");
            return Ok(Err(format!("{} requests failed: {why}", all.observed.failed + all.failed)));
        }
        Ok(Ok((alone, all)))
    }

    fn alone(&mut self) -> Result<Slice> {
        let slice = self.slice(1)?;
        match &slice.observed.first_failure {
            Some(why) => Err(Error::Alone(why.clone())),
            None => Ok(slice),
        }
    }

    /// Loads the first `count` instances, each by a thread.
    fn slice(&mut self, count: usize) -> Result<Slice> {
        self.instances.set_active(count)?;
        let arrivals = Arrivals::Poisson { per_second: self.per_second };
        let servers = self.instances.servers();
        let loads: Vec<LoadRequest> = servers.into_iter().map(|server| self.load(server, arrivals)).collect();
        let results: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                loads.iter().map(|load| scope.spawn(move || manycore_load::run(load))).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        // An instance that ended is the reason for failures of its load.
        self.instances.check()?;
        let results = results.into_iter().map(|result| result.unwrap_or(Err(manycore_load::Error::Panicked)));
        let mut results = results.collect::<Result<Vec<LoadResult>, _>>()?.into_iter();
        let observed = results.next().ok_or(Error::Alone("there is no instance".to_owned()))?;
        Ok(Slice { count, observed, failed: results.map(|result| result.failed).sum() })
    }

    /// Returns the sample of a pair.
    fn sample(&self, alone: &Slice, all: &Slice) -> Result<f64> {
        let of = |slice: &Slice| match self.request.bound.figure {
            LatencyFigure::Mean => slice.observed.latency.mean(),
            LatencyFigure::Quantile(q) => slice.observed.latency_ns(q) as f64,
        };
        let sample = self.request.bound.sample(of(alone), of(all));
        sample.ok_or_else(|| Error::Alone("it got no request in a slice: take longer slices".to_owned()))
    }
}
