//! Tests of each policy on invented machines.

mod exact;
mod exports;
mod laws;
mod machines;
mod refusals;
mod shapes;

use crate::{
    CanonicalPlan, Export, ExportFormat, MAX_WORKERS, MemoryPlacement, PlacementPlan, PlannedWorker, Policy,
    Reserve, UnusedCpus,
};
use machines::Form;
use manycore_topology::{CpuSet, Machine};

fn plan(machine: &Machine, place: &str, workers: usize) -> PlacementPlan {
    place.parse::<Policy>().unwrap().plan(machine, workers, &Reserve::Nothing).unwrap()
}

/// Returns the CPUs of each worker.
fn placed(machine: &Machine, place: &str, workers: usize) -> Vec<String> {
    plan(machine, place, workers).workers.iter().map(|worker| worker.cpus.to_string()).collect()
}

/// Returns the same in one line, which is easiest to read for lists of single CPUs.
fn line(machine: &Machine, place: &str, workers: usize) -> String {
    placed(machine, place, workers).join(" ")
}

fn refusal(machine: &Machine, place: &str, workers: usize, reserve: &Reserve) -> String {
    place.parse::<Policy>().unwrap().plan(machine, workers, reserve).unwrap_err().to_string()
}
