//! Samples of a machine that does not exist, at one a second.
#![allow(dead_code, reason = "each test uses a part")]

use manycore_top::{
    CpuTimes, GroupSample, NodeSample, Pressure, ProcessSample, Sample, SystemCounters, TaskId, TaskName,
    TaskSample,
};
use manycore_topology::CpuSet;
use std::sync::Arc;

/// Random numbers that a seed repeats (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// Uniform from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Normally distributed.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.share()).cos()
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }
}

/// What a machine does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub cpus: u32,
    pub nodes: u32,
    pub threads: u32,
    /// Threads that use a large part of a CPU.
    pub busy: u32,
    /// Threads that run for a moment from time to time.
    pub waking: u32,
    /// Control groups with pressure.
    pub groups: u32,
}

/// How a thread behaves.
#[derive(Clone, Copy, Debug)]
struct Habit {
    run: f64,
    wait: f64,
    slices: f64,
    wakes: f64,
}

#[derive(Clone, Debug)]
pub struct Invented {
    pub load: Load,
    pub random: Random,
    pub sample: Sample,
    habits: Vec<Habit>,
    means: Vec<f64>,
    next_pid: u32,
    second: u64,
}

impl Invented {
    pub fn new(load: Load, seed: u64) -> Self {
        let mut random = Random(seed);
        let means = (0..load.cpus).map(|_| random.share() * random.share()).collect();
        let sample = Sample {
            at_ns: 86_400_000_000_000,
            unix_ms: 1_790_000_000_123,
            cpus: (0..load.cpus).map(|cpu| CpuTimes { cpu, ..CpuTimes::default() }).collect(),
            ..Sample::default()
        };
        let mut new = Self {
            load,
            random,
            sample,
            habits: Vec::new(),
            means,
            next_pid: 5000 + load.threads,
            second: 0,
        };
        new.begin();
        new
    }

    fn begin(&mut self) {
        let load = self.load;
        let all = Arc::new(CpuSet::from_ranges(vec![(0, load.cpus - 1)]));
        let mut tasks = Vec::new();
        for at in 0..load.threads {
            // Processes with one to sixteen threads.
            let pid = 1 + at - at % [1, 1, 2, 4, 16][at as usize / 16 % 5];
            let habit = self.habit(at);
            self.habits.push(habit);
            let random = &mut self.random;
            let lived = random.exponential(3e12) as u64;
            tasks.push(TaskSample {
                id: TaskId { pid, tid: 1 + at, start: u64::from(pid) * 37 + random.below(9) },
                name: TaskName::new(format!("worker/{}:{}", pid % 97, at % 3).as_bytes()),
                parent: 1 + pid / 50,
                is_kernel: at < load.threads / 3,
                uid: Some(if at % 4 == 0 { 1000 } else { 0 }),
                state: 'S',
                cpu: random.below(load.cpus.into()) as u32,
                run_ns: (lived as f64 * habit.run * habit.wakes) as u64,
                wait_ns: Some((lived as f64 * habit.wait * habit.wakes) as u64),
                slices: Some((lived as f64 * habit.slices / 1e9) as u64),
                voluntary: Some((lived as f64 * habit.slices / 1.2e9) as u64),
                involuntary: Some((lived as f64 * habit.slices / 6e9) as u64),
                allowed: Some(if at % 11 == 3 {
                    Arc::new(CpuSet::single(at % load.cpus))
                } else {
                    Arc::clone(&all)
                }),
                migrations: None,
                resident_kib: u64::from(pid) * 13 % 90_000,
            });
        }
        self.sample.tasks = tasks.into();
        self.sample.nodes = (0..load.nodes)
            .map(|node| NodeSample {
                node,
                total_kib: 32 << 20,
                free_kib: 9 << 20,
                file_kib: 5 << 20,
                ..NodeSample::default()
            })
            .collect();
        self.sample.groups = (0..load.groups)
            .map(|group| GroupSample {
                path: format!("system.slice/unit-{group:03}.service").into(),
                cpu_ns: Some(0),
                throttled_ns: (group % 4 == 0).then_some(0),
                memory_bytes: Some(1 << 28),
                processes: group % 5,
                pressure: Some([Pressure::default(); 3]),
                ..GroupSample::default()
            })
            .collect();
        self.set_processes();
    }

    fn habit(&mut self, at: u32) -> Habit {
        let random = &mut self.random;
        let (busy, waking) = (self.load.busy, self.load.waking);
        // Spread over the list, as ids do not tell what a thread does.
        let rank = at.wrapping_mul(2_654_435_761) % self.load.threads;
        if rank < busy {
            let run = 0.15 + 0.85 * random.share();
            return Habit {
                run,
                wait: 0.1 * random.share(),
                slices: 10.0 + random.exponential(400.0),
                wakes: 1.0,
            };
        }
        if rank < busy + waking {
            let run = 2e-5 + random.exponential(3e-4);
            return Habit {
                run,
                wait: run / 20.0,
                slices: 1.0 + random.exponential(5.0),
                wakes: random.share(),
            };
        }
        Habit { run: 1e-5, wait: 1e-6, slices: 1.0, wakes: 0.002 }
    }

    /// Advances by one second and returns the sample.
    pub fn step(&mut self) -> &Sample {
        self.second += 1;
        let random = &mut self.random;
        let late = random.exponential(80_000.0) as u64;
        self.sample.at_ns = 86_400_000_000_000 + self.second * 1_000_000_000 + late;
        self.sample.unix_ms = 1_790_000_000_123 + self.second * 1000 + late / 1_000_000;
        self.step_cpus();
        self.step_tasks();
        self.step_rest();
        self.set_processes();
        &self.sample
    }

