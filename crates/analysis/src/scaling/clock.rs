//! Clock of the CPUs alone and all at the same time, from chains of dependent additions.

use manycore_experiment::record::{Experiment, Sample, factor};
use manycore_stats::{Estimate, median};
use manycore_topology::CpuId;
use serde::Serialize;

/// Cycles per second of the CPUs, from chains of dependent additions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// Cycles per second of each CPU that was measured alone.
    pub alone: Vec<(CpuId, Estimate)>,
    /// Cycles per second of one CPU while all are busy.
    pub all_busy: Option<Estimate>,
    /// All busy relative to alone, from pairs of the same block.
    pub ratio: Option<Estimate>,
}

impl Clock {
    /// Returns the cycles per second of one CPU with the others idle: the median over the CPUs.
    pub fn alone_hz(&self) -> f64 {
        let medians: Vec<f64> = self.alone.iter().map(|(_, hz)| hz.median).collect();
        median(&medians).unwrap_or(f64::NAN)
    }
}

/// Evaluates the clock experiment. Returns `None` where no CPU was measured alone.
pub(crate) fn evaluate(experiment: &Experiment) -> Option<Clock> {
    let cpu_of = |index: usize| experiment.treatments[index].factors.get(factor::CPU)?.parse::<CpuId>().ok();
    let each = |index: usize| -> Vec<f64> {
        experiment.samples_of(index).filter_map(|sample| hertz(experiment, [sample])).collect()
    };
    let alone: Vec<(CpuId, Estimate)> = (0..experiment.treatments.len())
        .filter_map(|index| Some((cpu_of(index)?, Estimate::from_samples(&each(index))?)))
        .collect();
    let all_busy = experiment.treatment("all busy");
    let ratios: Vec<f64> = all_busy.map_or_else(Vec::new, |all_busy| {
        let ratio = |sample: &Sample| {
            let same_block = experiment.samples.iter().filter(|other| other.block == sample.block);
            let alone = same_block.filter(|other| cpu_of(other.treatment).is_some());
            Some(hertz(experiment, [sample])? / hertz(experiment, alone)?)
        };
        experiment.samples_of(all_busy).filter_map(ratio).collect()
    });
    (!alone.is_empty()).then(|| Clock {
        alone,
        all_busy: all_busy.and_then(|index| Estimate::from_samples(&each(index))),
        ratio: Estimate::from_samples(&ratios),
    })
}

/// Returns the cycles per second of CPU time over all `samples`. A sample in which the worker never had a
/// CPU adds neither cycles nor time; it does not count as a clock of 0 Hz. `None` where no sample had a
/// CPU.
fn hertz<'a>(experiment: &Experiment, samples: impl IntoIterator<Item = &'a Sample>) -> Option<f64> {
    let (mut cycles, mut seconds) = (0.0, 0.0);
    for sample in samples {
        let workers = experiment.treatments[sample.treatment].workers.max(1) as f64;
        match sample.counters.cpu_ns {
            // Work is counted within the sample, CPU time over the slightly longer span.
            Some(cpu_ns) => {
                cycles += sample.rate() * sample.counters.span_ns as f64 / 1e9;
                seconds += cpu_ns as f64 / 1e9;
            }
            None => {
                cycles += sample.work;
                seconds += sample.wall_ns as f64 / 1e9 * workers;
            }
        }
    }
    (cycles > 0.0 && seconds > 0.0).then(|| cycles / seconds)
}
