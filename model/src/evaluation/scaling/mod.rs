//! How work scales over workers, and what made points that cannot be true.

use super::{
    circumstances::{self, Circumstances},
    noise::{self, Noise},
    usable_cpus,
    words::{interval, list, percent},
};
use crate::{
    CpuId, Record, histogram,
    record::{Experiment, Latency, Sample},
    stats::{Estimate, Usl, UslPoint, jain, median},
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Resamples for the intervals of the scalability law.
const BOOTSTRAPS: usize = 400;

/// Time that a migration may cost at most on this load, whose data fit the first-level cache.
const MIGRATION_SECONDS: f64 = 100e-6;

/// The scaling experiment, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaling {
    /// CPUs that the workers could use.
    pub cpus: usize,
    /// One for each number of workers, ascending.
    pub points: Vec<ScalingPoint>,
    /// The law through the points up to the number of CPUs; absent below five of them.
    pub usl: Option<UslFit>,
}

/// A scalability law with the spread of its coefficients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UslFit {
    /// Law through the medians.
    pub law: Usl,
    /// 95 % bootstrap interval of the contention, over raw slices.
    pub contention: (f64, f64),
    /// 95 % bootstrap interval of the coherence.
    pub coherence: (f64, f64),
    /// Contention when N = 1 is left out: far from the law's where one baseline decides.
    pub contention_without_one: Option<f64>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalingPoint {
    /// Workers at once.
    pub workers: usize,
    /// Events counted.
    pub events: f64,
    /// Seconds in which they were counted.
    pub seconds: f64,
    /// Events per second over the slices.
    pub rate: Estimate,
    /// Rate over that of one worker, from pairs of the same block.
    pub speedup: Estimate,
    /// Speed-up for each CPU in use: over the smaller of workers and CPUs.
    pub efficiency: Estimate,
    /// Time of single events.
    pub latency: Option<LatencySummary>,
    /// Jain's index over the events of the workers.
    pub fairness: Option<f64>,
    /// Share of each CPU that was busy, in the order of `Machine::online`.
    pub cpu_share: Vec<(CpuId, f64)>,
    /// What the kernel counted.
    pub circumstances: Circumstances,
    /// Where the speed-up is above the number of CPUs in use: why.
    pub superlinear: Option<Superlinear>,
}

/// A speed-up that the number of CPUs cannot give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Superlinear {
    /// Whether the interval still holds the linear speed-up or the excess is below the noise floor, so that
    /// chance will do as the cause.
    pub within_noise: bool,
    /// Likely causes, in words; empty where the recorded conditions show none.
    pub causes: Vec<String>,
}

impl Superlinear {
    /// The cause in words: chance, the likely ones, or that none was found.
    pub fn cause(&self) -> String {
        match &self.causes[..] {
            _ if self.within_noise => "within noise".to_owned(),
            [] => "cause not found".to_owned(),
            causes => list(causes),
        }
    }
}

impl UslFit {
    /// `contention 0.00012 (95 %: 0 to 0.0003)`.
    pub fn contention_in_words(&self) -> String {
        let ends = interval(Some(self.contention), |end| format!("{end:.5}"));
        format!("contention {:.5} ({ends})", self.law.contention)
    }

    /// `coherence 1.20e-5 (95 %: 0 to 3.1e-5)`.
    pub fn coherence_in_words(&self) -> String {
        let ends = interval(Some(self.coherence), |end| format!("{end:.2e}"));
        format!("coherence {:.2e} ({ends})", self.law.coherence)
    }
}

/// Event times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Shortest.
    pub min_ms: f64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// 95th percentile, within 0.8 %.
    pub p95_ms: f64,
    /// 99th percentile, within 0.8 %.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

/// Cycles per second of the CPUs, from chains of dependent additions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// Each CPU that was measured alone, with its cycles per second.
    pub alone: Vec<(CpuId, Estimate)>,
    /// Cycles per second of one CPU while all are at work.
    pub together: Option<Estimate>,
    /// Together over alone, from pairs of the same block.
    pub ratio: Option<Estimate>,
}

impl Clock {
    /// Cycles per second of one CPU with the others idle: the median over the CPUs.
    pub fn alone_hz(&self) -> f64 {
        let medians: Vec<f64> = self.alone.iter().map(|(_, hz)| hz.median).collect();
        median(&medians).unwrap_or(f64::NAN)
    }
}

