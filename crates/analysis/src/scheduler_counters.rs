//! Scheduler counters around the samples of a treatment, as shares and rates.

use manycore_experiment::record::{Experiment, Record, Sample};
use manycore_topology::CpuSet;
use serde::Serialize;

/// Conditions of one treatment over all its samples. A share is relative to the CPU time that the workers
/// could have had: wall time times the smaller of the numbers of workers and CPUs. No share exceeds 1: the
/// kernel counts some times when they end, so a counter may include time from before the sample. `None`
/// where the machine does not report a counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerCounters {
    /// CPU time that the workers used, as a share of the time that they could have had.
    pub cpu_time: Option<f64>,
    /// Time that the hypervisor took (steal), as a share of the time in which the CPUs were busy.
    pub steal: Option<f64>,
    /// CPU time of everything that is not a worker, as a share of the time of the usable CPUs.
    pub other_work: Option<f64>,
    /// Time in which workers were runnable and waited for a CPU, as a share of the time of all workers.
    pub run_delay: Option<f64>,
    /// Time for which a cgroup quota throttled the workers, as a share of the time that they could have had.
    pub throttled: Option<f64>,
    /// Migrations between CPUs, per second and worker.
    pub migrations_per_second: Option<f64>,
    /// Involuntary context switches, per second and worker.
    pub preemptions_per_second: Option<f64>,
    /// Mean frequency in kHz.
    pub frequency_khz: Option<f64>,
    /// Work per second of CPU time.
    pub rate_per_cpu_second: Option<f64>,
    /// Share of time in which at least one task waited for a CPU (PSI).
    pub cpu_pressure: Option<f64>,
    /// Thermal throttling events.
    pub thermal_events: Option<u64>,
}

/// Computes the counters of treatment `index`, whose workers could use the CPUs `usable`.
pub(crate) fn gather(
    experiment: &Experiment,
    index: usize,
    record: &Record,
    usable: &CpuSet,
) -> SchedulerCounters {
    let samples: Vec<&Sample> = experiment.samples_of(index).collect();
    let workers = experiment.treatments[index].workers;
    let span: f64 = samples.iter().map(|sample| sample.counters.span_ns as f64).sum();
    let cpus = usable.len().max(1) as f64;
    let capacity = span * (workers as f64).min(cpus);
    let total = |pick: &dyn Fn(&Sample) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = samples.iter().map(|sample| pick(sample)).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
    };
    let cpu = total(&|sample| sample.counters.cpu_ns.map(|ns| ns as f64));
    let steal = total(&|sample| usable_ns(&sample.counters.steal_ticks, record, usable));
    let busy = total(&|sample| usable_ns(&sample.counters.busy_ticks, record, usable));
    let share = |value: Option<f64>, of: f64| {
        value.map(|value| value / of).filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0))
    };
    let per_worker_second = |value: Option<f64>| {
        value.map(|value| value * 1e9 / (span * workers.max(1) as f64)).filter(|rate| rate.is_finite())
    };
    let frequency = total(&|sample| sample.counters.frequency_khz.map(|khz| khz as f64));
    SchedulerCounters {
        cpu_time: share(cpu, capacity),
        steal: busy.and_then(|busy| share(steal, busy)),
        other_work: share(busy.zip(cpu).map(|(busy, cpu)| busy - steal.unwrap_or(0.0) - cpu), span * cpus),
        run_delay: share(
            total(&|sample| sample.counters.run_delay_ns.map(|ns| ns as f64)),
            span * workers.max(1) as f64,
        ),
        throttled: share(total(&|sample| sample.counters.throttled_ns.map(|ns| ns as f64)), capacity),
        migrations_per_second: per_worker_second(total(&|sample| {
            sample.counters.migrations.map(|count| count as f64)
        })),
        preemptions_per_second: per_worker_second(total(&|sample| {
            sample.counters.involuntary_switches.map(|count| count as f64)
        })),
        frequency_khz: frequency.map(|sum| sum / samples.len() as f64),
        rate_per_cpu_second: cpu.and_then(|cpu| rate_per_cpu_second(&samples, cpu, span)),
        cpu_pressure: share(total(&|sample| sample.counters.cpu_pressure_ns.map(|ns| ns as f64)), span),
        thermal_events: total(&|sample| sample.counters.thermal_events.map(|count| count as f64))
            .map(|events| events as u64),
    }
}

/// Returns the time of the usable CPUs in nanoseconds. `None` where the ticks are not those of all CPUs.
fn usable_ns(ticks: &[u32], record: &Record, usable: &CpuSet) -> Option<f64> {
    let online = &record.machine.online;
    let tick_ns = 1e9 / record.conditions.ticks_per_second.max(1) as f64;
    let of_usable = online.iter().zip(ticks).filter(|(cpu, _)| usable.contains(*cpu));
    (ticks.len() == online.len())
        .then(|| of_usable.map(|(_, &ticks)| f64::from(ticks)).sum::<f64>() * tick_ns)
}

/// Returns work per second of CPU time. Work is counted within the sample, CPU time over the slightly
/// longer span around it.
fn rate_per_cpu_second(samples: &[&Sample], cpu_ns: f64, span_ns: f64) -> Option<f64> {
    let work: f64 = samples.iter().map(|sample| sample.work).sum();
    let wall: f64 = samples.iter().map(|sample| sample.wall_ns as f64).sum();
    let rate = work / wall * span_ns / cpu_ns * 1e9;
    rate.is_finite().then_some(rate)
}
