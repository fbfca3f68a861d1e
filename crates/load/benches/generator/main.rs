//! The load generator beside redis-benchmark, `memtier_benchmark` and wrk2, with 40 connections. The generator has one CPU,
//! the server another. Runs of all generators are interleaved in rounds.
//!
//! A run begins when no other program uses the two CPUs, and is repeated if one did meanwhile, until this has taken `PATIENCE`
//! seconds.
//!
//! Usage: `generator [PART...]`; parts are `capacity`, `known`, `equal` and `stall`. `ROUNDS` is the number of rounds. The
//! programs `memtier_benchmark` and wrk2 are in `PATH`, or where `MEMTIER` and `WRK2` say.
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run stops")]

mod bare;
mod generators;
mod outcome;
mod servers;

use generators::{CONNECTIONS, Generator, beside};
use manycore_linux::affinity::allowed;
use manycore_stats::Estimate;
use manycore_text::units::interval;
use manycore_topology::CpuId;
use outcome::Outcome;
use servers::{Behaviour, Known, Program, Server};
use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// Requests per second.
const RATES: [f64; 4] = [20e3, 60e3, 100e3, 120e3];
const CAPACITY_SECONDS: f64 = 2.0;
/// Of servers with known latencies: low, so that no requests wait for others.
const KNOWN_RATE: f64 = 1000.0;
const KNOWN_SECONDS: f64 = 3.0;
const EQUAL_RATE: f64 = 10e3;
const EQUAL_SECONDS: f64 = 3.0;
const STALL_SECONDS: f64 = 4.0;
/// CPUs that other programs may use during a run.
const OTHERS: f64 = 0.1;

/// A quantity of a run.
type Figure = fn(&Outcome) -> f64;

