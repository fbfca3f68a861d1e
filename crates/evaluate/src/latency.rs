//! Core-to-core latency: the time in which a cache line gets from one CPU to another, for every pair.

use crate::{
    Suite,
    error::{Error, Result},
    parameters,
};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec, Rng},
    ping_pong::{PingPongSubject, Visits, metrics},
    record::{Experiment, Method, Treatment, factor, id},
};
use manycore_linux::clock::now_ns;
use manycore_topology::{
    Machine, TopologyDistance,
    pairs::{Pair, PairSelection, possible, select},
};
use manycore_workload::latency::{PingPongTime, ROUND_TRIPS};
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// Number of rounds after which the figures no longer change.
const ROUNDS: usize = 50;

/// Shortest and longest time of the bursts in a visit.
const VISIT: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// Seconds of the shortest visit, including the set-up: two threads change their CPU and wake up.
const MIN_VISIT_SECONDS: f64 = 0.001_3;

/// A visit without a burst after this time was prevented from using its CPUs.
const VISIT_TIMEOUT: Duration = Duration::from_millis(100);

/// Multiple of the budget after which no further visit begins, in case visits take longer than planned.
const MAX_BUDGET_FACTOR: f64 = 3.0;

/// Returns the seconds that [`ROUNDS`] rounds over `cpus` CPUs take at most.
pub(super) fn enough_seconds(cpus: usize) -> f64 {
    possible(cpus) as f64 * ROUNDS as f64 * VISIT[1].as_secs_f64() * 1.2
}

/// Measures pairs of CPUs. If one round over all pairs takes longer than the budget, [`select`] selects the
/// pairs, and the record holds the rule and what was left out.
pub(super) fn measure(suite: &mut Suite) -> Result {
    let (cpus, seconds) = (suite.machine().usable(), suite.profile.latency);
    if cpus.len() < 2 {
        return Err(Error::unavailable(format!(
            "core-to-core latency needs two CPUs, but only CPU {cpus} may be used"
        )));
    }
    let PairSelection { pairs, possible, rule } =
        select(suite.machine(), &cpus, ((seconds / MIN_VISIT_SECONDS) as usize).max(1));
    if let Some(rule) = &rule {
        let (measured, left_out) = (pairs.len(), possible - pairs.len());
        suite.session.record_missing(
            &format!("core-to-core latency of {left_out} of {possible} pairs of CPUs"),
            &format!("a larger budget measures all of them; these {measured} were measured: {rule}"),
        );
    }
    let visit = PingPongTime { length: length(seconds, pairs.len()), timeout: VISIT_TIMEOUT };
    let spec = ExperimentSpec {
        metrics: metrics(),
        parameters: parameters([
            ("cpus", cpus.to_string()),
            ("round_trips", ROUND_TRIPS.to_string()),
            ("visit_us", visit.length.as_micros().to_string()),
        ])
        .into_iter()
        .chain(rule.map(|rule| ("rule".to_owned(), rule)))
        .collect(),
        treatments: pairs.iter().map(|&pair| treatment(suite.machine(), pair)).collect(),
        budget: Budget { max_blocks: ROUNDS, ..Budget::seconds(seconds) },
        ..ExperimentSpec::new(id::LATENCY, Method::WholeRun, "transfers")
    };
    let end_ns = now_ns() + (seconds * MAX_BUDGET_FACTOR * 1e9) as u64;
    let rng = Rng::seed_from_u64(suite.session.rng.random());
    let mut subject = PingPongSubject::new(pairs, visit, rng, suite.session.origin_ns, end_ns)?;
    let ending = suite.experiment(spec, &mut subject, (0.0, 1.0));
    record_unmeasured_pairs(suite);
    ending
}

/// Returns the time of the bursts in a visit, chosen so that [`ROUNDS`] rounds fit into the budget if
/// possible.
fn length(seconds: f64, pairs: usize) -> Duration {
    let each = seconds / (pairs.max(1) * ROUNDS) as f64 / 1.2;
    Duration::from_secs_f64(each.max(0.0)).clamp(VISIT[0], VISIT[1])
}

fn treatment(machine: &Machine, [a, b]: Pair) -> Treatment {
    let distance = serde_json::to_value(TopologyDistance::between(machine, a, b)).unwrap_or_default();
    Treatment {
        name: format!("{a}-{b}"),
        workers: 2,
        factors: parameters([
            (factor::FIRST_CPU, a.to_string()),
            (factor::SECOND_CPU, b.to_string()),
            (factor::DISTANCE, distance.as_str().unwrap_or_default().to_owned()),
        ]),
        latency: None,
    }
}

/// Notes the pairs that have no figure.
fn record_unmeasured_pairs(suite: &mut Suite) {
    let Some(experiment) = suite.session.record.experiments.last().filter(|last| last.id == id::LATENCY)
    else {
        return;
    };
    let names = unmeasured(experiment);
    if let Some(first) = names.first() {
        let what = format!("core-to-core latency of {} pairs of CPUs, such as {first}", names.len());
        suite.session.record_missing(
            &what,
            "the two CPUs were not available at the same time in most visits: offline, busy with other tasks, or no \
             longer allowed",
        );
    }
}

/// Returns the names of the pairs that have no figure.
fn unmeasured(experiment: &Experiment) -> Vec<&str> {
    let pairs = experiment.treatments.iter().zip(Visits::by_pair(experiment));
    pairs.filter(|(_, visits)| !visits.suffice()).map(|(pair, _)| pair.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::{SyntheticMachine, distance_ns, latency_experiment};

    #[test]
    fn pairs_whose_visits_mostly_failed_are_named() {
        let machine = SyntheticMachine { blocks: 0, ..SyntheticMachine::server() }.record().machine;
        let mut experiment = latency_experiment(&machine, &distance_ns, 0.01, 10, 1);
        assert!(unmeasured(&experiment).is_empty());
        let fail = |experiment: &mut Experiment, pair: usize, visits: usize| {
            for sample in experiment.samples.iter_mut().filter(|sample| sample.treatment == pair).take(visits)
            {
                (sample.work, sample.values) = (0.0, vec![0.0; 3]);
                sample.counters.span_ns = 1_000_000;
            }
        };
        fail(&mut experiment, 3, 4);
        assert!(unmeasured(&experiment).is_empty(), "6 of 10 visits gave a figure");
        fail(&mut experiment, 3, 5);
        assert_eq!(unmeasured(&experiment), [experiment.treatments[3].name.as_str()]);
    }

    #[test]
    fn visits_are_short_where_there_are_many() {
        assert_eq!(length(4.0, 1), VISIT[1]);
        assert_eq!(length(4.0, 120), VISIT[0]);
        assert_eq!(length(20.0, 120).as_micros(), 2777);
    }

    #[test]
    fn two_cpus_take_little_time() {
        assert!(enough_seconds(2) < 1.0);
        assert!(enough_seconds(1) < f64::EPSILON);
    }
}
