//! The generators that are compared: that of this workspace and other programs, all on one CPU with one thread.

use crate::{
    bare,
    outcome::{self, Outcome, QUANTILES},
    servers::Server,
};
use manycore_linux::{
    affinity::restrict,
    clock::{process_cpu_ns, thread_cpu},
    job::reaped_cpu,
};
use manycore_load::{Arrivals, LoadRequest, Template, run};
use manycore_topology::{CpuId, CpuSet};
use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Connections of each generator.
pub const CONNECTIONS: usize = 40;
/// wrk2 discards what it measures before.
const WRK2_CALIBRATES: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_millis(300);
/// 99 % of the replies come within this time, in milliseconds, if a rate is kept.
const KEPT_WITHIN: f64 = 10.0;

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// This one, sending PING to redis.
    Redis,
    /// This one, sending GET to an HTTP server.
    Http,
    /// The least client, sending PING.
    Bare,
    RedisBenchmark,
    Memtier,
    Wrk2,
}

impl Generator {
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "manycore redis:",
            Self::Http => "manycore http:",
            Self::Bare => "least client:",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Memtier => "memtier_benchmark",
            Self::Wrk2 => "wrk2",
        }
    }

    /// The program, which a variable of the environment may name: `MEMTIER`, `WRK2`.
    fn program(self) -> String {
        let variable = match self {
            Self::Memtier => "MEMTIER",
            Self::Wrk2 => "WRK2",
            _ => return self.name().to_owned(),
        };
        env::var(variable).unwrap_or_else(|_| self.name().to_owned())
    }

    /// Returns why it cannot run here.
    pub fn missing(self) -> Option<String> {
        if matches!(self, Self::Redis | Self::Http | Self::Bare) {
            return None;
        }
        let (program, silent) = (self.program(), Stdio::null);
        let found = Command::new(&program).arg("--version").stdout(silent()).stderr(silent()).status();
        found.is_err().then(|| {
            let how = match self {
                Self::Memtier => "build it from source, and set MEMTIER to its path",
                Self::Wrk2 => "build it from source, and set WRK2 to the path of its program wrk",
                _ => "install redis-tools",
            };
            format!("SKIPPED: {program} is not installed: {how}")
        })
    }

    /// The time at the begin of a run that is not in its latencies.
    fn warm_up(self) -> Duration {
        match self {
            Self::Redis | Self::Http | Self::Bare => WARM_UP,
            Self::RedisBenchmark | Self::Memtier => Duration::ZERO,
            Self::Wrk2 => WRK2_CALIBRATES,
        }
    }

    /// Sends requests at a rate at equal distances, or in a closed loop, for about so many seconds.
    pub fn run(self, server: &dyn Server, cpus: [CpuId; 2], rate: Option<f64>, seconds: f64) -> Outcome {
        let (cpu, before, begin) = (cpus[0], server.cpu_ns(), Instant::now());
        server.measure(self.warm_up());
        let (mut outcome, others) = beside(server, cpus, || match self {
            Self::Redis => ours(server, cpu, rate, seconds, Template::redis(&["PING"], 1)),
            Self::Http => ours(server, cpu, rate, seconds, Template::http("127.0.0.1", "/index.html", 1)),
            Self::Bare => least(server, cpu, rate.expect("a rate"), seconds),
            _ => self.other(server, cpu, rate, seconds),
        });
        outcome.server = (server.cpu_ns() - before) as f64 / begin.elapsed().as_nanos() as f64;
        outcome.served = server.measured().unwrap_or_default();
        outcome.others = others;
        outcome
    }

    fn other(self, server: &dyn Server, cpu: CpuId, rate: Option<f64>, seconds: f64) -> Outcome {
        let address = server.address();
        let (host, port, connections) =
            (address.ip().to_string(), address.port().to_string(), CONNECTIONS.to_string());
        let whole = |number: f64| format!("{:.0}", number.ceil());
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), &self.program()]);
        let read: fn(&str) -> Option<Outcome> = match self {
            Self::Memtier => {
                command.args(["-s", &host, "-p", &port, "-t", "1", "-c", &connections]).args([
                    "--command=PING",
                    "--hide-histogram",
                    "--print-percentiles=50,99,99.9,100",
                ]);
                command.args(["--test-time", &whole(seconds)]);
                if let Some(rate) = rate {
                    command.args(["--rate-limiting", &whole(rate / CONNECTIONS as f64)]);
                }
                outcome::memtier
            }
            Self::Wrk2 => {
                let seconds = format!("{}s", whole(seconds + WRK2_CALIBRATES.as_secs_f64()));
                let rate = whole(rate.expect("wrk2 has a rate"));
                command.args(["-t", "1", "-c", &connections, "-d", &seconds, "-R", &rate, "-L"]);
                command.arg(format!("http://{address}/index.html"));
                outcome::wrk2
            }
            _ => {
                // It has no time limit: at a usual rate.
                let requests = whole(80_000.0 * seconds);
                command.args(["-h", &host, "-p", &port, "-c", &connections, "-n", &requests]);
                command.args(["-t", "ping_mbulk"]);
                outcome::redis_benchmark
            }
        };
        let (before, begin) = (reaped_cpu(), Instant::now());
        let output = command.stdin(Stdio::null()).output().expect("taskset");
        let (cpu, elapsed) = (reaped_cpu().saturating_sub(before), begin.elapsed());
        let text = String::from_utf8_lossy(&output.stdout);
        let found = read(&text).unwrap_or_else(|| panic!("{command:?} printed\n{text}"));
        let kept = rate.is_none_or(|rate| found.rate >= 0.99 * rate) && found.quantiles[1] <= KEPT_WITHIN;
        let cpu_us = cpu.as_secs_f64() * 1e6 / (found.rate * elapsed.as_secs_f64());
        Outcome { cpu_us, kept, ..found }
    }
}