/// A part of the benchmark, and its name.
type Part = (&'static str, fn(&Bench));

struct Bench {
    /// CPUs of the generator and of the server.
    cpus: [CpuId; 2],
    rounds: usize,
    /// The time that is left for waiting, and for runs that are repeated.
    patience: Cell<Duration>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("ROUNDS").unwrap_or(7) as usize;
    let usable: Vec<CpuId> = allowed().expect("an affinity").iter().take(2).collect();
    let Ok(cpus) = <[CpuId; 2]>::try_from(usable) else {
        println!("SKIPPED: a generator and a server need two CPUs");
        return;
    };
    println!(
        "{CONNECTIONS} connections, generator on CPU {}, server on CPU {}; medians of {rounds} rounds (least to most)",
        cpus[0], cpus[1]
    );
    let patience = Cell::new(Duration::from_secs(number("PATIENCE").unwrap_or(300)));
    let bench = Bench { cpus, rounds, patience };
    let parts: [Part; 4] = [
        ("capacity", Bench::capacity),
        ("known", Bench::known),
        ("equal", Bench::equal),
        ("stall", Bench::stall),
    ];
    for (name, part) in parts {
        if words.is_empty() || words.iter().any(|word| word == name) {
            part(&bench);
        }
    }
}

impl Bench {
    /// Requests per second to redis: in a closed loop, and at rising rates.
    fn capacity(&self) {
        let Some(redis) = Program::redis(self.cpus[1]) else {
            println!("SKIPPED: redis-server is not installed");
            return;
        };
        let all = [Generator::Redis, Generator::RedisBenchmark, Generator::Memtier];
        println!("\nPING to redis, closed loop");
        let runs = self.rounds(&all, &redis, None, CAPACITY_SECONDS);
        self.print_capacity(&runs);
        for rate in RATES {
            println!("\nPING to redis, {rate} requests/s");
            let runs =
                self.rounds(&[Generator::Redis, Generator::Memtier], &redis, Some(rate), CAPACITY_SECONDS);
            self.print_capacity(&runs);
        }
    }

    fn print_capacity(&self, runs: &[(Generator, Vec<Outcome>)]) {
        for (generator, runs) in runs {
            let kept = runs.iter().filter(|run| run.kept).count();
            let own = match runs[0].own {
                Some(_) => format!(", own part {} %", spread(runs, |run| run.own.unwrap_or(0.0) * 100.0, 1)),
                None => String::new(),
            };
            println!(
                "  {:18} {}/s, kept {kept} of {}; CPU {} us a request, server {} % busy; p50 {} p99 {} ms{own}",
                generator.name(),
                spread(runs, |run| run.rate, 0),
                self.rounds,
                spread(runs, |run| run.cpu_us, 2),
                spread(runs, |run| run.server * 100.0, 0),
                spread(runs, |run| run.quantiles[0], 3),
                spread(runs, |run| run.quantiles[1], 3),
            );
        }
        print_ratios(runs, &[("rate", |run| run.rate), ("CPU a request", |run| run.cpu_us)]);
    }

    /// Latencies that are known in advance.
    fn known(&self) {
        let fixed = Behaviour { delay: Duration::from_millis(5), stall: None };
        let all = [Generator::Bare, Generator::Redis, Generator::Http, Generator::Memtier, Generator::Wrk2];
        println!("\nA server that replies after 5 ms, {KNOWN_RATE} requests/s: latency in ms");
        let server = Known::start(self.cpus[1], fixed);
        let runs = self.rounds(&all, &server, Some(KNOWN_RATE), KNOWN_SECONDS);
        drop(server);
        let figures: [(&str, Figure); 3] =
            [("mean", |run| run.mean), ("p50", |run| run.quantiles[0]), ("p99", |run| run.quantiles[1])];
        for (generator, runs) in &runs {
            let values = figures.map(|(name, figure)| format!("{name} {}", spread(runs, figure, 3)));
            println!("  {:18} {}", generator.name(), values.join(", "));
        }
        println!("  over the least client, in pairs of a round:");
        for (generator, outcomes) in &runs[1..] {
            println!("  {:18} {}", generator.name(), ratios(outcomes, &runs[0].1, &figures));
        }
        println!(
            "  over the time from request to reply in the server (error, network and machine together), in %:"
        );
        for (generator, runs) in &runs {
            println!(
                "  {:18} mean {}, p50 {}, p99 {}",
                generator.name(),
                spread(runs, |run| 100.0 * (run.mean / run.served[0] - 1.0), 2),
                spread(runs, |run| 100.0 * (run.quantiles[0] / run.served[1] - 1.0), 2),
                spread(runs, |run| 100.0 * (run.quantiles[1] / run.served[2] - 1.0), 2),
            );
        }
        // The period is no multiple of the distances of requests.
        let stall = Some((Duration::from_micros(1_003_700), Duration::from_millis(100)));
        let stalling = Behaviour { delay: Duration::ZERO, stall };
        let [p99, p999] = [0.99, 0.999].map(|q| stalling.quantile(q));
        println!(
            "\nA server that stalls for 100 ms of each 1.0037 s, {KNOWN_RATE} requests/s: \
             error of p99 ({p99:.2} ms) and of p99.9 ({p999:.2} ms) in %"
        );
        let server = Known::start(self.cpus[1], stalling);
        let runs = self.rounds(&all[1..], &server, Some(KNOWN_RATE), KNOWN_SECONDS);
        for (generator, runs) in &runs {
            println!(
                "  {:18} p99 {}, p99.9 {}",
                generator.name(),
                spread(runs, |run| 100.0 * (run.quantiles[1] / p99 - 1.0), 2),
                spread(runs, |run| 100.0 * (run.quantiles[2] / p999 - 1.0), 2),
            );
        }
    }

    /// Latencies of redis and nginx at equal rates.
    fn equal(&self) {
        let figures: [(&str, Figure); 4] = [
            ("mean", |run| run.mean),
            ("p50", |run| run.quantiles[0]),
            ("p99", |run| run.quantiles[1]),
            ("CPU a request", |run| run.cpu_us),
        ];
        let redis = Program::redis(self.cpus[1]);
        let nginx = Program::nginx(self.cpus[1]);
        let cases = [
            ("redis-server", redis, [Generator::Redis, Generator::Memtier]),
            ("nginx", nginx, [Generator::Http, Generator::Wrk2]),
        ];
        for (name, server, generators) in cases {
            let Some(server) = server else {
                println!("SKIPPED: {name} is not installed");
                continue;
            };
            println!("\n{name}, {EQUAL_RATE} requests/s: latency in ms");
            let runs = self.rounds(&generators, &server, Some(EQUAL_RATE), EQUAL_SECONDS);
            for (generator, runs) in &runs {
                println!(
                    "  {:18} {}/s, mean {}, p50 {}, p99 {}",
                    generator.name(),
                    spread(runs, |run| run.rate, 0),
                    spread(runs, |run| run.mean, 3),
                    spread(runs, |run| run.quantiles[0], 3),
                    spread(runs, |run| run.quantiles[1], 3),
                );
            }
            print_ratios(&runs, &figures);
        }
    }

    /// What a closed loop does not show. It sends as fast as it can; this generator half as fast, as its rate is fixed.
    fn stall(&self) {
        let stall = Some((Duration::from_secs(2), Duration::from_millis(100)));
        let server = Known::start(self.cpus[1], Behaviour { delay: Duration::ZERO, stall });
        if let Some(why) = Generator::RedisBenchmark.missing() {
            println!("{why}");
            return;
        }
        println!("\nA server that stalls for 100 ms of each 2 s: latency in ms");
        let (mut closed, mut open) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let run = self.run(Generator::RedisBenchmark, &server, None, STALL_SECONDS);
            let rate = Some(run.rate / 2.0);
            closed.push(run);
            open.push(self.run(Generator::Redis, &server, rate, STALL_SECONDS));
        }
        for (generator, runs) in [(Generator::Redis, open), (Generator::RedisBenchmark, closed)] {
            println!(
                "  {:18} {}/s, p50 {}, p99 {}, p99.9 {}, max {}",
                generator.name(),
                spread(&runs, |run| run.rate, 0),
                spread(&runs, |run| run.quantiles[0], 3),
                spread(&runs, |run| run.quantiles[1], 2),
                spread(&runs, |run| run.quantiles[2], 2),
                spread(&runs, |run| run.quantiles[3], 1),
            );
        }
    }

    /// Runs those generators that are installed, in another order in each round.
    fn rounds(
        &self,
        generators: &[Generator],
        server: &dyn Server,
        rate: Option<f64>,
        seconds: f64,
    ) -> Vec<(Generator, Vec<Outcome>)> {
        let mut runs = Vec::new();
        for generator in generators {
            match generator.missing() {
                Some(why) => println!("  {why}"),
                None => runs.push((*generator, Vec::new())),
            }
        }
        for round in 0..self.rounds {
            for position in 0..runs.len() {
                let count = runs.len();
                let (generator, outcomes) = &mut runs[(round + position) % count];
                outcomes.push(self.run(*generator, server, rate, seconds));
            }
        }
        let others = runs.iter().flat_map(|(_, outcomes)| outcomes).map(|run| run.others).fold(0.0, f64::max);
        println!("  (other programs used at most {:.0} % of a CPU in a run)", 100.0 * others);
        runs
    }

    /// Runs a generator while other programs use no CPU, and again if they have used some meanwhile.
    fn run(&self, generator: Generator, server: &dyn Server, rate: Option<f64>, seconds: f64) -> Outcome {
        loop {
            let begin = Instant::now();
            let pause = || thread::sleep(Duration::from_millis(500));
            while begin.elapsed() < self.patience.get() && beside(server, self.cpus, pause).1 > OTHERS {}
            let waited = begin.elapsed();
            let run = generator.run(server, self.cpus, rate, seconds);
            let is_over = waited >= self.patience.get();
            let lost = if run.others <= OTHERS { waited } else { begin.elapsed() };
            self.patience.set(self.patience.get().saturating_sub(lost));
            if run.others <= OTHERS || is_over {
                return run;
            }
        }
    }
}

/// Prints figures of the first generator over those of each other, in pairs of the same round.
fn print_ratios(runs: &[(Generator, Vec<Outcome>)], figures: &[(&str, Figure)]) {
    let Some(((_, ours), others)) = runs.split_first() else { return };
    for (other, theirs) in others {
        println!("  over {}: {}", other.name(), ratios(ours, theirs, figures));
    }
}

/// Formats figures of runs over those of others in the same rounds.
fn ratios(ours: &[Outcome], theirs: &[Outcome], figures: &[(&str, Figure)]) -> String {
    let ratios = figures.iter().map(|(name, figure)| {
        let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (figure(a) / figure(b)).ln()).collect();
        let ratio = Estimate::from_samples(&logs).expect("pairs").map(f64::exp);
        format!("{name} {:.3} ({})", ratio.median, interval(ratio.interval, |end| format!("{end:.3}")))
    });
    ratios.collect::<Vec<_>>().join(", ")
}

/// Formats the median, the least and the largest of a figure.
fn spread(runs: &[Outcome], figure: impl Fn(&Outcome) -> f64, digits: usize) -> String {
    let mut values: Vec<f64> = runs.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, values.len() / 2, values.len() - 1].map(|index| values[index]);
    format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})")
}
