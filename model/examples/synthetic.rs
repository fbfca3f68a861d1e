//! Prints the record of a made-up machine, to look at reports of machines that are not at hand:
//! `cargo run -p manycore-model --example synthetic giant > giant.json`.

use manycore_model::synthetic::{Trouble, World};
use std::process::ExitCode;

fn main() -> ExitCode {
    let world = match std::env::args().nth(1).as_deref() {
        Some("guest") => World { trouble: Trouble::Steal(0.2), ..World::guest() },
        Some("server") => World::server(),
        Some("giant") => World::giant(),
        _ => {
            eprintln!("synthetic guest|server|giant");
            return ExitCode::from(2);
        }
    };
    match serde_json::to_string(&world.record()) {
        Ok(text) => println!("{text}"),
        Err(error) => {
            eprintln!("synthetic: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
