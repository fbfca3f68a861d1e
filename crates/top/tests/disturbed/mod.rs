//! Samples that change at random.

use crate::invented::Random;
use manycore_top::{
    BandwidthSample, CpuTimes, GroupSample, GuestSample, InterruptSample, LatencyHistogram, LatencySample,
    NodeSample, Pressure, ProcessDetails, ProcessSample, Sample, SystemCounters, TaskId, TaskName,
    TaskSample,
};
use manycore_topology::CpuSet;
use std::sync::Arc;

/// Returns a number of any size.
fn any(random: &mut Random) -> u64 {
    random.next() >> random.below(64)
}

fn pressure(random: &mut Random) -> Pressure {
    Pressure { some_ns: any(random) / 4000 * 1000, some_percent: random.below(10_000) as f64 / 100.0 }
}

fn text(random: &mut Random, what: &str) -> Arc<str> {
    format!("{what} {}", random.below(6)).into()
}

/// Changes a sample at random: everything that a kernel can do between two readings, and more.
fn disturb(sample: &mut Sample, random: &mut Random) {
    let maybe = |random: &mut Random, value: u64| (random.below(4) > 0).then_some(value);
    sample.at_ns =
        if random.below(9) == 0 { any(random) } else { sample.at_ns.wrapping_add(random.below(1 << 31)) };
    // The clock is set back or forward.
    sample.unix_ms = if random.below(9) == 0 { any(random) >> 1 } else { sample.unix_ms.wrapping_add(1000) };
    let value = any(random);
    sample.system =
        SystemCounters { switches: maybe(random, value), runnable: Some(random.below(9)), ..sample.system };
    disturb_cpus(sample, random);
    disturb_tasks(sample, random);
    disturb_resources(sample, random);
    disturb_details(sample, random);
}

/// CPUs go offline and come back; counters decrease.
fn disturb_cpus(sample: &mut Sample, random: &mut Random) {
    sample.cpus.retain(|_| random.below(9) > 0);
    for cpu in 0..=(random.below(5) as u32) {
        match sample.cpus.binary_search_by_key(&cpu, |times| times.cpu) {
            Err(at) => sample.cpus.insert(at, CpuTimes { cpu, idle: any(random), ..CpuTimes::default() }),
            Ok(at) => {
                let times = &mut sample.cpus[at];
                times.user = times.user.wrapping_add(random.below(100));
                times.iowait = times.iowait.wrapping_sub(random.below(3));
                (times.khz, times.millidegrees) = (Some(any(random)), Some(any(random) as i32));
            }
        }
    }
}

fn any_task(id: TaskId, random: &mut Random) -> TaskSample {
    let name = TaskName::new(&random.next().to_le_bytes().map(|byte| byte.max(1)));
    let set = Arc::new(CpuSet::single(random.below(5) as u32));
    TaskSample {
        id,
        name,
        state: char::from(b'A' + random.below(26) as u8),
        cpu: random.below(6) as u32,
        run_ns: any(random),
        wait_ns: Some(any(random)).filter(|ns| ns % 2 == 0),
        slices: Some(any(random)).filter(|count| count % 2 == 0),
        voluntary: Some(any(random)).filter(|count| count % 3 > 0),
        involuntary: Some(any(random)),
        uid: Some(random.below(1 << 32) as u32).filter(|uid| uid % 3 > 0),
        allowed: (random.below(2) == 0).then_some(set),
        migrations: (random.below(2) == 0).then(|| Box::new([any(random), 1, 2, 3])),
        resident_kib: any(random),
        ..TaskSample::default()
    }
}

