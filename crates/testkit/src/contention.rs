//! Synthetic loads whose workers share something.

use super::experiments::{Simulation, TrueTreatment, true_treatment};
use manycore_experiment::record::{Experiment, id};
use manycore_topology::{CpuSet, distance::TopologyDistance};

/// A variant's name, the rate of one worker, and the total rate of `n` workers relative to it.
type Variant = (&'static str, f64, fn(f64) -> f64);

/// Atomic additions: variants that share a cache line lose, variants with separate lines gain.
const COUNTER: [Variant; 4] = [
    ("shared", 2e8, |n| if n > 1.0 { 0.3 } else { 1.0 }),
    ("packed", 2e8, |n| if n > 1.0 { 0.4 } else { 1.0 }),
    ("padded", 2e8, |n| n),
    ("per-cpu", 1.6e8, |n| n),
];

/// Acquisitions of one lock: FIFO locks lose most.
const LOCK: [Variant; 4] = [
    ("mutex", 4e7, |n| if n > 1.0 { 0.6 } else { 1.0 }),
    ("spin", 5e7, |n| 1.0 / n.sqrt()),
    ("ticket", 5e7, |n| if n > 1.0 { 0.15 } else { 1.0 }),
    ("mcs", 4.5e7, |n| if n > 1.0 { 0.2 } else { 1.0 }),
];

/// Remaining share of the rate of FIFO locks where workers have to share CPUs.
const FIFO_OVERSUBSCRIBED_SHARE: f64 = 0.001;

impl Simulation<'_> {
    /// Returns the experiments of the section `contention`.
    pub(super) fn contention(&mut self) -> Vec<Experiment> {
        let cpus = self.machine.cpus as usize;
        let mut few = vec![1, 2.min(cpus), cpus];
        few.dedup();
        vec![self.contended_load("counter", &few), self.pipe(), self.contended_load("lock", &few)]
    }

    /// Returns the experiment of `counter` or `lock` with these numbers of workers.
    pub(super) fn contended_load(&mut self, load: &str, counts: &[usize]) -> Experiment {
        let (variants, unit) = match load {
            "counter" => (COUNTER, "additions"),
            _ => (LOCK, "acquisitions"),
        };
        let cpus = self.machine.cpus as usize;
        let point = |(variant, alone, share): Variant, workers: usize| {
            let in_turn = ["ticket", "mcs"].contains(&variant) && workers > cpus;
            let rate = alone
                * share(workers.min(cpus) as f64)
                * if in_turn { FIFO_OVERSUBSCRIBED_SHARE } else { 1.0 };
            true_treatment(format!("{variant}, {workers} free"), workers, &[("variant", variant)], rate)
        };
        let treatments = variants.iter().flat_map(|&variant| counts.iter().map(move |&n| point(variant, n)));
        let treatments = treatments.collect();
        self.load(load, unit, "workers", treatments)
    }

    /// Returns round trips of one pair: unpinned, on one CPU, and at every distance.
    fn pipe(&mut self) -> Experiment {
        let machine = self.machine.machine();
        let variant = ("variant", "processes");
        let mut treatments = vec![
            true_treatment("processes, 1 free", 1, &[variant], 2e5),
            pinned_pair(&[variant], "same", "0", 2.2e5),
        ];
        for (distance, [a, b]) in TopologyDistance::examples(&machine, &machine.usable()) {
            let rate = 5e4 / (1.0 + distance as usize as f64);
            treatments.push(pinned_pair(
                &[variant],
                distance.name(),
                &CpuSet::from_iter([a, b]).to_string(),
                rate,
            ));
        }
        self.load("pipe", "round trips", "pairs", treatments)
    }

    fn load(&mut self, load: &str, unit: &str, counted: &str, treatments: Vec<TrueTreatment>) -> Experiment {
        let mut experiment = self.slices(&format!("{}{load}", id::CONTENTION), unit, treatments, 0.05);
        experiment.parameters.insert("counted".to_owned(), counted.to_owned());
        experiment
    }
}

/// Returns a pair that is pinned to two CPUs or to one.
fn pinned_pair(variant: &[(&str, &str)], distance: &str, cpus: &str, rate: f64) -> TrueTreatment {
    let factors = [variant, &[("distance", distance), ("cpus", cpus)]].concat();
    true_treatment(format!("processes, on {cpus}"), 1, &factors, rate)
}
