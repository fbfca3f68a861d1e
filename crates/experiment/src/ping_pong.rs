//! Pairs of CPUs between which a cache line is passed, as the subject of an experiment. A treatment is a
//! pair; a sample is one visit to it.
//!
//! Two threads stay alive and move from pair to pair: the server, which measures, and the answerer. Which CPU
//! of a pair serves is random, and so is the line. The server's CPU is the first to write to its lines, so
//! their memory is on the node of one of the two CPUs.

mod visits;

pub use visits::Visits;

use crate::{
    engine::{Rng, Subject},
    error::{Error, Result},
    interrupt,
    record::{CounterDelta, Direction, Metric, Sample},
};
use manycore_linux::{affinity, clock::now_ns};
use manycore_stats::quantile;
use manycore_topology::{CpuId, CpuSet, pairs::Pair};
use manycore_workload::latency::{LINES, LinePage, PingPong, PingPongTime};
use rand::RngExt;
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

/// Interval at which signals are checked for during a visit.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Latency in nanoseconds that no cache line takes. Above it, the two threads did not run at the same time
/// but in turns.
const MAX_LATENCY_NS: f64 = 100_000.0;

/// The pairs that are visited, and the two threads.
#[derive(Debug)]
pub struct PingPongSubject {
    pairs: Vec<Pair>,
    visit: PingPongTime,
    rng: Rng,
    origin_ns: u64,
    /// No visit begins after this time on the monotonic clock.
    end_ns: u64,
    server: Sender<ServerOrder>,
    answerer: Sender<AnswererOrder>,
    reports: Receiver<VisitReport>,
}

/// The orders for the two threads. The answerer gets its line from the server, and gives up the visit if it
/// gets none.
struct ServerOrder {
    cpu: CpuId,
    line: usize,
    visit: PingPongTime,
    page: Sender<Arc<LinePage>>,
}

struct AnswererOrder {
    cpu: CpuId,
    line: usize,
    visit: PingPongTime,
    page: Receiver<Arc<LinePage>>,
}

/// The report of one thread on its visit.
struct VisitReport {
    /// The measurement; `None` from the answerer, or if the server could not be pinned to its CPU.
    ping_pong: Option<PingPong>,
    /// Whether the thread was still on its CPU at the end. A CPU that goes offline loses its threads.
    stayed: bool,
}

/// Returns the metrics of the values of a sample.
pub fn metrics() -> Vec<Metric> {
    let metric =
        |name: &str| Metric { name: name.to_owned(), unit: "ns".to_owned(), better: Direction::Lower };
    ["latency", "fastest", "spread"].map(metric).into()
}

impl PingPongSubject {
    /// Prepares visits to `pairs`. No visit begins after `end_ns` on the monotonic clock; `origin_ns` is the
    /// start of the run on that clock.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a thread cannot be started.
    pub fn new(pairs: Vec<Pair>, visit: PingPongTime, rng: Rng, origin_ns: u64, end_ns: u64) -> Result<Self> {
        let (server, to_serve) = channel();
        let (answerer, to_answer) = channel();
        let (report, reports) = channel();
        let report_too = report.clone();
        // The threads end when their channels are closed. They are not joined.
        start("server", move || serve(&to_serve, &report))?;
        start("answerer", move || answer(&to_answer, &report_too))?;
        Ok(Self { pairs, visit, rng, origin_ns, end_ns, server, answerer, reports })
    }

    fn visit(&mut self, [a, b]: Pair) -> Result<[VisitReport; 2]> {
        let (serving, answering) = if self.rng.random() { (a, b) } else { (b, a) };
        let line = self.rng.random_range(0..LINES);
        let (send, receive) = channel();
        let visit = self.visit;
        let gone = || Error::Failed("a thread that passes cache lines ended".to_owned());
        self.answerer
            .send(AnswererOrder { cpu: answering, line, visit, page: receive })
            .map_err(|_| gone())?;
        self.server.send(ServerOrder { cpu: serving, line, visit, page: send }).map_err(|_| gone())?;
        Ok([self.report()?, self.report()?])
    }

    fn report(&self) -> Result<VisitReport> {
        loop {
            match self.reports.recv_timeout(POLL_INTERVAL) {
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Timeout) => interrupt::check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Failed("a thread that passes cache lines ended".to_owned()));
                }
            }
        }
    }
}

