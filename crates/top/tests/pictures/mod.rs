//! Invented machines and pictures, for tests and for looking at the view.
#![allow(dead_code, reason = "each user needs some of it")]

use manycore_top::{
    CountedUse, CpuShares, CpuUse, GroupSample, GroupUse, GuestSample, InterruptUse, LATENCY_CLASSES,
    LatencyHistogram, LatencySample, Migration, NodeSample, NodeUse, Picture, Plan, ProcessDetails,
    ProcessUse, TaskId, TaskName, TaskUse, UnitUse,
};
use manycore_topology::{
    CpuSet, Level, Machine, SysTree, read,
    synthetic::{MachineSpec, Numbering},
};
use std::{collections::BTreeMap, sync::Arc};

/// Numbers that look random and are the same each time (the generator `splitmix64`).
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        (self.share() * most as f64) as usize
    }
}

/// Returns the machine of a specification.
pub fn machine(spec: &MachineSpec) -> Machine {
    let mut machine = read(&SysTree::from_capture(spec.capture())).unwrap();
    machine.system.hostname = Some("invented".to_owned());
    machine
}

/// Two packages of two nodes, each with two last-level caches of clusters of four cores.
pub fn server(clusters: u32, threads: u32) -> Machine {
    machine(&MachineSpec {
        packages: 2,
        nodes: 2,
        caches: 2,
        clusters,
        cores: 4,
        threads,
        numbering: Numbering::Halves,
        ..MachineSpec::default()
    })
}

const NAMES: [&[u8]; 9] = [
    b"postgres",
    b"redis-server",
    b"java",
    b"kworker/3:1-mm_",
    b"qemu-system-x86",
    b"nginx",
    "数据库服务器".as_bytes(),
    b"\x1b[2J\x1b]0;evil\x07",
    b"cc1plus",
];

/// Returns a picture with tasks, the same for the same seed. The first node is busy, the others mostly idle.
pub fn picture(machine: &Machine, tasks: usize, seed: u64) -> Picture {
    let mut numbers = Numbers(seed);
    let cpus: Vec<u32> = machine.online.iter().collect();
    let busy: Vec<f64> = (0..cpus.len())
        .map(|at| {
            let level = if at % cpus.len().div_ceil(4).max(2) < cpus.len() / 8 + 1 { 0.9 } else { 0.15 };
            (level * (0.3 + numbers.share())).min(1.0)
        })
        .collect();
    let uses = cpus.iter().zip(&busy).map(|(&cpu, &busy)| cpu_use(cpu, busy, &mut numbers)).collect();
    let mut list = Vec::with_capacity(tasks);
    let mut processes: Vec<ProcessUse> = Vec::new();
    let all = Arc::new(machine.online.clone());
    while list.len() < tasks {
        let pid = 1000 + list.len() as u32 * 3;
        let threads = (1 + numbers.below(12)).min(tasks - list.len());
        let parent = processes.get(numbers.below(processes.len() + 1)).map_or(1, |parent| parent.pid);
        let name = TaskName::new(NAMES[numbers.below(NAMES.len())]);
        let first = list.len();
        list.extend(
            (0..threads as u32).map(|at| task(pid, pid + at, parent, name, &cpus, &all, &mut numbers)),
        );
        let run = list[first..].iter().map(|task: &TaskUse| task.run).sum();
        processes.push(ProcessUse {
            pid,
            start: 7,
            run: Some(run),
            threads: threads as u32,
            wait: None,
            counted: None,
        });
    }
    let mut picture = Picture {
        seconds: 1.0,
        cpus: uses,
        tasks: list,
        processes,
        runnable: Some(7),
        blocked: Some(1),
        switches: Some(12_345.0),
        created: Some(3.0),
        unix_ms: 1_700_000_000_000,
        memory_kib: Some((64 << 20, 41 << 20)),
        users: Arc::new(BTreeMap::from([(0, "root".into())])),
        ..Picture::default()
    };
    for task in &picture.tasks {
        let cpu = picture.cpus.iter_mut().find(|one| one.cpu == task.cpu).unwrap();
        cpu.wait = Some(cpu.wait.unwrap_or(0.0) + task.wait.unwrap_or(0.0));
        cpu.runnable += usize::from(task.state == 'R');
    }
    picture.units = [Level::Cluster, Level::Llc, Level::Node]
        .iter()
        .flat_map(|&level| units(machine, level, &picture))
        .collect();
    picture
}

