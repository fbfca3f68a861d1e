//! Prints the record of a made-up machine, to look at reports of machines that are not at hand:
//! `cargo run -p manycore-testkit --example synthetic giant > giant.json`, and `... synthetic giant spin` for light
//! processes that compute.

use manycore_experiment::spawning::Work;
use manycore_testkit::{SlowCause, SyntheticMachine};
use std::process::ExitCode;

fn main() -> ExitCode {
    let world = match std::env::args().nth(1).as_deref() {
        Some("guest") => SyntheticMachine { slow_cause: SlowCause::Steal(0.2), ..SyntheticMachine::guest() },
        Some("server") => SyntheticMachine::server(),
        Some("giant") => SyntheticMachine::large_server(),
        _ => {
            eprintln!("synthetic guest|server|giant [idle|spin|io]");
            return ExitCode::from(2);
        }
    };
    let record = match std::env::args().nth(2).as_deref() {
        Some("idle") => world.spawn(Work::Idle),
        Some("spin") => world.spawn(Work::Spin),
        Some("io") => world.spawn(Work::Io),
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
