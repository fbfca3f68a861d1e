//! The start of a record: the machine and its conditions before anything is measured.

use crate::{
    Record,
    counters::CounterReader,
    record::{RECORD_SCHEMA, StartConditions},
};
use manycore_linux::{clock, counters::ticks_per_second};
use manycore_topology::{Machine, SysTree, cgroup};
use std::{collections::BTreeMap, fs, path::Path};

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
        microcode: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(microcode),
        settings: settings(),
        ticks_per_second: ticks_per_second(),
    }
}

/// Settings of the kernel and their files.
const SETTINGS: [(&str, &str); 5] = [
    ("thp", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("numa_balancing", "/proc/sys/kernel/numa_balancing"),
    ("aslr", "/proc/sys/kernel/randomize_va_space"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    ("autogroup", "/proc/sys/kernel/sched_autogroup_enabled"),
];

fn settings() -> BTreeMap<String, String> {
    let read = |(name, path): (&str, &str)| Some((name.to_owned(), chosen(&fs::read_to_string(path).ok()?)));
    SETTINGS.into_iter().filter_map(read).collect()
}

/// Returns the chosen word of `always [madvise] never`, or the whole value.
fn chosen(text: &str) -> String {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    word.unwrap_or(text).trim().to_owned()
}

/// Returns the revision in the text of `/proc/cpuinfo`.
fn microcode(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("microcode"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_the_setting() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("2\n"), "2");
    }

    #[test]
    fn the_microcode_of_the_first_cpu_is_read() {
        assert_eq!(microcode("model\t: 1\nmicrocode\t: 0xd0003d1\n").as_deref(), Some("0xd0003d1"));
        assert_eq!(microcode("CPU part\t: 0xd0c\n"), None);
    }
}
