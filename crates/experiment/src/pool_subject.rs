//! Workers as the subject of an experiment, measured in slices or in whole pieces of work.

use crate::{
    counters::CounterReader,
    engine::Subject,
    error::{Error, Result},
    interrupt,
    record::{CounterDelta, EventTimes, Sample},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_linux::{affinity, clock::now_ns};
use manycore_topology::{CpuId, CpuSet};
use std::{
    collections::BTreeMap,
    rc::Rc,
    sync::atomic::Ordering::{Acquire, Relaxed},
    time::Duration,
};

/// The work of one worker under a treatment.
#[derive(Clone, Debug)]
pub struct WorkerOrder {
    /// Index of the worker.
    pub worker: usize,
    /// CPUs on which it may run.
    pub cpus: CpuSet,
    /// The load's parameter.
    pub parameter: u64,
    /// Ticks to do, for whole pieces of work; unused for slices, which have no end of their own.
    pub ticks: u64,
    /// After each tick, the worker checks whether it is on this CPU. A check costs time, so treatments that
    /// are compared must all check, or none.
    pub expected_cpu: Option<CpuId>,
}

/// The work of all workers under one treatment.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The work of each worker. Workers without an order are idle.
    pub orders: Vec<WorkerOrder>,
    /// Workers that serve the others, and the CPUs on which they may run.
    pub servers: Vec<(usize, CpuSet)>,
    /// Units of work in a tick.
    pub unit_per_tick: f64,
}

/// Workers that are measured under treatments.
#[derive(Debug)]
pub struct PoolSubject {
    pool: WorkerPool,
    counter_reader: Rc<CounterReader>,
    mode: SamplingMode,
    trials: Vec<Trial>,
    /// The CPUs on which each worker may run now.
    placed: Vec<Option<CpuSet>>,
    latencies: Vec<LatencyHistogram>,
    origin_ns: u64,
}

/// Histogram of event times of one treatment, while it is collected.
#[derive(Clone, Debug, Default)]
struct LatencyHistogram {
    latency: EventTimes,
    buckets: BTreeMap<u32, u64>,
}

impl PoolSubject {
    /// Creates a subject with one trial per treatment. `origin_ns` is the start of the run on the monotonic
    /// clock.
    pub fn new(
        pool: WorkerPool,
        counter_reader: Rc<CounterReader>,
        mode: SamplingMode,
        trials: Vec<Trial>,
        origin_ns: u64,
    ) -> Self {
        let placed = vec![None; pool.slots().len()];
        let latencies = vec![LatencyHistogram::default(); trials.len()];
        Self { pool, counter_reader, mode, trials, placed, latencies, origin_ns }
    }

    /// Returns the sum of the ticks of all workers. It is exact only while they are idle.
    pub fn ticks_done(&self) -> u64 {
        self.pool.slots().iter().map(|slot| slot.ticks.load(Acquire)).sum()
    }

    /// Makes all workers idle.
    ///
    /// # Errors
    /// [`Error::Failed`] if a worker ended, [`Error::Interrupted`] after a signal.
    pub fn stop_all(&mut self) -> Result {
        self.pool.stop_all()
    }

    /// Makes each worker prepare its load for the first trial that it takes part in, on the CPUs of that
    /// trial, and waits for all of them. For loads with a long preparation, which would otherwise fall into
    /// the first slices.
    ///
    /// # Errors
    /// [`Error::Failed`] if a worker ended, [`Error::Interrupted`] after a signal.
    pub fn prepare(&mut self) -> Result {
        let mut orders: BTreeMap<usize, WorkerOrder> = BTreeMap::new();
        for order in self.trials.iter().flat_map(|trial| &trial.orders) {
            orders.entry(order.worker).or_insert_with(|| order.clone());
        }
        let workers: Vec<usize> = orders.keys().copied().collect();
        let orders: Vec<WorkerOrder> = orders.into_values().collect();
        self.place(&orders)?;
        self.send_orders(&orders, 0);
        self.pool.wait(&workers)
    }

    /// Returns the thread ids of the workers. The id of a worker process is its process id.
    pub fn worker_ids(&self) -> Vec<u32> {
        (0..self.pool.slots().len()).map(|worker| self.tid(worker)).collect()
    }

    /// Sets where the workers of a treatment run, their loads' parameters, and the CPUs that they check for.
    fn place(&mut self, orders: &[WorkerOrder]) -> Result {
        for order in orders {
            self.pool.configure(order.worker, order.parameter, order.expected_cpu);
            self.pin_member(order.worker, &order.cpus)?;
        }
        Ok(())
    }

    /// Restricts a member to `cpus`.
    fn pin_member(&mut self, member: usize, cpus: &CpuSet) -> Result {
        if self.placed[member].as_ref() != Some(cpus) {
            let tid = self.pool.slots()[member].tid.load(Relaxed);
            affinity::restrict(tid, cpus).map_err(|error| {
                // A worker that has ended cannot be moved; the reason of its end is the better message.
                self.pool.check_alive().err().unwrap_or_else(|| {
                    Error::Failed(format!("worker {member} cannot be moved to CPUs {cpus}: {error}"))
                })
            })?;
            self.placed[member] = Some(cpus.clone());
        }
        Ok(())
    }

    fn tid(&self, member: usize) -> u32 {
        self.pool.slots()[member].tid.load(Relaxed)
    }

    fn tids(&self, orders: &[WorkerOrder]) -> Vec<u32> {
        orders.iter().map(|order| self.tid(order.worker)).collect()
    }

    fn ticks(&self, orders: &[WorkerOrder]) -> Vec<u64> {
        orders.iter().map(|order| self.pool.slots()[order.worker].ticks.load(Acquire)).collect()
    }

