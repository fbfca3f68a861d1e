//! An invented machine under load, of which everything is known that a sample can have.

use manycore_top::{
    BandwidthSample, CpuTimes, GroupSample, InterruptSample, LatencyHistogram, LatencySample, NodeSample,
    Pressure, ProcessDetails, ProcessSample, Sample, SystemCounters, TaskId, TaskName, TaskSample,
    findings::{Finding, FindingKind},
    serve::NamedUnit,
};
use manycore_topology::{CpuSet, Level, Machine, SysTree, read, synthetic::MachineSpec};
use std::{collections::BTreeMap, time::Duration};

const HOSTILE: [&str; 4] = ["<img src=x>", "</script>x", "\u{1b}[2J\u{202e}gpj", "\"'&amp;"];

/// Number of processes, each with one thread.
const PROCESSES: u32 = 200;

/// The control group of [`named`].
const GROUP: &str = "/db";

/// Returns a machine with up to four nodes.
pub fn machine(cpus: u32) -> Machine {
    let nodes = (cpus / 32).clamp(1, 4);
    let per_node = cpus / nodes;
    let caches = (per_node / 32).max(1);
    let clusters = (per_node / caches / 4).max(1);
    let cores = per_node / caches / clusters;
    let spec =
        MachineSpec { packages: 1, nodes, caches, clusters, cores, threads: 1, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

/// Returns what the user of the invented machine has named.
pub fn named() -> NamedUnit {
    NamedUnit { name: "<b>db</b>".to_owned(), processes: (1..9).collect(), group: Some(GROUP.to_owned()) }
}

/// Returns a finding with a hostile name in it.
#[allow(dead_code, reason = "only the example uses it")]
pub fn finding() -> Finding {
    Finding {
        kind: FindingKind::CrowdedCpu,
        text: "<img src=x> and </script>x wait for CPU 3 while CPU 9 is idle".to_owned(),
        fix: Some("manycore pin --pid 7 --cpus 9".to_owned()),
        seconds: 12.0,
    }
}

/// Share of a CPU or process that is busy, in percent.
fn share(number: u32) -> u64 {
    u64::from(number * 37 % 101)
}

/// Returns the sample after a time. Rates are constant: CPU `n` is busy for `37 n mod 101` percent of the time, 80 % of
/// that in user mode, 8 % in softirqs and 12 % stolen.
pub fn sample(machine: &Machine, at: Duration) -> Sample {
    let ms = at.as_millis() as u64;
    let ticks = ms / 10;
    Sample {
        at_ns: at.as_nanos() as u64,
        unix_ms: std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64,
        system: SystemCounters {
            switches: Some(ms * 12),
            created: Some(ms / 10),
            runnable: Some(7),
            blocked: Some(1),
            memory_kib: Some(512 << 20),
            available_kib: Some(300 << 20),
        },
        cpus: machine.online.iter().map(|cpu| times(cpu, ticks)).collect(),
        tasks: (1..=PROCESSES).map(|number| task(number, at, machine.online.len() as u32)).collect(),
        processes: (1..=PROCESSES).map(process).collect(),
        interrupts: interrupts(machine, ms),
        nodes: (0..machine.units(Level::Node).len() as u32).map(|number| node(number, ms)).collect(),
        groups: vec![group("/", ms), group(GROUP, ms)],
        bandwidth: vec![bandwidth(ms)],
        details: named().processes.iter().map(|&pid| (pid, details())).collect(),
        latency: Some(latency(ms)),
        ..Sample::default()
    }
}

fn times(cpu: u32, ticks: u64) -> CpuTimes {
    let part = |percent: u64| share(cpu) * ticks * percent / 10_000;
    let (user, softirq, steal) = (part(80), part(8), part(12));
    let idle = ticks - user - softirq - steal;
    CpuTimes {
        cpu,
        user,
        softirq,
        steal,
        idle,
        khz: Some(2_500_000),
        millidegrees: Some(51_500),
        ..CpuTimes::default()
    }
}

fn task(number: u32, at: Duration, cpus: u32) -> TaskSample {
    let ns = at.as_nanos() as u64;
    TaskSample {
        id: TaskId { pid: number, tid: number, start: 1 },
        name: TaskName::new(HOSTILE[number as usize % HOSTILE.len()].as_bytes()),
        state: if number.is_multiple_of(3) { 'R' } else { 'S' },
        cpu: (u64::from(number) * at.as_secs() % u64::from(cpus)) as u32,
        run_ns: share(number) * ns / 100,
        wait_ns: Some(share(number) * ns / 200),
        voluntary: Some(ns / 1_000_000),
        involuntary: Some(ns / 10_000_000),
        migrations: Some(Box::new([ns / 5_000_000, ns / 10_000_000, 0, ns / 100_000_000])),
        resident_kib: u64::from(number) << 12,
        ..TaskSample::default()
    }
}

fn process(pid: u32) -> ProcessSample {
    ProcessSample { pid, start: 1, cpu_ns: None, threads: 1 }
}

fn interrupts(machine: &Machine, ms: u64) -> Vec<InterruptSample> {
    let counts = |rate: u64| vec![ms * rate; CpuSet::len(&machine.online)];
    vec![
        InterruptSample { name: "24".into(), handlers: "nvme0q1".into(), counts: counts(2) },
        InterruptSample { name: "softirq NET_RX".into(), handlers: "".into(), counts: counts(3) },
    ]
}

fn node(node: u32, ms: u64) -> NodeSample {
    NodeSample {
        node,
        total_kib: 128 << 20,
        free_kib: 64 << 20,
        file_kib: 16 << 20,
        local_pages: Some(ms * 3),
        other_pages: Some(ms),
        missed_pages: Some(0),
    }
}

fn group(path: &str, ms: u64) -> GroupSample {
    let some = |percent: u64| Pressure { some_ns: ms * percent * 10_000, some_percent: percent as f64 };
    GroupSample {
        path: path.into(),
        cpu_ns: Some(ms * 2_500_000),
        throttled_ns: Some(ms * 100_000),
        quota_milli: Some(4000),
        pressure: Some([some(20), some(1), some(3)]),
        ..GroupSample::default()
    }
}

fn bandwidth(ms: u64) -> BandwidthSample {
    let (total_bytes, local_bytes) = (Some(ms << 20), Some(ms << 19));
    BandwidthSample { group: "/".into(), domain: 0, total_bytes, local_bytes, cache_bytes: None }
}

fn details() -> ProcessDetails {
    ProcessDetails {
        node_kib: Some(BTreeMap::from([(0, 1 << 20), (1, 1 << 10)])),
        ..ProcessDetails::default()
    }
}

fn latency(ms: u64) -> LatencySample {
    let histogram =
        LatencyHistogram(std::array::from_fn(|class| if class < 12 { ms / (class as u64 + 1) } else { 0 }));
    LatencySample {
        wakeup: histogram,
        displaced: histogram,
        conflict_ns: ms * 50_000,
        run_ns: Vec::new(),
        ..LatencySample::default()
    }
}