/// Tasks end and begin, some with the id of another one.
fn disturb_tasks(sample: &mut Sample, random: &mut Random) {
    let mut tasks = sample.tasks.to_vec();
    tasks.retain(|_| random.below(9) > 0);
    for _ in 0..random.below(5) {
        let (pid, tid) = (random.below(9) as u32, random.below(9) as u32);
        let new = any_task(TaskId { pid, tid, start: random.below(3) }, random);
        match tasks.binary_search_by_key(&(pid, tid), |task| (task.id.pid, task.id.tid)) {
            Err(at) => tasks.insert(at, new),
            Ok(at) if random.below(2) == 0 => tasks[at] = new,
            Ok(at) => tasks[at].run_ns = tasks[at].run_ns.wrapping_add(random.below(1 << 30)),
        }
    }
    let maybe = |random: &mut Random, value: u64| (random.below(4) > 0).then_some(value);
    sample.processes = tasks
        .chunk_by(|a, b| a.id.pid == b.id.pid)
        .map(|tasks| {
            let sum = tasks.iter().fold(random.below(1 << 26), |sum, task| sum.wrapping_add(task.run_ns));
            let pid = tasks[0].id.pid;
            let cpu_ns = maybe(random, sum);
            ProcessSample { pid, start: tasks[0].id.start, cpu_ns, threads: tasks.len() as u32 }
        })
        .collect();
    sample.tasks = tasks.into();
}

fn disturb_resources(sample: &mut Sample, random: &mut Random) {
    // Wanted or not.
    let count = random.below(5).saturating_sub(1);
    sample.interrupts = (0..count)
        .map(|_| InterruptSample {
            name: text(random, "LOC"),
            handlers: text(random, "handler"),
            counts: (0..random.below(6)).map(|_| any(random)).collect(),
        })
        .collect();
    sample.nodes = (0..count as u32)
        .map(|node| NodeSample {
            node,
            free_kib: any(random),
            missed_pages: Some(any(random)),
            ..NodeSample::default()
        })
        .collect();
    disturb_groups(sample, random, count);
}

fn disturb_groups(sample: &mut Sample, random: &mut Random, count: u64) {
    sample.groups = (0..count)
        .map(|at| GroupSample {
            path: format!("{at}{}", text(random, "/slice")).into(),
            cpu_ns: Some(any(random) / 4000 * 1000),
            quota_milli: Some(any(random)).filter(|quota| quota % 2 == 0),
            pressure: (random.below(2) == 0).then(|| [pressure(random), pressure(random), pressure(random)]),
            ..GroupSample::default()
        })
        .collect();
    sample.guests = (0..count as u32)
        .map(|pid| GuestSample {
            name: text(random, "guest"),
            pid,
            vcpus: (0..random.below(4) as u32).map(|vcpu| (vcpu, any(random) as u32)).collect(),
        })
        .collect();
    sample.bandwidth = (0..count as u32)
        .map(|domain| BandwidthSample {
            group: text(random, "group"),
            domain,
            total_bytes: Some(any(random)),
            local_bytes: None,
            cache_bytes: Some(any(random)),
        })
        .collect();
}

fn disturb_details(sample: &mut Sample, random: &mut Random) {
    let count = random.below(5).saturating_sub(1);
    sample.details = (0..count as u32)
        .map(|pid| {
            let nodes = || (0..pid).map(|node| (node, u64::from(node) * 7)).collect();
            let details = ProcessDetails {
                cgroup: (pid != 1).then(|| text(random, "/a/b").to_string()),
                cpu: (pid != 2).then(|| pressure(random)),
                monitor: (pid != 0).then(|| text(random, "web").to_string()),
                node_kib: (pid != 0).then(nodes),
                ..ProcessDetails::default()
            };
            (pid, details)
        })
        .collect();
    sample.latency = (count > 1).then(|| LatencySample {
        wakeup: LatencyHistogram(std::array::from_fn(|_| any(random))),
        off_cpu: [(text(random, "sleep"), LatencyHistogram::default())].into(),
        conflict_ns: any(random),
        run_ns: (0..random.below(9)).map(|_| any(random)).collect(),
        ..LatencySample::default()
    });
}

/// Samples that have nothing but their order in common with those of a machine.
pub fn disturbed(seed: u64, count: usize) -> Vec<Sample> {
    let (mut random, mut sample) = (Random(seed), Sample::default());
    (0..count)
        .map(|_| {
            disturb(&mut sample, &mut random);
            sample.clone()
        })
        .collect()
}