fn cpu_use(cpu: u32, busy: f64, numbers: &mut Numbers) -> CpuUse {
    let steal = if cpu % 7 == 3 { 0.05 } else { 0.0 };
    let busy = busy * (1.0 - steal);
    let shares = CpuShares {
        user: busy * 0.7,
        nice: 0.0,
        system: busy * 0.25,
        idle: 1.0 - busy - steal,
        iowait: 0.0,
        irq: busy * 0.02,
        softirq: busy * 0.03,
        steal,
    };
    CpuUse {
        cpu,
        shares: Some(shares),
        khz: Some(1_200_000 + (2_000_000.0 * numbers.share()) as u64),
        ..CpuUse::default()
    }
}

fn task(
    pid: u32,
    tid: u32,
    parent: u32,
    name: TaskName,
    cpus: &[u32],
    all: &Arc<CpuSet>,
    numbers: &mut Numbers,
) -> TaskUse {
    let is_busy = numbers.share() < 0.2;
    let run = if is_busy { numbers.share() } else { 0.0 };
    let migration = [
        None,
        None,
        None,
        Some(Migration::WithinCluster),
        Some(Migration::AcrossLlc),
        Some(Migration::AcrossNode),
    ][numbers.below(6)];
    TaskUse {
        id: TaskId { pid, tid, start: 7 },
        name,
        parent,
        uid: Some(if pid.is_multiple_of(3) { 1000 } else { 0 }),
        is_kernel: name.printable().starts_with("kworker"),
        is_new: false,
        state: if run > 0.6 { 'R' } else { 'S' },
        cpu: cpus[numbers.below(cpus.len())],
        run,
        wait: Some(if is_busy { numbers.share() * 0.4 } else { 0.0 }),
        slices: Some(run * 100.0),
        voluntary: Some((run * 900.0).round()),
        involuntary: Some((run * 40.0).round()),
        migration: migration.filter(|_| is_busy),
        migrations: None,
        allowed: Some(Arc::clone(all)),
        plan: Some(plan_of(pid, all)),
        resident_kib: 1000 + numbers.below(4_000_000) as u64,
        counted: None,
    }
}

/// One process of ten was placed; one of fifty is elsewhere.
fn plan_of(pid: u32, all: &Arc<CpuSet>) -> Plan {
    match pid % 50 {
        20 => Plan::Broken(Arc::clone(all)),
        at if at.is_multiple_of(10) => Plan::Kept(Arc::clone(all)),
        _ => Plan::None,
    }
}

fn units(machine: &Machine, level: Level, picture: &Picture) -> Vec<UnitUse> {
    let sum = |(number, cpus): (usize, &CpuSet)| {
        let node = machine.nodes.iter().find(|node| level == Level::Node && node.cpus == *cpus);
        let mut unit = UnitUse {
            level,
            number: node.map_or(number as u32, |node| node.id),
            cpus: cpus.clone(),
            shares: CpuShares::default(),
            known: 0,
            task_run: 0.0,
            task_wait: 0.0,
            runnable: 0,
        };
        for one in picture.cpus.iter().filter(|one| cpus.contains(one.cpu)) {
            unit.shares.user += one.shares.map_or(0.0, |shares| shares.busy());
            unit.known += 1;
        }
        for task in picture.tasks.iter().filter(|task| cpus.contains(task.cpu)) {
            unit.task_wait += task.wait.unwrap_or(0.0);
            unit.runnable += usize::from(task.state == 'R');
        }
        unit
    };
    machine.units(level).into_iter().enumerate().map(sum).collect()
}