impl Subject for PingPongSubject {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        interrupt::check()?;
        let began = now_ns();
        let reports = if began < self.end_ns { Some(self.visit(self.pairs[treatment])?) } else { None };
        let span_ns = now_ns() - began;
        let off_cpu = reports.iter().flatten().filter(|report| !report.stayed).count() as u64;
        let ping_pong = reports.into_iter().flatten().find_map(|report| report.ping_pong);
        let ping_pong =
            ping_pong.filter(|ping_pong| figures(&ping_pong.bursts)[0] < MAX_LATENCY_NS).unwrap_or_default();
        Ok(Sample {
            start_ns: began - self.origin_ns,
            // The time between bursts is part of no figure.
            wall_ns: (ping_pong.time.as_nanos() as u64).max(1),
            work: ping_pong.transfers as f64,
            values: figures(&ping_pong.bursts),
            counters: CounterDelta {
                span_ns,
                off_cpu_checks: Some(off_cpu).filter(|&count| count > 0),
                ..CounterDelta::default()
            },
            ..Sample::default()
        })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// Returns the values of [`metrics`]: the median burst, the fastest burst, and the interquartile range. All
/// are 0 without bursts.
fn figures(bursts: &[f64]) -> Vec<f64> {
    let at = |q: f64| quantile(bursts, q).unwrap_or(0.0);
    // Rounded to a hundredth of a nanosecond, which is finer than any clock.
    [at(0.5), at(0.0), at(0.75) - at(0.25)].map(|ns| (ns * 100.0).round() / 100.0).into()
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    let cannot = |error: io::Error| {
        Error::unavailable(format!("cannot start a thread: {error}; see ulimit -u and the cgroup's pids.max"))
    };
    thread.map(drop).map_err(cannot)
}

/// Pins the thread to `cpu`. Returns whether that succeeded.
fn pin_to(cpu: CpuId) -> bool {
    affinity::restrict(0, &CpuSet::single(cpu)).is_ok()
}

fn serve(orders: &Receiver<ServerOrder>, report: &Sender<VisitReport>) {
    let mut pages: HashMap<CpuId, Arc<LinePage>> = HashMap::new();
    for ServerOrder { cpu, line, visit, page } in orders {
        let ping_pong = pin_to(cpu).then(|| {
            let mine = Arc::clone(pages.entry(cpu).or_default());
            let line = mine.line(line);
            line.open();
            // If the answerer does not take the line, the server gives up when the visit's timeout ends.
            if page.send(Arc::clone(&mine)).is_ok() { line.serve(visit) } else { PingPong::default() }
        });
        drop(page);
        if report.send(VisitReport { ping_pong, stayed: affinity::current_cpu() == cpu }).is_err() {
            return;
        }
    }
}

fn answer(orders: &Receiver<AnswererOrder>, report: &Sender<VisitReport>) {
    for AnswererOrder { cpu, line, visit, page } in orders {
        let there = pin_to(cpu);
        if let Ok(page) = page.recv() {
            let line = page.line(line);
            if there { line.answer(visit) } else { line.close() }
        }
        if report.send(VisitReport { ping_pong: None, stayed: affinity::current_cpu() == cpu }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Without a partner, a visit ends after that long. On a busy machine, a partner may be late.
    const VISIT: PingPongTime =
        PingPongTime { length: Duration::from_millis(1), timeout: Duration::from_mins(1) };

    fn subject(pairs: Vec<Pair>, end_ns: u64) -> PingPongSubject {
        PingPongSubject::new(pairs, VISIT, Rng::seed_from_u64(1), 0, end_ns).unwrap()
    }

    #[test]
    fn core_to_core_latency_is_plausible() {
        let cpus: Vec<CpuId> = affinity::allowed().unwrap().iter().collect();
        let [a, b, ..] = cpus[..] else {
            eprintln!("SKIPPED: needs two CPUs");
            return;
        };
        let mut subject = subject(vec![[a, b]], u64::MAX);
        for _ in 0..10 {
            let sample = subject.measure(0).unwrap();
            let [latency, fastest, spread] = sample.values[..] else { unreachable!("three metrics") };
            assert!(fastest >= 2.0 && fastest <= latency && spread >= 0.0, "{sample:?}");
            assert!(sample.work > 0.0 && sample.counters.span_ns >= sample.wall_ns);
            assert_eq!(sample.counters.off_cpu_checks, None);
        }
    }

    #[test]
    fn an_unavailable_cpu_gives_no_figure_and_does_not_hang() {
        let cpu = affinity::allowed().unwrap().first().unwrap();
        let absent = 9999;
        let mut subject = subject(vec![[cpu, absent], [absent, absent + 1]], u64::MAX);
        for treatment in [0, 0, 0, 0, 1] {
            let sample = subject.measure(treatment).unwrap();
            assert_eq!((sample.work, &sample.values[..]), (0.0, &[0.0; 3][..]));
        }
    }

    #[test]
    fn nothing_is_visited_after_the_end() {
        let cpus = affinity::allowed().unwrap();
        let mut subject = subject(vec![[cpus.first().unwrap(), cpus.last().unwrap()]], now_ns());
        assert_eq!(subject.measure(0).unwrap().work, 0.0);
    }
}
