//! Synthetic records of commands: comparisons, searches and checks of limits.

use super::{
    SyntheticMachine,
    experiments::{Simulation, TrueTreatment, true_treatment},
};
use manycore_experiment::record::{Direction, Experiment, Metric, Record, variant_label};

/// The command of all of them, as the record holds it.
const COMMAND: &str = "gzip -9 -k -c big.log";

impl SyntheticMachine {
    /// Returns the record that `compare` would measure where B, placed close together, does `ratio` times the work of A.
    pub fn compare(&self, ratio: f64) -> Record {
        let treatments = vec![
            true_treatment(COMMAND, 1, &[("variant", "A")], 0.5),
            true_treatment(format!("{COMMAND} (close)"), 1, &[("variant", "B")], 0.5 * ratio),
        ];
        self.of_command("compare", |simulation| vec![timed(simulation, "compare", treatments)])
    }

    /// Returns the record that `compare` would measure of variants that do so many times the work of A, the first one.
    pub fn compare_variants(&self, ratios: &[f64]) -> Record {
        let treatment = |(index, ratio): (usize, &f64)| {
            let factors = [("variant", &*variant_label(index))];
            true_treatment(format!("gzip -{} -k -c big.log", 9 - index), 1, &factors, 0.5 * ratio)
        };
        let treatments = ratios.iter().enumerate().map(treatment).collect();
        self.of_command("compare", |simulation| vec![timed(simulation, "compare", treatments)])
    }

    /// Returns the record that `compare --service` would measure where the service, pinned to CPU 0, does `ratio` times
    /// the requests of the unpinned one, and takes five times the memory.
    pub fn compare_service(&self, ratio: f64) -> Record {
        const LOAD: &str = "redis-benchmark -p 7777 -q -t get -n 20000";
        let treatment = |letter, place: &str, rate| {
            let factors = [("variant", letter), ("command", LOAD), ("place", place)];
            true_treatment(format!("{LOAD} ({place})"), 1, &factors, rate)
        };
        let treatments = vec![treatment("A", "free", 4e4), treatment("B", "cpus=0", 4e4 * ratio)];
        let record = self.of_command("compare", |simulation| {
            let mut experiment = simulation.whole_runs("compare", "requests", treatments, 2e4);
            let service = [("service", "redis-server --port 7777"), ("load_cpus", "1")];
            experiment.parameters =
                service.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
            experiment.metrics = service_metrics();
            for sample in &mut experiment.samples {
                let seconds = sample.wall_ns as f64 / 1e9;
                let memory = if sample.treatment == 0 { 8.0 } else { 40.0 };
                sample.values =
                    vec![sample.work / seconds, seconds * 0.4, seconds, seconds * 0.1, memory + seconds];
            }
            vec![experiment]
        });
        Record { subject: LOAD.to_owned(), ..record }
    }

    /// Returns the record that `tune` would measure where the best placement does `ratio` times the work of today's.
    pub fn tune(&self, ratio: f64) -> Record {
        let places = ["spread@llc", "close", "spread", "close+nosmt"];
        let candidates = |count: usize| -> Vec<TrueTreatment> {
            let rate = |index: usize| 0.5 * (1.0 + (ratio - 1.0) / (index + 1) as f64);
            let candidate = |(index, place): (usize, &&str)| {
                let command = format!("manycore run --place {place} -- {COMMAND}");
                let factors = [("variant", "candidate"), ("command", command.as_str())];
                true_treatment(format!("8 workers, {place}"), 8, &factors, rate(index))
            };
            let today = true_treatment("today", 8, &[("variant", "today"), ("command", COMMAND)], 0.5);
            std::iter::once(today).chain(places.iter().take(count).enumerate().map(candidate)).collect()
        };
        self.of_command("tune", |simulation| {
            [("tune-1", 4), ("tune-2", 2), ("tune-confirm", 2)]
                .map(|(id, count)| timed(simulation, id, candidates(count)))
                .into()
        })
    }

    /// Returns the record that `qos prove` would measure where a limit leaves `share` of the bandwidth.
    pub fn prove(&self, share: f64) -> Record {
        let treatments =
            vec![true_treatment("with", 1, &[], 1e10 * share), true_treatment("without", 1, &[], 1e10)];
        let record = self.of_command("qos prove", |simulation| {
            vec![simulation.slices("qos-bandwidth", "bytes", treatments, 0.2)]
        });
        Record { subject: String::new(), ..record }
    }

    /// Returns the record of `subcommand` with these experiments.
    fn of_command(
        &self,
        subcommand: &str,
        experiments: impl FnOnce(&mut Simulation) -> Vec<Experiment>,
    ) -> Record {
        let mut simulation = Simulation::new(self);
        let experiments = experiments(&mut simulation);
        Record {
            subcommand: subcommand.to_owned(),
            subject: COMMAND.to_owned(),
            profile: String::new(),
            seconds: simulation.seconds(),
            not_measured: Vec::new(),
            experiments,
            ..self.record()
        }
    }
}

/// Returns the metrics of a load on a service.
fn service_metrics() -> Vec<Metric> {
    use Direction::{Higher, Lower};
    let metric = |(name, unit, better): (&str, &str, Direction)| Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        better,
    };
    let metrics = [
        ("requests", "requests/s", Higher),
        ("p50", "ms", Lower),
        ("wall", "s", Lower),
        ("cpu", "s", Lower),
        ("memory", "MiB", Lower),
    ];
    metrics.map(metric).into()
}

/// Returns an experiment on whole runs of a command, with its wall time as the metric.
fn timed(simulation: &mut Simulation, id: &str, treatments: Vec<TrueTreatment>) -> Experiment {
    let mut experiment = simulation.whole_runs(id, "runs", treatments, 1.0);
    experiment.metrics =
        vec![Metric { name: "wall".to_owned(), unit: "s".to_owned(), better: Direction::Lower }];
    for sample in &mut experiment.samples {
        sample.values = vec![sample.wall_ns as f64 / 1e9];
    }
    experiment
}