/// Adds what is read only if it is wanted.
pub fn add_resources(picture: &mut Picture, machine: &Machine) {
    let mut numbers = Numbers(5);
    let cpus: Vec<u32> = machine.online.iter().collect();
    for (name, handlers) in [("130", "nvme0q1"), ("LOC", "Local timer interrupts"), ("softirq NET_RX", "")] {
        let by_cpu: Vec<(u32, f64)> =
            cpus.iter().take(8).map(|&cpu| (cpu, (numbers.share() * 4000.0).round())).collect();
        let per_second = by_cpu.iter().map(|(_, rate)| rate).sum();
        picture.interrupts.push(InterruptUse {
            name: name.into(),
            handlers: handlers.into(),
            per_second,
            by_cpu,
        });
    }
    for node in machine.nodes.iter().map(|node| node.id) {
        let now = NodeSample {
            node,
            total_kib: 16 << 20,
            free_kib: (3 + u64::from(node)) << 20,
            file_kib: 2 << 20,
            ..NodeSample::default()
        };
        let rates = [12_000.0, 300.0 * f64::from(node), 0.0].map(Some);
        picture.nodes.push(NodeUse { now, local: rates[0], other: rates[1], missed: rates[2] });
    }
    for (path, cpu) in [("/system.slice/redis.service", 0.7), ("/user.slice", 2.25)] {
        let now = GroupSample {
            path: path.into(),
            memory_bytes: Some(300 << 20),
            quota_milli: Some(1500),
            processes: 3,
            ..GroupSample::default()
        };
        let pressure = Some([0.12, 0.0, 0.01]);
        picture.groups.push(GroupUse { now, cpu: Some(cpu), throttled: Some(0.05), pressure });
    }
    if let Some(first) = picture.tasks.first() {
        let vcpus = picture.tasks.iter().filter(|task| task.id.pid == first.id.pid);
        let vcpus = vcpus.enumerate().map(|(at, task)| (at as u32, task.id.tid)).collect();
        picture.guests.push(GuestSample { name: "web1".into(), pid: first.id.pid, vcpus });
    }
}

/// Adds what counters of the CPUs counted: of threads that ran, and of every other process.
pub fn add_counters(picture: &mut Picture) {
    picture.has_counters = true;
    let mut numbers = Numbers(9);
    for task in picture.tasks.iter_mut().filter(|task| task.run > 0.0) {
        let cycles = task.run * 3e9;
        let instructions = cycles * (0.2 + 3.0 * numbers.share());
        let misses = (instructions * numbers.share() / 1000.0).round();
        task.counted = Some(Box::new(CountedUse { cycles, instructions, misses }));
    }
    for process in picture.processes.iter_mut().step_by(2) {
        let task = picture.tasks.iter().find(|task| task.id.pid == process.pid).unwrap();
        process.counted = task.counted.as_deref().copied();
    }
}

/// Returns exact latencies.
pub fn latency() -> LatencySample {
    let mut counts = [0; LATENCY_CLASSES];
    for (at, count) in [3, 40, 220, 510, 300, 120, 33, 9, 2].into_iter().enumerate() {
        counts[at + 1] = count;
    }
    let wakeup = LatencyHistogram(counts);
    LatencySample {
        wakeup,
        displaced: wakeup,
        off_cpu: BTreeMap::from([("sleep".into(), wakeup)]),
        migrations: [120, 30, 4, 1],
        conflict_ns: 33_000_000,
        run_ns: Vec::new(),
    }
}

/// Returns details of a process whose memory is on two nodes.
pub fn details(pid: u32) -> (u32, ProcessDetails) {
    let pressure = Some(manycore_top::Pressure { some_ns: 0, some_percent: 1.5 });
    let node_kib = Some(BTreeMap::from([(0, 1 << 20), (1, 3 << 20)]));
    let cgroup = Some("/system.slice/redis.service".to_owned());
    (pid, ProcessDetails { cgroup, cpu: pressure, memory: pressure, io: None, monitor: None, node_kib })
}
