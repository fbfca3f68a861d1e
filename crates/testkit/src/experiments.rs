//! Synthetic experiments, in the order and form in which `eval` would measure them.

use super::{SlowCause, SyntheticMachine, TICKS_PER_SECOND};
use manycore_experiment::record::{CounterDelta, EventTimes, Experiment, Method, Sample, Treatment};
use manycore_stats::histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A run whose clock is the sum of the lengths of the samples.
pub(super) struct Simulation<'a> {
    pub(super) machine: &'a SyntheticMachine,
    rng: Xoshiro256PlusPlus,
    now_ns: u64,
}

/// A treatment with its true rate.
pub(super) struct TrueTreatment {
    treatment: Treatment,
    rate: f64,
}

/// Returns a treatment with its true rate.
pub(super) fn true_treatment(
    name: impl Into<String>,
    workers: usize,
    factors: &[(&str, &str)],
    rate: f64,
) -> TrueTreatment {
    let factors = factors.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    TrueTreatment { treatment: Treatment { name: name.into(), workers, factors, latency: None }, rate }
}

impl<'a> Simulation<'a> {
    pub(super) fn new(machine: &'a SyntheticMachine) -> Self {
        Self { machine, rng: Xoshiro256PlusPlus::seed_from_u64(machine.seed), now_ns: 0 }
    }

