//! Processes that load memory. Worker processes run the executable of the coordinator, which is this test
//! program. So it has no test harness.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

use clap::Parser;
use manycore::source;
use manycore_experiment::{
    Error, counters::CounterReader, engine::Subject, memory_loaders, pool_subject::PoolSubject,
    sampling::SamplingMode,
};
use manycore_linux::{affinity, clock::now_ns};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::stream::{Kernel, Stores, Task, Work};
use std::{fs, process::ExitCode, rc::Rc, time::Duration};

const BYTES: u64 = 8 << 20;

/// The tests by name, for cargo and for cargo-nextest, which runs each of them in a process of its own.
const TESTS: [(&str, fn()); 2] = [
    ("every_process_has_its_cpu_and_its_memory", every_process_has_its_cpu_and_its_memory),
    ("a_node_that_is_not_there_is_reported", a_node_that_is_not_there_is_reported),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|subcommand| subcommand == "worker") {
        return manycore::cmd::run(manycore::cli::Cli::parse())
            .map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let selects =
        |filter: &str, name: &str| if has("--exact") { filter == name } else { name.contains(filter) };
    if has("--list") {
        // None of them is ignored.
        TESTS.iter().filter(|_| !has("--ignored")).for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut passed = 0;
    for (name, test) in TESTS {
        if filters.is_empty() || filters.iter().any(|filter| selects(filter, name)) {
            test();
            passed += 1;
        }
    }
    println!("test result: ok. {passed} passed");
    ExitCode::SUCCESS
}

fn live(cpus: &[CpuId], task: Task) -> PoolSubject {
    let (pool, trial) = memory_loaders::start(cpus, task).unwrap();
    let counter_reader = Rc::new(CounterReader::new(&source::live().unwrap()));
    let mode =
        SamplingMode::Slices { slice: Duration::from_millis(100), settling_time: Duration::from_millis(10) };
    PoolSubject::new(pool, counter_reader, mode, vec![trial], now_ns())
}

/// Returns the bytes of the process that are bound to `node`: those on that node, and those elsewhere
/// (`numa(7)`).
fn bound(pid: u32, node: u16) -> Option<(u64, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/numa_maps")).ok()?;
    let (mut here, mut elsewhere) = (0, 0);
    for line in maps.lines().filter(|line| line.split(' ').nth(1) == Some(&format!("bind:{node}"))) {
        let words = || line.split(' ').filter_map(|word| word.split_once('='));
        let size = words().find(|(name, _)| *name == "kernelpagesize_kB")?.1.parse::<u64>().ok()? * 1024;
        let pages = words().filter_map(|(name, count)| {
            Some((name.strip_prefix('N')?.parse::<u16>().ok()?, count.parse::<u64>().ok()?))
        });
        for (on, count) in pages {
            *if on == node { &mut here } else { &mut elsewhere } += count * size;
        }
    }
    Some((here, elsewhere))
}

fn every_process_has_its_cpu_and_its_memory() {
    let machine = source::live().unwrap();
    let cpus: Vec<CpuId> = machine.usable().iter().take(2).collect();
    let node = machine.nodes[0].id as u16;
    let work = Work { kernel: Kernel::Triad, stores: Stores::NonTemporal };
    let mut task = Task { work, node: Some(node), bytes: BYTES };
    let mut team = live(&cpus, task);
    if let Err(Error::Failed(why)) = team.prepare() {
        eprintln!("SKIPPED: memory cannot be bound here: {why}");
        task.node = None;
        team = live(&cpus, task);
        team.prepare().unwrap();
    }
    let ids = team.worker_ids();
    assert_eq!(ids.len(), cpus.len());
    for (&pid, &cpu) in ids.iter().zip(&cpus) {
        assert_ne!(pid, std::process::id());
        assert_eq!(affinity::of_thread(pid).unwrap(), CpuSet::single(cpu));
        match bound(pid, node).filter(|_| task.node.is_some()) {
            Some((here, elsewhere)) => {
                assert!(here >= 3 * BYTES && elsewhere == 0, "{here} here, {elsewhere} elsewhere");
            }
            None => eprintln!("SKIPPED: there is no numa_maps"),
        }
    }
    let sample = team.measure(0).unwrap();
    assert_eq!(sample.per_worker.len(), cpus.len());
    assert!(sample.rate() > 1e7, "{} bytes per second", sample.rate());
    let whole = sample.work / work.per_tick() as f64;
    assert_eq!(whole.fract(), 0.0, "whole ticks");
    assert_eq!(team.worker_ids(), ids);
}

fn a_node_that_is_not_there_is_reported() {
    let cpu = source::live().unwrap().usable().first().unwrap();
    let task = Task { work: Work::READ, node: Some(1023), bytes: BYTES };
    match live(&[cpu], task).prepare() {
        Err(Error::Failed(why)) => assert!(why.contains("worker process 0 ended"), "{why}"),
        other => panic!("{other:?}"),
    }
}