/// Judges the clock experiment; absent where no CPU was measured alone.
pub(crate) fn clock(experiment: &Experiment) -> Option<Clock> {
    // Cycles are the CPU's while the worker has it: time that others took does not count.
    let hertz = |sample: &Sample| {
        let workers = experiment.treatments[sample.treatment].workers.max(1) as f64;
        sample.rate_per_cpu_second().unwrap_or(sample.rate() / workers)
    };
    let all = |index: usize| experiment.samples_of(index).map(hertz).collect::<Vec<f64>>();
    let cpu_of = |index: usize| experiment.treatments[index].factors.get("cpu")?.parse::<CpuId>().ok();
    let alone: Vec<(CpuId, Estimate)> = (0..experiment.treatments.len())
        .filter_map(|index| Some((cpu_of(index)?, Estimate::of(&all(index))?)))
        .collect();
    let together = experiment.treatment("together");
    let ratios: Vec<f64> = together.map_or_else(Vec::new, |together| {
        let ratio = |sample: &Sample| {
            let same_block = experiment.samples.iter().filter(|other| other.block == sample.block);
            let alone: Vec<f64> = same_block.filter(|o| cpu_of(o.treatment).is_some()).map(hertz).collect();
            Some(hertz(sample) / median(&alone)?)
        };
        experiment.samples_of(together).filter_map(ratio).collect()
    });
    (!alone.is_empty()).then(|| Clock {
        alone,
        together: together.and_then(|index| Estimate::of(&all(index))),
        ratio: Estimate::of(&ratios),
    })
}

/// Judges the scaling experiment; absent where one worker alone was not measured.
pub(crate) fn judge(
    experiment: &Experiment,
    record: &Record,
    noise: &[Noise],
    clock: Option<&Clock>,
) -> Option<Scaling> {
    let cpus = usable_cpus(&record.machine);
    let one = experiment.treatments.iter().position(|treatment| treatment.workers == 1)?;
    let mut points: Vec<ScalingPoint> =
        (0..experiment.treatments.len()).filter_map(|index| point(experiment, one, index, record)).collect();
    points.sort_by_key(|point| point.workers);
    let baseline = points.first().filter(|point| point.workers == 1)?.clone();
    for point in &mut points {
        point.superlinear = superlinear(point, &baseline, cpus, noise::floor(noise, point.workers), clock);
    }
    Some(Scaling { cpus, points, usl: fit(experiment, cpus, record.seed) })
}

fn point(experiment: &Experiment, one: usize, index: usize, record: &Record) -> Option<ScalingPoint> {
    let treatment = &experiment.treatments[index];
    let wall_ns: f64 = experiment.samples_of(index).map(|sample| sample.wall_ns as f64).sum();
    let speedup = Estimate::of(&experiment.log_ratios(one, index))?.map(f64::exp);
    let in_use = treatment.workers.min(usable_cpus(&record.machine)) as f64;
    Some(ScalingPoint {
        workers: treatment.workers,
        events: experiment.samples_of(index).map(|sample| sample.work).sum(),
        seconds: wall_ns / 1e9,
        rate: Estimate::of(&experiment.rates(index))?,
        speedup,
        efficiency: speedup.map(|speedup| speedup / in_use),
        latency: treatment.latency.as_ref().and_then(summary),
        fairness: jain(&by_worker(experiment, index)),
        cpu_share: cpu_share(experiment, index, record),
        circumstances: circumstances::gather(experiment, index, record),
        superlinear: None,
    })
}

/// Work of each worker over all slices of a treatment: single slices are too short to be fair in.
fn by_worker(experiment: &Experiment, index: usize) -> Vec<f64> {
    let mut sums = vec![0.0; experiment.treatments[index].workers];
    for sample in experiment.samples_of(index) {
        sums.iter_mut().zip(&sample.per_worker).for_each(|(sum, work)| *sum += work);
    }
    sums
}

fn cpu_share(experiment: &Experiment, index: usize, record: &Record) -> Vec<(CpuId, f64)> {
    let mut ticks = vec![0.0; record.machine.online.len()];
    let mut span_ns = 0.0;
    for sample in experiment.samples_of(index) {
        span_ns += sample.around.span_ns as f64;
        ticks.iter_mut().zip(&sample.around.busy_ticks).for_each(|(sum, &busy)| *sum += f64::from(busy));
    }
    let elapsed = span_ns / 1e9 * record.conditions.ticks_per_second as f64;
    let counted = experiment.samples_of(index).any(|sample| !sample.around.busy_ticks.is_empty());
    let shares = ticks.into_iter().map(|ticks| (ticks / elapsed).min(1.0));
    if counted && elapsed > 0.0 { record.machine.online.iter().zip(shares).collect() } else { Vec::new() }
}

fn summary(latency: &Latency) -> Option<LatencySummary> {
    let (min, max) = (latency.min_ns as f64, latency.max_ns as f64);
    // Middles of buckets may lie beyond the extremes.
    let milliseconds = |ns: f64| ns.min(max).max(min) / 1e6;
    Some(LatencySummary {
        min_ms: latency.min_ns as f64 / 1e6,
        mean_ms: latency.sum_ns as f64 / latency.count as f64 / 1e6,
        p95_ms: milliseconds(histogram::quantile(&latency.buckets, 0.95)?),
        p99_ms: milliseconds(histogram::quantile(&latency.buckets, 0.99)?),
        max_ms: latency.max_ns as f64 / 1e6,
    })
}