    /// Returns the seconds of all samples so far.
    pub(super) fn seconds(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    /// Returns a random factor near 1.
    fn noise_factor(&mut self) -> f64 {
        1.0 + (self.rng.random::<f64>() - 0.5) * 2.0 * self.machine.noise
    }

    pub(super) fn noise(&mut self) -> Experiment {
        let mut counts = vec![1, self.machine.cpus as usize];
        counts.dedup();
        let treatments = counts.iter().flat_map(|&workers| {
            ["A", "B"].map(|side| {
                true_treatment(
                    format!("{workers} {side}"),
                    workers,
                    &[("variant", side)],
                    self.machine.events(workers),
                )
            })
        });
        let treatments = treatments.collect();
        self.slices("noise", "events", treatments, 0.2)
    }

    pub(super) fn clock(&mut self) -> Experiment {
        let (alone, share) = self.machine.clock;
        let cpus = self.machine.cpus;
        let mut treatments: Vec<TrueTreatment> = (0..cpus.min(8))
            .map(|cpu| true_treatment(format!("cpu {cpu}"), 1, &[("cpu", &cpu.to_string())], alone))
            .collect();
        treatments.push(true_treatment("all busy", cpus as usize, &[], alone * share * f64::from(cpus)));
        self.slices("clock", "cycles", treatments, 0.05)
    }

    pub(super) fn scaling(&mut self) -> Experiment {
        let cpus = self.machine.cpus as usize;
        let mut counts: Vec<usize> =
            std::iter::successors(Some(1), |&n| Some(n * 2)).take_while(|&n| n < cpus).collect();
        counts.extend([cpus, 2 * cpus]);
        let lost = self.machine.slow_cause.lost_share();
        let treatments = counts
            .iter()
            .map(|&workers| {
                let kept = if workers == 1 { 1.0 - lost } else { 1.0 };
                let mut one =
                    true_treatment(workers.to_string(), workers, &[], self.machine.events(workers) * kept);
                one.treatment.latency = Some(self.latency(workers, one.rate));
                one
            })
            .collect();
        let mut experiment = self.slices("scaling", "events", treatments, 0.2);
        experiment.parameters.insert("max_prime".to_owned(), "10000".to_owned());
        for sample in &mut experiment.samples {
            let workers = experiment.treatments[sample.treatment].workers;
            sample.counters = self.counters(workers, sample.wall_ns);
        }
        experiment
    }

    /// Returns the counters that the kernel would have reported around a sample of the scaling experiment.
    fn counters(&mut self, workers: usize, wall_ns: u64) -> CounterDelta {
        let machine = self.machine;
        let trouble = if workers == 1 { machine.slow_cause } else { SlowCause::None };
        let busy = workers.min(machine.cpus as usize);
        let capacity = wall_ns as f64 * busy as f64;
        let waiting = if workers > busy { 1.0 } else { 0.0 };
        let (mut used, mut steal, mut delay, mut throttled) =
            (1.0 - machine.steal, machine.steal, waiting, 0.0);
        let mut frequency = machine.clock.0;
        match trouble {
            SlowCause::Steal(share) => (used, steal) = (1.0 - share, share),
            SlowCause::RunDelay(share) => (used, delay) = (used - share, share),
            SlowCause::Throttle(share) => (used, throttled) = (used - share, share),
            SlowCause::Frequency(share) => frequency *= 1.0 - share,
            SlowCause::SlowCpu(_) | SlowCause::Hidden(_) | SlowCause::None => {}
        }
        let known = !matches!(machine.slow_cause, SlowCause::Hidden(_));
        let ns = |share: f64| known.then_some((share * capacity) as u64);
        // A slice begins at a random position within a tick, so fractions of ticks are rounded randomly.
        let phase: f64 = self.rng.random();
        let ticks = |share: f64| (share * wall_ns as f64 / 1e9 * TICKS_PER_SECOND as f64 + phase) as u32;
        let steal_ticks: Vec<u32> =
            (0..machine.cpus as usize).map(|cpu| if cpu < busy { ticks(steal) } else { 0 }).collect();
        let busy_ticks = steal_ticks
            .iter()
            .enumerate()
            .map(|(cpu, &stolen)| if cpu < busy { ticks(used) + stolen } else { ticks(0.01) })
            .collect();
        CounterDelta {
            span_ns: wall_ns,
            cpu_ns: ns(used),
            run_delay_ns: ns(delay),
            migrations: known.then(|| self.rng.random_range(0..=workers as u64 / 2)),
            voluntary_switches: Some(0),
            involuntary_switches: Some(workers as u64 * if workers > busy { 20 } else { 1 }),
            busy_ticks,
            steal_ticks: if known { steal_ticks } else { Vec::new() },
            throttled_ns: ns(throttled / busy as f64),
            frequency_khz: machine.hypervisor.is_none().then_some((frequency / 1e3) as u64),
            cpu_pressure_ns: ns((delay / busy as f64).min(1.0)),
            ..CounterDelta::default()
        }
    }

    fn latency(&mut self, workers: usize, rate: f64) -> EventTimes {
        let mean_ns = workers as f64 / rate * 1e9;
        let mut buckets: BTreeMap<u32, u64> = BTreeMap::new();
        let mut latency = EventTimes { min_ns: u64::MAX, ..EventTimes::default() };
        for event in 0..2000 {
            // One event in fifty is delayed, as by an interrupt.
            let delay = if event % 50 == 0 { 1.0 + 3.0 * self.rng.random::<f64>() } else { 1.0 };
            let ns = (mean_ns * (0.95 + 0.1 * self.rng.random::<f64>()) * delay) as u64;
            *buckets.entry(histogram::bucket(ns) as u32).or_default() += 1;
            latency.count += 1;
            latency.sum_ns += ns;
            latency.min_ns = latency.min_ns.min(ns);
            latency.max_ns = latency.max_ns.max(ns);
        }
        latency.buckets = buckets.into_iter().collect();
        latency
    }

    pub(super) fn modes(&mut self, id: &str, python: Option<(&str, &str)>) -> Experiment {
        let n = 4.min(self.machine.cpus as usize);
        let gain = n as f64 * 0.97;
        // Reference BLAS holds the interpreter's lock part of the time, so threads gain less than
        // processes.
        let (serial, threads, processes) = match python {
            Some(_) => (0.25, gain * 0.7, gain * 0.95),
            None => (4.0, gain, gain * 0.998),
        };
        let treatments = [("serial", 1, 1.0), ("threads", n, threads), ("processes", n, processes)].map(
            |(mode, workers, speedup)| true_treatment(mode, workers, &[("mode", mode)], serial * speedup),
        );
        let mut experiment = self.whole_runs(id, "tasks", treatments.into(), 4.0);
        let mut parameters = vec![("tasks", "4"), ("n", "1000"), ("k", "5")];
        match python {
            Some((blas, threads)) => {
                parameters.extend([("program", "python"), ("blas", blas), ("blas_threads", threads)]);
            }
            None => parameters.push(("program", "manycore")),
        }
        experiment.parameters =
            parameters.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        experiment
    }

    pub(super) fn matrix(&mut self) -> Experiment {
        let cores = (self.machine.cpus / if self.machine.smt { 2 } else { 1 }) as usize;
        let treatments = [500.0, 1000.0, 1500.0, 2000.0_f64].into_iter().flat_map(|size| {
            let rate = self.machine.clock.0 * 8.0 * (0.75 + size / 20_000.0);
            let text = size.to_string();
            [
                true_treatment(format!("{text} one"), 1, &[("size", &text)], rate),
                true_treatment(
                    format!("{text} all"),
                    cores,
                    &[("size", &text), ("all", "yes")],
                    rate * cores as f64 * 0.95,
                ),
            ]
        });
        let treatments = treatments.collect();
        self.slices("matrix", "flop", treatments, 0.5)
    }

    pub(super) fn affinity(&mut self) -> Experiment {
        const PROCESSES: usize = 20;
        let rate = 50.0 * f64::from(self.machine.cpus);
        let treatments = vec![
            true_treatment("unpinned", PROCESSES, &[], rate),
            true_treatment("pinned", PROCESSES, &[], rate * self.machine.pinned),
        ];
        let mut experiment = self.whole_runs("affinity", "tasks", treatments, 200.0);
        for sample in &mut experiment.samples {
            let seconds = sample.wall_ns as f64 / 1e9;
            sample.per_worker =
                (0..PROCESSES).map(|_| seconds * (1.0 - 0.1 * self.rng.random::<f64>())).collect();
            if sample.treatment == 1 {
                sample.counters.cpu_checks = Some(PROCESSES as u64 * 10_000);
                sample.counters.off_cpu_checks =
                    Some(if sample.block == 0 { self.machine.off_cpu_checks } else { 0 });
            }
        }
        experiment
    }

    pub(super) fn sysbench(&mut self) -> Experiment {
        let treatments = [1, self.machine.cpus as usize].into_iter().flat_map(|workers| {
            [("manycore", 1.01), ("sysbench", 1.0)].map(|(program, factor)| {
                let rate = self.machine.events(workers) * factor;
                true_treatment(format!("{program} {workers}"), workers, &[("program", program)], rate)
            })
        });
        let treatments = treatments.collect();
        self.slices("sysbench", "events", treatments, 1.0)
    }

    /// Returns an experiment with samples of fixed length.
    pub(super) fn slices(
        &mut self,
        id: &str,
        unit: &str,
        treatments: Vec<TrueTreatment>,
        seconds: f64,
    ) -> Experiment {
        let slice_ns = (seconds * 1e9) as u64;
        let method = Method::Slices { slice_ns, settle_ns: slice_ns / 10 };
        self.blocks(id, unit, method, treatments, |rate, noise_factor| {
            (seconds, rate * noise_factor * seconds)
        })
    }

    /// Returns an experiment with samples of fixed work.
    pub(super) fn whole_runs(
        &mut self,
        id: &str,
        unit: &str,
        treatments: Vec<TrueTreatment>,
        work: f64,
    ) -> Experiment {
        self.blocks(id, unit, Method::WholeRun, treatments, |rate, noise_factor| {
            (work / (rate * noise_factor), work)
        })
    }

    /// Returns blocks with one sample for each treatment. `measure` computes seconds and work from the true rate
    /// and the noise.
    fn blocks(
        &mut self,
        id: &str,
        unit: &str,
        method: Method,
        treatments: Vec<TrueTreatment>,
        measure: impl Fn(f64, f64) -> (f64, f64),
    ) -> Experiment {
        let mut samples = Vec::new();
        for block in 0..self.machine.blocks {
            for (treatment, one) in treatments.iter().enumerate() {
                let (seconds, work) = measure(one.rate, self.noise_factor());
                let wall_ns = (seconds * 1e9) as u64;
                let workers = one.treatment.workers;
                let per_worker = (0..workers).map(|_| work / workers as f64 * self.noise_factor()).collect();
                samples.push(Sample {
                    block,
                    treatment,
                    start_ns: self.now_ns,
                    wall_ns,
                    work,
                    per_worker,
                    values: Vec::new(),
                    counters: CounterDelta { span_ns: wall_ns, ..CounterDelta::default() },
                    ..Sample::default()
                });
                self.now_ns += wall_ns;
            }
        }
        Experiment {
            id: id.to_owned(),
            method,
            unit: unit.to_owned(),
            parameters: BTreeMap::new(),
            metrics: Vec::new(),
            treatments: treatments.into_iter().map(|one| one.treatment).collect(),
            samples,
        }
    }
}