/// Returns what `run` returns, and the CPU time that other programs got meanwhile on the CPUs, for each second.
pub fn beside<T>(server: &dyn Server, cpus: [CpuId; 2], run: impl FnOnce() -> T) -> (T, f64) {
    let others = || busy(cpus).saturating_sub(known_cpu(server));
    let (before, begin) = (others(), Instant::now());
    let value = run();
    (value, others().saturating_sub(before).as_secs_f64() / begin.elapsed().as_secs_f64())
}

/// Returns the time for which the CPUs were busy, in steps of 10 ms, or belonged to other virtual machines.
fn busy(cpus: [CpuId; 2]) -> Duration {
    let text = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks = cpus.iter().filter_map(|cpu| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(&format!("cpu{cpu}")))?;
        let values: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        Some(values.iter().take(8).sum::<u64>() - values[3] - values[4])
    });
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// Returns the CPU time of this process, of children that have ended, and of the server.
fn known_cpu(server: &dyn Server) -> Duration {
    let own = process_cpu_ns(std::process::id()).unwrap_or(0);
    Duration::from_nanos(own + if server.is_program() { server.cpu_ns() } else { 0 }) + reaped_cpu()
}

fn ours(
    server: &dyn Server,
    cpu: CpuId,
    rate: Option<f64>,
    seconds: f64,
    template: manycore_load::Result<Template>,
) -> Outcome {
    let request = LoadRequest {
        address: server.address(),
        template: template.expect("a request"),
        connections: CONNECTIONS,
        pipeline: 1,
        arrivals: rate.map_or(Arrivals::Closed, |per_second| Arrivals::Constant { per_second }),
        warm_up: WARM_UP,
        duration: Duration::from_secs_f64(seconds),
        seed: 1,
        polls: true,
    };
    // Unlike the CPU time of the load, that of the thread has the time in which it looked for replies.
    let (load, cpu) = on_cpu(cpu, move || (run(&request).expect("a load"), thread_cpu()));
    let requests = load.answered as f64 * (1.0 + WARM_UP.as_secs_f64() / seconds);
    let quantiles = QUANTILES.map(|q| load.latency_ns(q) as f64 / 1e6);
    Outcome {
        rate: load.rate(),
        cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        server: 0.0,
        others: 0.0,
        served: [0.0; 3],
        mean: load.latency.mean() / 1e6,
        quantiles,
        own: Some(load.own_share()),
        kept: load.answered == load.intended && quantiles[1] <= KEPT_WITHIN,
    }
}

fn least(server: &dyn Server, cpu: CpuId, rate: f64, seconds: f64) -> Outcome {
    let address = server.address();
    on_cpu(cpu, move || bare::run(address, CONNECTIONS, rate, WARM_UP, Duration::from_secs_f64(seconds)))
}

/// Runs `work` in a thread on a CPU.
fn on_cpu<T: Send + 'static>(cpu: CpuId, work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        restrict(own, &CpuSet::from_iter([cpu])).expect("an affinity");
        work()
    });
    thread.join().expect("a thread")
}
