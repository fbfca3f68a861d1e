//! Synthetic experiments, in the order and form in which `eval` would measure them.

use super::{TICKS_PER_SECOND, Trouble, World};
use manycore_experiment::record::{Around, Experiment, Latency, Method, Sample, Treatment};
use manycore_stats::histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A run whose clock is the sum of the lengths of the samples.
pub(super) struct Measuring<'a> {
    pub(super) world: &'a World,
    rng: Xoshiro256PlusPlus,
    now_ns: u64,
}

/// A treatment with its true rate.
pub(super) struct Arm {
    treatment: Treatment,
    rate: f64,
}

/// Returns a treatment with its true rate.
pub(super) fn arm(name: impl Into<String>, workers: usize, factors: &[(&str, &str)], rate: f64) -> Arm {
    let factors = factors.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Arm { treatment: Treatment { name: name.into(), workers, factors, latency: None }, rate }
}

impl<'a> Measuring<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        Self { world, rng: Xoshiro256PlusPlus::seed_from_u64(world.seed), now_ns: 0 }
    }

    /// Returns the seconds of all samples so far.
    pub(super) fn seconds(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    /// Returns a random factor near 1.
    fn wobble(&mut self) -> f64 {
        1.0 + (self.rng.random::<f64>() - 0.5) * 2.0 * self.world.noise
    }

    pub(super) fn noise(&mut self) -> Experiment {
        let mut counts = vec![1, self.world.cpus as usize];
        counts.dedup();
        let arms = counts.iter().flat_map(|&workers| {
            ["A", "B"].map(|side| {
                arm(format!("{workers} {side}"), workers, &[("side", side)], self.world.events(workers))
            })
        });
        let arms = arms.collect();
        self.slices("noise", "events", arms, 0.2)
    }

    pub(super) fn clock(&mut self) -> Experiment {
        let (alone, share) = self.world.clock;
        let cpus = self.world.cpus;
        let mut arms: Vec<Arm> = (0..cpus.min(8))
            .map(|cpu| arm(format!("cpu {cpu}"), 1, &[("cpu", &cpu.to_string())], alone))
            .collect();
        arms.push(arm("together", cpus as usize, &[], alone * share * f64::from(cpus)));
        self.slices("clock", "cycles", arms, 0.05)
    }

    pub(super) fn scaling(&mut self) -> Experiment {
        let cpus = self.world.cpus as usize;
        let mut counts: Vec<usize> =
            std::iter::successors(Some(1), |&n| Some(n * 2)).take_while(|&n| n < cpus).collect();
        counts.extend([cpus, 2 * cpus]);
        let lost = self.world.trouble.lost();
        let arms = counts
            .iter()
            .map(|&workers| {
                let kept = if workers == 1 { 1.0 - lost } else { 1.0 };
                let mut arm = arm(workers.to_string(), workers, &[], self.world.events(workers) * kept);
                arm.treatment.latency = Some(self.latency(workers, arm.rate));
                arm
            })
            .collect();
        let mut experiment = self.slices("scaling", "events", arms, 0.2);
        experiment.parameters.insert("max_prime".to_owned(), "10000".to_owned());
        for sample in &mut experiment.samples {
            let workers = experiment.treatments[sample.treatment].workers;
            sample.around = self.around(workers, sample.wall_ns);
        }
        experiment
    }

    /// Returns the counters that the kernel would have reported around a sample of the scaling experiment.
    fn around(&mut self, workers: usize, wall_ns: u64) -> Around {
        let world = self.world;
        let trouble = if workers == 1 { world.trouble } else { Trouble::None };
        let busy = workers.min(world.cpus as usize);
        let capacity = wall_ns as f64 * busy as f64;
        let waiting = if workers > busy { 1.0 } else { 0.0 };
        let (mut used, mut steal, mut delay, mut throttled) = (1.0 - world.steal, world.steal, waiting, 0.0);
        let mut frequency = world.clock.0;
        match trouble {
            Trouble::Steal(share) => (used, steal) = (1.0 - share, share),
            Trouble::RunDelay(share) => (used, delay) = (used - share, share),
            Trouble::Throttle(share) => (used, throttled) = (used - share, share),
            Trouble::Frequency(share) => frequency *= 1.0 - share,
            Trouble::SlowCpu(_) | Trouble::Hidden(_) | Trouble::None => {}
        }
        let known = !matches!(world.trouble, Trouble::Hidden(_));
        let ns = |share: f64| known.then_some((share * capacity) as u64);
        // A slice begins at a random position within a tick, so fractions of ticks are rounded randomly.
        let phase: f64 = self.rng.random();
        let ticks = |share: f64| (share * wall_ns as f64 / 1e9 * TICKS_PER_SECOND as f64 + phase) as u32;
        let steal_ticks: Vec<u32> =
            (0..world.cpus as usize).map(|cpu| if cpu < busy { ticks(steal) } else { 0 }).collect();
        let busy_ticks = steal_ticks
            .iter()
            .enumerate()
            .map(|(cpu, &stolen)| if cpu < busy { ticks(used) + stolen } else { ticks(0.01) })
            .collect();
        Around {
            span_ns: wall_ns,
            cpu_ns: ns(used),
            run_delay_ns: ns(delay),
            migrations: known.then(|| self.rng.random_range(0..=workers as u64 / 2)),
            voluntary_switches: Some(0),
            involuntary_switches: Some(workers as u64 * if workers > busy { 20 } else { 1 }),
            busy_ticks,
            steal_ticks: if known { steal_ticks } else { Vec::new() },
            throttled_ns: ns(throttled / busy as f64),
            frequency_khz: world.hypervisor.is_none().then_some((frequency / 1e3) as u64),
            pressure_ns: ns((delay / busy as f64).min(1.0)),
            ..Around::default()
        }
    }

    fn latency(&mut self, workers: usize, rate: f64) -> Latency {
        let mean_ns = workers as f64 / rate * 1e9;
        let mut buckets: BTreeMap<u32, u64> = BTreeMap::new();
        let mut latency = Latency { min_ns: u64::MAX, ..Latency::default() };
        for event in 0..2000 {
            // One event in fifty is delayed, as by an interrupt.
            let held_up = if event % 50 == 0 { 1.0 + 3.0 * self.rng.random::<f64>() } else { 1.0 };
            let ns = (mean_ns * (0.95 + 0.1 * self.rng.random::<f64>()) * held_up) as u64;
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
        let n = 4.min(self.world.cpus as usize);
        let gain = n as f64 * 0.97;
        // Reference BLAS holds the interpreter's lock part of the time, so threads gain less than
        // processes.
        let (serial, threads, processes) = match python {
            Some(_) => (0.25, gain * 0.7, gain * 0.95),
            None => (4.0, gain, gain * 0.998),
        };
        let arms = [("serial", 1, 1.0), ("threads", n, threads), ("processes", n, processes)]
            .map(|(mode, workers, speedup)| arm(mode, workers, &[("mode", mode)], serial * speedup));
        let mut experiment = self.whole(id, "tasks", arms.into(), 4.0);
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
        let cores = (self.world.cpus / if self.world.smt { 2 } else { 1 }) as usize;
        let arms = [500.0, 1000.0, 1500.0, 2000.0_f64].into_iter().flat_map(|size| {
            let rate = self.world.clock.0 * 8.0 * (0.75 + size / 20_000.0);
            let text = size.to_string();
            [
                arm(format!("{text} one"), 1, &[("size", &text)], rate),
                arm(
                    format!("{text} all"),
                    cores,
                    &[("size", &text), ("all", "yes")],
                    rate * cores as f64 * 0.95,
                ),
            ]
        });
        let arms = arms.collect();
        self.slices("matrix", "flop", arms, 0.5)
    }

    pub(super) fn affinity(&mut self) -> Experiment {
        const PROCESSES: usize = 20;
        let rate = 50.0 * f64::from(self.world.cpus);
        let arms =
            vec![arm("free", PROCESSES, &[], rate), arm("bound", PROCESSES, &[], rate * self.world.bound)];
        let mut experiment = self.whole("affinity", "tasks", arms, 200.0);
        for sample in &mut experiment.samples {
            let seconds = sample.wall_ns as f64 / 1e9;
            sample.per_worker =
                (0..PROCESSES).map(|_| seconds * (1.0 - 0.1 * self.rng.random::<f64>())).collect();
            if sample.treatment == 1 {
                sample.around.checks = Some(PROCESSES as u64 * 10_000);
                sample.around.elsewhere = Some(if sample.block == 0 { self.world.elsewhere } else { 0 });
            }
        }
        experiment
    }

    pub(super) fn sysbench(&mut self) -> Experiment {
        let arms = [1, self.world.cpus as usize].into_iter().flat_map(|workers| {
            [("manycore", 1.01), ("sysbench", 1.0)].map(|(program, factor)| {
                let rate = self.world.events(workers) * factor;
                arm(format!("{program} {workers}"), workers, &[("program", program)], rate)
            })
        });
        let arms = arms.collect();
        self.slices("sysbench", "events", arms, 1.0)
    }

    /// Returns an experiment with samples of fixed length.
    pub(super) fn slices(&mut self, id: &str, unit: &str, arms: Vec<Arm>, seconds: f64) -> Experiment {
        let slice_ns = (seconds * 1e9) as u64;
        let method = Method::Slices { slice_ns, settle_ns: slice_ns / 10 };
        self.blocks(id, unit, method, arms, |rate, wobble| (seconds, rate * wobble * seconds))
    }

    /// Returns an experiment with samples of fixed work.
    fn whole(&mut self, id: &str, unit: &str, arms: Vec<Arm>, work: f64) -> Experiment {
        self.blocks(id, unit, Method::Whole, arms, |rate, wobble| (work / (rate * wobble), work))
    }

    /// Returns blocks with one sample for each arm. `measure` computes seconds and work from the true rate
    /// and the noise.
    fn blocks(
        &mut self,
        id: &str,
        unit: &str,
        method: Method,
        arms: Vec<Arm>,
        measure: impl Fn(f64, f64) -> (f64, f64),
    ) -> Experiment {
        let mut samples = Vec::new();
        for block in 0..self.world.blocks {
            for (treatment, arm) in arms.iter().enumerate() {
                let (seconds, work) = measure(arm.rate, self.wobble());
                let wall_ns = (seconds * 1e9) as u64;
                let workers = arm.treatment.workers;
                let per_worker = (0..workers).map(|_| work / workers as f64 * self.wobble()).collect();
                samples.push(Sample {
                    block,
                    treatment,
                    start_ns: self.now_ns,
                    wall_ns,
                    work,
                    per_worker,
                    values: Vec::new(),
                    around: Around { span_ns: wall_ns, ..Around::default() },
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
            treatments: arms.into_iter().map(|arm| arm.treatment).collect(),
            samples,
        }
    }
}
