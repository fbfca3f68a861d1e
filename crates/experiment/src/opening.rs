//! The start of a record: the machine and its conditions before anything is measured.

use crate::observe::Observer;
use crate::{
    Record,
    record::{Conditions, RECORD_SCHEMA},
};
use manycore_linux::{clock, counters};
use manycore_topology::Machine;
use manycore_topology::{SysTree, cgroup};
use std::path::Path;

/// Returns a record of `verb` without experiments.
pub fn open(verb: &str, machine: Machine, seed: u64, observer: &Observer) -> Record {
    Record {
        schema: RECORD_SCHEMA.to_owned(),
        verb: verb.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: clock::utc(),
        seed,
        conditions: conditions(observer, &machine),
        machine,
        ..Record::default()
    }
}

/// Returns the bytes of memory that the limits of our control groups leave, if there are such limits.
fn memory_left() -> Option<u64> {
    cgroup::memory_left(&SysTree::open(Path::new("/")).ok()?)
}

fn conditions(observer: &Observer, machine: &Machine) -> Conditions {
    let kernel = observer.kernel();
    let cpus: Vec<u32> = machine.online.iter().collect();
    let swap_free = kernel.memory_bytes("SwapFree");
    Conditions {
        load: kernel.load(),
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
        ticks_per_second: counters::ticks_per_second(),
    }
}
