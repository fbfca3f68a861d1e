//! Prints the record of a made-up machine, to look at reports of machines that are not at hand:
//! `cargo run -p manycore-testkit --example synthetic giant > giant.json`, `... synthetic giant spin` for light
//! processes that compute, and `... synthetic giant part` for an interrupted record without counters.

use manycore_experiment::{
    record::{CounterDelta, Record},
    spawning::Work,
};
use manycore_testkit::{SlowCause, SyntheticMachine, hosts::InstanceHost};
use std::process::ExitCode;

/// Returns what an older version, or an interrupted run, would have left: some sections, and no counters.
fn partial(mut record: Record) -> Record {
    record
        .experiments
        .retain(|experiment| ["scaling", "latency", "stream"].contains(&experiment.id.as_str()));
    for sample in record.experiments.iter_mut().flat_map(|experiment| &mut experiment.samples) {
        sample.counters = CounterDelta::default();
    }
    record.interrupted = true;
    record
}

fn main() -> ExitCode {
    let world = match std::env::args().nth(1).as_deref() {
        Some("guest") => SyntheticMachine { slow_cause: SlowCause::Steal(0.2), ..SyntheticMachine::guest() },
        Some("server") => SyntheticMachine::server(),
        Some("chiplets") => SyntheticMachine::chiplets(),
        Some("giant") => SyntheticMachine::large_server(),
        Some("giant-chiplets") => SyntheticMachine {
            last_level_caches: 40,
            hostname: "giant-chiplets".to_owned(),
            ..SyntheticMachine::large_server()
        },
        _ => {
            eprintln!(
                "synthetic guest|server|chiplets|giant|giant-chiplets [idle|spin|io|bench|compare|service|tune|density|prove|part]"
            );
            return ExitCode::from(2);
        }
    };
    let record = match std::env::args().nth(2).as_deref() {
        Some("idle") => world.spawn(Work::Idle),
        Some("spin") => world.spawn(Work::Spin),
        Some("io") => world.spawn(Work::Io),
        Some("bench") => world.bench("counter"),
        Some("compare") => world.compare(1.06),
        Some("service") => world.compare_service(0.7),
        Some("density") => {
            world.density([16, 64].map(|cpus| InstanceHost::new(cpus, 0.5, 0.3, 1e9, 7)).to_vec())
        }
        Some("tune") => world.tune(1.12),
        Some("prove") => world.prove(0.3),
        Some("part") => partial(world.record()),
        _ => world.record(),
    };
    match serde_json::to_string(&record) {
        Ok(text) => println!("{text}"),
        Err(error) => {
            eprintln!("synthetic: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
