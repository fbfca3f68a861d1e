//! Synthetic light processes.

use super::SyntheticMachine;
use manycore_experiment::{
    Record,
    spawning::{
        CountLimit, Ending, Io, Memory, Purpose, Runtime, RuntimeRuns, Schedulers, SpawnRun, Spin, Work,
    },
};
use manycore_stats::histogram;

/// The true behaviour of a runtime: fixed bytes, bytes and seconds of each light process, and the share of
/// the bytes that the runtime reports.
struct TrueRuntime {
    runtime: Runtime,
    version: &'static str,
    unit: &'static str,
    fixed: f64,
    bytes: f64,
    seconds: f64,
    reported_share: Option<f64>,
    kernel: f64,
}

const RUNTIMES: [TrueRuntime; 3] = [
    TrueRuntime {
        runtime: Runtime::Beam,
        version: "Erlang/OTP 25 (ERTS 13.1.5)",
        unit: "process",
        fixed: 31e6,
        bytes: 2672.0,
        seconds: 1.4e-6,
        reported_share: Some(0.97),
        kernel: 5.0,
    },
    TrueRuntime {
        runtime: Runtime::Go,
        version: "go1.24.4",
        unit: "goroutine",
        fixed: 4e6,
        bytes: 2710.0,
        seconds: 0.6e-6,
        reported_share: Some(0.9),
        kernel: 5.0,
    },
    TrueRuntime {
        runtime: Runtime::Threads,
        version: "Linux 6.12.0",
        unit: "thread",
        fixed: 3e6,
        bytes: 9100.0,
        seconds: 18e-6,
        reported_share: None,
        kernel: 16_900.0,
    },
];

/// Number of intervals of computing.
const INTERVALS: usize = 20;

impl SyntheticMachine {
    /// Returns the record that `spawn` would measure for Erlang, Go and threads. Go has twice as many
    /// schedulers as its quota allows, threads reach a limit, and Erlang ran to its capacity in a control
    /// group with a gigabyte.
    pub fn spawn(&self, work: Work) -> Record {
        Record {
            subcommand: "spawn".to_owned(),
            profile: String::new(),
            not_measured: Vec::new(),
            experiments: Vec::new(),
            light_processes: RUNTIMES.iter().map(|truth| self.spawning(truth, work)).collect(),
            ..self.record()
        }
    }

    fn spawning(&self, truth: &TrueRuntime, work: Work) -> RuntimeRuns {
        let counts: &[u64] = match (truth.runtime, work) {
            (Runtime::Threads, _) => &[1_000, 10_000, 30_000],
            (_, Work::Idle) => &[100_000, 1_000_000],
            _ => &[1_000],
        };
        let mut runs: Vec<SpawnRun> = counts.iter().map(|&count| self.run(truth, work, count)).collect();
        if truth.runtime == Runtime::Beam && work == Work::Idle {
            runs.push(SpawnRun {
                requested: 363_000,
                alive: 361_500,
                purpose: Purpose::CapacityTest,
                ending: Ending::Killed { why: "memory limit of its control group".to_owned() },
                memory_limit_bytes: Some(1_000_000_000),
                ..self.run(truth, work, 361_500)
            });
        }
        let of_runtime = |count: Option<usize>, option: &str| Schedulers {
            count,
            cpus: self.machine().online,
            option: option.to_owned(),
            ..Schedulers::default()
        };
        let cpus = self.cpus as usize;
        let schedulers = match truth.runtime {
            Runtime::Beam => Schedulers {
                binding: Some("unbound".to_owned()),
                ..of_runtime(Some(cpus), &format!("+S {cpus}:{cpus}"))
            },
            Runtime::Go => Schedulers {
                quota_cpus: Some(f64::from(self.cpus) / 2.0),
                ..of_runtime(Some(cpus), &format!("GOMAXPROCS={cpus}"))
            },
            _ => of_runtime(None, ""),
        };
        RuntimeRuns {
            runtime: truth.runtime,
            version: truth.version.to_owned(),
            unit: truth.unit.to_owned(),
            work,
            schedulers,
            limits: limits(truth.runtime),
            memory_bytes: self.memory_bytes / 10 * 7,
            memory_source: "available memory less a tenth".to_owned(),
            runs,
        }
    }