    fn slice(&mut self, treatment: usize, slice: Duration, settling_time: Duration) -> Result<Sample> {
        let Trial { orders, servers, unit_per_tick } = self.trials[treatment].clone();
        self.place(&orders)?;
        for (server, cpus) in &servers {
            self.pin_member(*server, cpus)?;
        }
        self.pool.activate(&orders.iter().map(|order| order.worker).collect::<Vec<_>>());
        interrupt::sleep(settling_time)?;
        let servers = servers.iter().map(|(server, _)| self.tid(*server));
        let tids: Vec<u32> = self.tids(&orders).into_iter().chain(servers).collect();
        let before = self.counter_reader.snapshot(&tids, now_ns());
        self.measuring(&orders, true);
        let (ticks_before, began) = (self.ticks(&orders), now_ns());
        interrupt::sleep(slice)?;
        let (ticks_after, ended) = (self.ticks(&orders), now_ns());
        self.measuring(&orders, false);
        let after = self.counter_reader.snapshot(&tids, now_ns());
        self.pool.check_alive()?;
        self.collect_latencies(treatment, &orders);
        let per_worker: Vec<f64> = ticks_after
            .iter()
            .zip(&ticks_before)
            .map(|(after, before)| (after - before) as f64 * unit_per_tick)
            .collect();
        Ok(Sample {
            start_ns: began - self.origin_ns,
            wall_ns: ended - began,
            work: per_worker.iter().sum(),
            per_worker,
            counters: self.counter_reader.delta(&before, &after),
            ..Sample::default()
        })
    }

    fn whole(&mut self, treatment: usize) -> Result<Sample> {
        let Trial { orders, unit_per_tick, .. } = self.trials[treatment].clone();
        let workers: Vec<usize> = orders.iter().map(|order| order.worker).collect();
        self.place(&orders)?;
        // An order of no ticks makes each worker prepare its load outside the measured time.
        self.send_orders(&orders, 0);
        self.pool.wait(&workers)?;
        let tids = self.tids(&orders);
        let checks_before = self.cpu_check_counts(&orders);
        let before = self.counter_reader.snapshot(&tids, now_ns());
        let began = now_ns();
        self.send_orders(&orders, 1);
        self.pool.wait(&workers)?;
        let ends = orders.iter().map(|order| self.pool.slots()[order.worker].idle_since_ns.load(Acquire));
        let ends: Vec<u64> = ends.collect();
        let after = self.counter_reader.snapshot(&tids, now_ns());
        let ticks: u64 = orders.iter().map(|order| order.ticks).sum();
        let checks_after = self.cpu_check_counts(&orders);
        let watched = orders.iter().any(|order| order.expected_cpu.is_some());
        Ok(Sample {
            start_ns: began - self.origin_ns,
            wall_ns: ends.iter().max().map_or(0, |end| end.saturating_sub(began)).max(1),
            work: ticks as f64 * unit_per_tick,
            per_worker: ends.iter().map(|end| end.saturating_sub(began) as f64 / 1e9).collect(),
            counters: CounterDelta {
                cpu_checks: watched.then_some(checks_after.0 - checks_before.0),
                off_cpu_checks: watched.then_some(checks_after.1 - checks_before.1),
                ..self.counter_reader.delta(&before, &after)
            },
            ..Sample::default()
        })
    }

    /// Orders each worker to do `times` times its ticks, in addition to those done.
    fn send_orders(&self, orders: &[WorkerOrder], times: u64) {
        for order in orders {
            let slot = &self.pool.slots()[order.worker];
            slot.order(slot.ticks.load(Acquire) + times * order.ticks);
        }
    }

    /// Returns the sums over the workers: how often they checked their CPU, and how often they were on
    /// another one.
    fn cpu_check_counts(&self, orders: &[WorkerOrder]) -> (u64, u64) {
        orders.iter().map(|order| &self.pool.slots()[order.worker]).fold((0, 0), |sum, slot| {
            (sum.0 + slot.cpu_checks.load(Relaxed), sum.1 + slot.off_cpu_checks.load(Relaxed))
        })
    }

    fn measuring(&self, orders: &[WorkerOrder], on: bool) {
        for order in orders {
            self.pool.slots()[order.worker].measuring.store(u32::from(on), Relaxed);
        }
    }

    fn collect_latencies(&mut self, treatment: usize, orders: &[WorkerOrder]) {
        let histogram = &mut self.latencies[treatment];
        for order in orders {
            let times = self.pool.slots()[order.worker].drain();
            let latency = &mut histogram.latency;
            if times.buckets.is_empty() {
                continue;
            }
            // A worker may be in the middle of counting an event. What is missing here is collected with the
            // next slice.
            if times.min_ns != u64::MAX {
                latency.min_ns =
                    if latency.count == 0 { times.min_ns } else { latency.min_ns.min(times.min_ns) };
            }
            latency.max_ns = latency.max_ns.max(times.max_ns);
            latency.sum_ns += times.sum_ns;
            for (index, count) in times.buckets {
                *histogram.buckets.entry(index).or_default() += u64::from(count);
                latency.count += u64::from(count);
            }
        }
    }
}

impl Subject for PoolSubject {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        match self.mode {
            SamplingMode::Slices { slice, settling_time } => self.slice(treatment, slice, settling_time),
            SamplingMode::FixedWork => self.whole(treatment),
        }
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn latencies(&mut self) -> Vec<Option<EventTimes>> {
        let histogram = self.latencies.iter().map(|histogram| {
            let buckets = histogram.buckets.iter().map(|(&index, &count)| (index, count)).collect();
            EventTimes { buckets, ..histogram.latency.clone() }
        });
        histogram.map(|latency| Some(latency).filter(|latency| latency.count > 0)).collect()
    }
}
