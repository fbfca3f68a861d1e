//! The start of a record: the machine and its conditions before anything is measured.

use crate::{
    Record,
    counters::CounterReader,
    record::{RECORD_SCHEMA, StartConditions},
};
use manycore_linux::{clock, counters::ticks_per_second};
use manycore_topology::{Machine, SysTree, cgroup};
use std::path::Path;

/// Returns a record of `subcommand` without experiments.
pub fn new_record(subcommand: &str, machine: Machine, seed: u64, counter_reader: &CounterReader) -> Record {
    Record {
        schema: RECORD_SCHEMA.to_owned(),
        subcommand: subcommand.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: clock::utc(),
        seed,
        conditions: conditions(counter_reader, &machine),
        machine,
        ..Record::default()
    }
}

/// Returns the bytes of memory that the limits of our control groups leave, if there are such limits.
fn memory_left() -> Option<u64> {
    cgroup::memory_left(&SysTree::open(Path::new("/")).ok()?)
}

fn conditions(counter_reader: &CounterReader, machine: &Machine) -> StartConditions {
    let kernel = counter_reader.kernel();
    let cpus: Vec<u32> = machine.online.iter().collect();
    let swap_free = kernel.memory_bytes("SwapFree");
    StartConditions {
        load_average: kernel.load(),
        memory_available_bytes: kernel
            .memory_bytes("MemAvailable")
            .map(|available| available.min(memory_left().unwrap_or(u64::MAX))),
        swap_used_bytes: kernel
            .memory_bytes("SwapTotal")
            .zip(swap_free)
            .map(|(all, free)| all.saturating_sub(free)),
        cpu_pressure_percent: kernel.cpu_pressure().map(|(_, avg10)| avg10),
        governors: kernel.governors(&cpus),
        turbo: kernel.turbo(),
        clock_source: kernel.clock_source(),
        ticks_per_second: ticks_per_second(),
    }
}