    fn run(&self, truth: &TrueRuntime, work: Work, count: u64) -> SpawnRun {
        let each = count as f64;
        let memory = |alive: f64| {
            let pss = truth.fixed + truth.bytes * alive;
            Memory {
                pss_bytes: Some(pss as u64),
                rss_bytes: (pss * 1.002) as u64 + 1_500_000,
                kernel_bytes: Some((90_000.0 + truth.kernel * alive) as u64),
                reported_bytes: truth
                    .reported_share
                    .map(|reported_share| (truth.fixed * 0.7 + truth.bytes * reported_share * alive) as u64),
                cgroup_bytes: None,
            }
        };
        // A start takes slightly longer than its parts. The overhead matters less for many processes.
        let start_seconds = 0.004 + truth.seconds * each;
        SpawnRun {
            requested: count,
            alive: count,
            start_seconds,
            reported_start_seconds: truth.reported_share.map(|_| truth.seconds * each + 0.002),
            end_seconds: Some(start_seconds * 0.4),
            before: memory(0.0),
            held: memory(each),
            spin: (work == Work::Spin).then(|| self.spin(truth.runtime)),
            io: (work == Work::Io).then(|| files(each)),
            ..SpawnRun::default()
        }
    }

    /// Erlang uses all CPUs, Go the first half of them. Threads spread over all CPUs after a while.
    fn spin(&self, runtime: Runtime) -> Spin {
        let cpus = self.cpus as usize;
        let share = |interval: usize, cpu: usize| {
            let ripple = ((interval * 7 + cpu * 3) % 5) as f32 * 0.01;
            match runtime {
                Runtime::Go if cpu * 2 >= cpus => 0.12 + ripple,
                Runtime::Threads if interval < 4 && cpu % 2 == 1 => 0.25 * interval as f32 + ripple,
                _ => 0.95 + ripple,
            }
        };
        let of_beam = |value: Vec<f32>| if runtime == Runtime::Beam { value } else { Vec::new() };
        Spin {
            interval_seconds: 0.5,
            cpus: (0..cpus).collect(),
            busy: (0..INTERVALS).map(|at| (0..cpus).map(|cpu| share(at, cpu)).collect()).collect(),
            stolen: vec![self.steal as f32; INTERVALS],
            running: (0..INTERVALS).map(|at| self.cpus + 1 + at as u32 % 2).collect(),
            queued: if runtime == Runtime::Beam { vec![998; INTERVALS] } else { Vec::new() },
            schedulers: of_beam(vec![0.99; cpus]),
        }
    }
}

fn limits(runtime: Runtime) -> Vec<CountLimit> {
    let limit = |name: &str, max_count, source: &str, raise_command: &str| CountLimit {
        name: name.to_owned(),
        max_count,
        source: source.to_owned(),
        raise_command: raise_command.to_owned(),
    };
    match runtime {
        Runtime::Beam => {
            vec![limit("+P", 2_097_100, "erlang:system_info(process_limit)", "erl +P 4194304")]
        }
        Runtime::Threads => vec![
            limit(
                "kernel.pid_max",
                32_384,
                "/proc/sys/kernel/pid_max: 32768, 84 tasks",
                "sysctl -w kernel.pid_max=4194304",
            ),
            limit(
                "vm.max_map_count",
                32_720,
                "/proc/sys/vm/max_map_count: 65530, 2 for each stack with its guard page",
                "sysctl -w vm.max_map_count=131060",
            ),
            limit(
                "pids.max",
                2_000_000,
                "/sys/fs/cgroup/user.slice/pids.max: 2000100, 100 tasks",
                "systemctl set-property --runtime user.slice TasksMax=infinity",
            ),
        ],
        _ => Vec::new(),
    }
}

fn files(count: f64) -> Io {
    let at = |ns: u64, count: u64| (histogram::bucket(ns) as u32, count);
    Io {
        seconds: 5.0,
        operations: 200_000,
        bytes: 4096,
        file_system: "ext4".to_owned(),
        latency: vec![at(40_000, 150_000), at(90_000, 46_000), at((count * 4_000.0) as u64, 4_000)],
    }
}