fn superlinear(
    point: &ScalingPoint,
    one: &ScalingPoint,
    cpus: usize,
    floor: Option<f64>,
    clock: Option<&Clock>,
) -> Option<Superlinear> {
    let linear = point.workers.min(cpus) as f64;
    let excess = point.speedup.median / linear - 1.0;
    (point.workers > 1 && excess > 0.0).then(|| Superlinear {
        within_noise: floor.is_some_and(|floor| excess <= floor)
            || point.speedup.interval.is_none_or(|(low, _)| low <= linear),
        causes: causes(&one.circumstances, &undisturbed(point, cpus), excess, clock),
    })
}

/// The circumstances of a point, where workers beyond the CPUs wait for each other: that wait costs no work
/// and says nothing about how the CPUs were disturbed.
fn undisturbed(point: &ScalingPoint, cpus: usize) -> Circumstances {
    let run_delay = point.circumstances.run_delay.map(|delay| if point.workers > cpus { 0.0 } else { delay });
    Circumstances { run_delay, ..point.circumstances.clone() }
}

/// What made one worker slow beside many. A difference counts where it points the right way and is at
/// least a third of what it would have to explain.
fn causes(one: &Circumstances, many: &Circumstances, excess: f64, clock: Option<&Clock>) -> Vec<String> {
    let explains = |size: f64| size > excess / 3.0;
    let mut causes = Vec::new();
    for (name, alone, at_once) in [
        ("the hypervisor (steal)", one.steal, many.steal),
        ("waiting for a CPU (run delay)", one.run_delay, many.run_delay),
        ("throttling by a cgroup quota", one.throttled, many.throttled),
    ] {
        if let Some((alone, at_once)) = alone.zip(at_once).filter(|(a, b)| explains(a - b)) {
            causes.push(format!(
                "one worker alone lost {} of its time to {name}, many at once lost {}",
                percent(alone),
                percent(at_once)
            ));
        }
    }
    let frequency = one.frequency_khz.zip(many.frequency_khz).map(|(alone, at_once)| at_once / alone - 1.0);
    let cycles = clock
        .and_then(|clock| clock.ratio)
        .filter(|ratio| ratio.interval.is_some_and(|(low, _)| low > 1.0))
        .map(|ratio| ratio.median - 1.0);
    if let Some(faster) = cycles.or(frequency).filter(|&faster| explains(faster)) {
        causes.push(format!("the CPUs ran {} faster with all at work than with one", percent(faster)));
    }
    let migrations = one.migrations.zip(many.migrations);
    let moving = |(alone, at_once): &(f64, f64)| explains((alone - at_once) * MIGRATION_SECONDS);
    if let Some((alone, at_once)) = migrations.filter(moving) {
        causes.push(format!(
            "one worker alone was moved between CPUs {alone:.1} times a second, these {at_once:.1} times"
        ));
    }
    let per_cpu_second = one.rate_per_cpu_second.zip(many.rate_per_cpu_second);
    if let Some(faster) = per_cpu_second
        .map(|(alone, at_once)| at_once / alone - 1.0)
        .filter(|&faster| causes.is_empty() && explains(faster))
    {
        causes.push(format!(
            "a second of CPU time did {} more work than with one worker, so the CPUs themselves were slower \
             then (their clock, or a neighbour on a shared core or cache), not the scheduling",
            percent(faster)
        ));
    }
    causes
}

fn fit(experiment: &Experiment, cpus: usize, seed: u64) -> Option<UslFit> {
    let rates: Vec<(f64, Vec<f64>)> = experiment
        .treatments
        .iter()
        .enumerate()
        .filter(|(_, treatment)| treatment.workers <= cpus)
        .map(|(index, treatment)| (treatment.workers as f64, experiment.rates(index)))
        .collect();
    let medians = |sample: &mut dyn FnMut(&[f64]) -> Vec<f64>| -> Vec<UslPoint> {
        rates
            .iter()
            .filter_map(|(workers, rates)| {
                Some(UslPoint { workers: *workers, rate: median(&sample(rates)).filter(|&rate| rate > 0.0)? })
            })
            .collect()
    };
    let points = medians(&mut <[f64]>::to_vec);
    let law = Usl::fit(&points)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let laws: Vec<Usl> = (0..BOOTSTRAPS)
        .filter_map(|_| {
            Usl::fit(&medians(&mut |rates| {
                (0..rates.len()).map(|_| rates[rng.random_range(0..rates.len())]).collect()
            }))
        })
        .collect();
    let spread = |pick: fn(&Usl) -> f64| -> Option<(f64, f64)> {
        let values: Vec<f64> = laws.iter().map(pick).collect();
        Some((crate::stats::quantile(&values, 0.025)?, crate::stats::quantile(&values, 0.975)?))
    };
    let without_one: Vec<UslPoint> = points.iter().copied().filter(|point| point.workers > 1.0).collect();
    Some(UslFit {
        law,
        contention: spread(|law| law.contention)?,
        coherence: spread(|law| law.coherence)?,
        contention_without_one: Usl::fit(&without_one).map(|law| law.contention),
    })
}