    fn step_cpus(&mut self) {
        let random = &mut self.random;
        let slow = (self.second as f64 / 300.0).sin() * 0.2;
        for (times, mean) in self.sample.cpus.iter_mut().zip(&self.means) {
            let all = 100 + random.below(3) - 1;
            let user = random.normal(100.0 * (mean + mean * slow), 6.0).clamp(0.0, 90.0) as u64;
            let system = random.normal(12.0 * mean, 2.0).clamp(0.0, 8.0) as u64;
            let softirq = u64::from(random.share() < 0.15);
            let irq = u64::from(random.share() < 0.01);
            let steal = u64::from(random.share() < 0.02) * random.below(4);
            let iowait = u64::from(random.share() < 0.02) * random.below(9);
            times.user += user;
            times.system += system;
            times.softirq += softirq;
            times.irq += irq;
            times.steal += steal;
            times.iowait += iowait;
            times.idle += all.saturating_sub(user + system + softirq + irq + steal + iowait);
        }
    }

    fn step_tasks(&mut self) {
        let random = &mut self.random;
        for (task, habit) in self.sample.tasks.iter_mut().zip(&self.habits) {
            task.state = 'S';
            if random.share() >= habit.wakes {
                continue;
            }
            let is_busy = habit.run > 0.1;
            let run = if is_busy {
                random.normal(habit.run, 0.08).clamp(0.01, 1.0)
            } else {
                random.exponential(habit.run)
            };
            let wait = random.exponential(habit.wait).min(1.0 - run);
            let slices = (habit.slices * (0.7 + 0.6 * random.share())) as u64 + 1;
            let displaced = (slices as f64 * 0.15 * random.share()) as u64;
            task.run_ns += (run * 1e9) as u64;
            task.wait_ns = task.wait_ns.map(|ns| ns + (wait * 1e9) as u64);
            task.voluntary = task.voluntary.map(|old| old + slices - displaced);
            task.involuntary = task.involuntary.map(|old| old + displaced);
            if is_busy && random.share() < run {
                task.state = 'R';
            }
            let begun = u64::from(task.state == 'R');
            task.slices = task.voluntary.zip(task.involuntary).map(|(a, b)| a + b + begun);
            if random.share() < 0.2 && task.allowed.as_ref().is_some_and(|set| set.len() > 1) {
                task.cpu = random.below(self.load.cpus.into()) as u32;
            }
            if is_busy && random.share() < 0.1 {
                task.resident_kib += random.below(64) * 4;
            }
        }
    }

    fn step_rest(&mut self) {
        let random = &mut self.random;
        let counters = self.sample.system;
        self.sample.system = SystemCounters {
            switches: Some(counters.switches.unwrap_or(0) + 12_000 + random.below(3000)),
            created: Some(counters.created.unwrap_or(0) + random.below(20)),
            runnable: Some(20 + random.below(20)),
            blocked: Some(random.below(2)),
            memory_kib: Some(64 << 20),
            available_kib: Some((40 << 20) + random.below(5000) * 4),
        };
        for node in &mut self.sample.nodes {
            node.free_kib = node.free_kib.wrapping_add(random.below(9) * 256).wrapping_sub(1024);
        }
        for group in &mut self.sample.groups {
            let share = random.share() * random.share();
            group.cpu_ns = group.cpu_ns.map(|ns| ns + (share * 1e9) as u64 / 1000 * 1000);
            group.throttled_ns = group.throttled_ns.map(|ns| ns + (share * 1e8) as u64 / 1000 * 1000);
            for one in group.pressure.iter_mut().flatten() {
                let share = random.share().powi(6);
                one.some_ns += (share * 1e9) as u64 / 1000 * 1000;
                one.some_percent = (share * 1e4).round() / 100.0;
            }
        }
        // A short process in each other second.
        let last = self.sample.tasks.len();
        if last > self.load.threads as usize {
            let all = self.sample.tasks.iter().take(self.load.threads as usize);
            self.sample.tasks = all.cloned().collect();
        } else if self.second.is_multiple_of(2) {
            self.next_pid += 3;
            let id = TaskId { pid: self.next_pid, tid: self.next_pid, start: 8_640_000 + self.second * 100 };
            let (run_ns, first) = (random.exponential(5e6) as u64, self.sample.tasks[0].clone());
            self.sample.tasks.extend([TaskSample {
                id,
                run_ns,
                wait_ns: Some(5000),
                slices: Some(4),
                name: TaskName::new(b"sh"),
                ..first
            }]);
        }
    }

    /// The clock of a process that runs is read a little earlier or later than those of its threads, and has the time of
    /// the current tick; one more slice than switches has begun.
    fn set_processes(&mut self) {
        let random = &mut self.random;
        self.sample.processes.clear();
        let tasks = self.sample.tasks.to_vec();
        for of_process in tasks.chunk_by(|a, b| a.id.pid == b.id.pid) {
            let running = of_process.iter().filter(|task| task.state == 'R').count() as u64;
            let clock = running * (500_000 + random.below(4_000_000));
            self.sample.processes.push(ProcessSample {
                pid: of_process[0].id.pid,
                start: of_process[0].id.start,
                cpu_ns: Some(of_process.iter().map(|task| task.run_ns).sum::<u64>() + 1_234_567 + clock),
                threads: of_process.len() as u32,
            });
        }
    }
}

/// The machine of which a day is to take less than 50 MB.
pub const SERVER: Load = Load { cpus: 64, nodes: 2, threads: 800, busy: 30, waking: 150, groups: 0 };
