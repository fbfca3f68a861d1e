//! Speed-ups above linear, and their causes as far as the record shows them.

use super::{Clock, ScalingPoint};
use crate::{SchedulerCounters, wording::percent};
use manycore_stats::verdict::EQUIVALENCE_MARGIN;
use manycore_text::names::list;
use serde::Serialize;

/// Maximum cost of a migration for this load, whose data fit the first-level cache.
const MIGRATION_SECONDS: f64 = 100e-6;

/// A speed-up above linear.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Superlinear {
    /// Whether the interval contains the linear speed-up, or lies no further above it than [`EQUIVALENCE_MARGIN`], so
    /// that chance explains it.
    pub within_noise: bool,
    /// Likely causes, in words. Empty where the recorded conditions show none.
    pub causes: Vec<String>,
}

impl Superlinear {
    /// Describes the cause: chance, the likely causes, or that the record shows none.
    pub fn cause(&self) -> String {
        match &self.causes[..] {
            _ if self.within_noise => "within noise".to_owned(),
            [] => "the record shows no cause".to_owned(),
            causes => list(causes),
        }
    }
}

/// Evaluates a `point` relative to `one`, the point of one worker. Returns `None` where it is not above
/// linear.
pub(super) fn evaluate(
    point: &ScalingPoint,
    one: &ScalingPoint,
    cpus: usize,
    clock: Option<&Clock>,
) -> Option<Superlinear> {
    let excess = point.efficiency.median - 1.0;
    (point.workers > 1 && excess > 0.0).then(|| Superlinear {
        within_noise: point.efficiency.interval.is_none_or(|(low, _)| low <= 1.0 + EQUIVALENCE_MARGIN),
        causes: causes(&one.counters, &undisturbed(point, cpus), excess, clock),
    })
}

/// Returns the counters of a point without the run delay of workers beyond the number of CPUs. These
/// wait for each other; that costs no work and does not show how the CPUs were disturbed.
fn undisturbed(point: &ScalingPoint, cpus: usize) -> SchedulerCounters {
    let run_delay = point.counters.run_delay.map(|delay| if point.workers > cpus { 0.0 } else { delay });
    SchedulerCounters { run_delay, ..point.counters.clone() }
}

/// Returns what made one worker slow relative to many. A difference counts where it has the right sign and
/// explains at least a third of the excess.
fn causes(
    one: &SchedulerCounters,
    many: &SchedulerCounters,
    excess: f64,
    clock: Option<&Clock>,
) -> Vec<String> {
    let explains = |size: f64| size > excess / 3.0;
    let mut causes = Vec::new();
    for (name, alone, at_once) in [
        ("the hypervisor (steal)", one.steal, many.steal),
        ("waiting for a CPU (run delay)", one.run_delay, many.run_delay),
        ("throttling by a cgroup quota", one.throttled, many.throttled),
    ] {
        if let Some((alone, at_once)) = alone.zip(at_once).filter(|(a, b)| explains(a - b)) {
            causes.push(format!(
                "one worker alone lost {} of its time to {name}, several at once lost {}",
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
    let migrations = one.migrations_per_second.zip(many.migrations_per_second);
    let moving = |(alone, at_once): &(f64, f64)| explains((alone - at_once) * MIGRATION_SECONDS);
    if let Some((alone, at_once)) = migrations.filter(moving) {
        causes.push(format!(
            "one worker alone migrated {alone:.1} times a second, several at once {at_once:.1} times each"
        ));
    }
    let per_cpu_second = one.rate_per_cpu_second.zip(many.rate_per_cpu_second);
    if let Some(faster) = per_cpu_second
        .map(|(alone, at_once)| at_once / alone - 1.0)
        .filter(|&faster| causes.is_empty() && explains(faster))
    {
        causes.push(format!(
            "a second of CPU time did {} more work than with one worker, so waiting for CPUs is not the cause",
            percent(faster)
        ));
    }
    causes
}
