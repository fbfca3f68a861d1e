//! What the map of CPUs shows: one figure for each CPU, and its scale.

use crate::picture::Picture;
use manycore_topology::{CpuId, CpuSet, Machine};
use std::collections::BTreeMap;

/// A figure of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuMetric {
    /// Share of the time in which it was neither idle nor stolen.
    #[default]
    Use,
    /// Tasks that waited for it: the sum of the waits of tasks that were on it last.
    Wait,
    /// Share of the time that was given to other virtual machines.
    Steal,
    /// Frequency.
    Frequency,
    /// Interrupts of devices and of the architecture, per second.
    Interrupts,
    /// Temperature.
    Temperature,
}

impl CpuMetric {
    /// All of them, in the order of the key.
    pub const ALL: [Self; 6] =
        [Self::Use, Self::Wait, Self::Steal, Self::Frequency, Self::Interrupts, Self::Temperature];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Wait => "wait",
            Self::Steal => "steal",
            Self::Frequency => "frequency",
            Self::Interrupts => "interrupts",
            Self::Temperature => "temperature",
        }
    }

    /// Returns the name with its unit.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Use => "use, % of the CPU's time",
            Self::Wait => "tasks that wait for the CPU",
            Self::Steal => "time given to other virtual machines, %",
            Self::Frequency => "frequency, GHz",
            Self::Interrupts => "interrupts per second",
            Self::Temperature => "temperature, degrees Celsius",
        }
    }

    /// Returns the metric that is `by` later in the order, around its end.
    pub fn next(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&one| one == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }

    /// Formats a value in at most four characters; most take three.
    pub fn short(self, value: f64) -> String {
        match self {
            Self::Use | Self::Steal => format!("{:.0}", value * 100.0),
            Self::Temperature => format!("{value:.0}"),
            Self::Frequency => format!("{value:.1}"),
            Self::Wait if value < 9.95 => format!("{value:.1}"),
            Self::Wait | Self::Interrupts => count(value),
        }
    }

    /// Returns whether the figure of a unit is the sum of its CPUs; otherwise it is the mean.
    pub const fn is_sum(self) -> bool {
        matches!(self, Self::Wait | Self::Interrupts)
    }
}

/// Formats a number in at most three or four characters: `7`, `999`, `12k`, `3M`.
pub(super) fn count(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".to_owned(),
        few if few < 999.5 => format!("{few:.0}"),
        few if few < 9_950.0 => format!("{:.1}k", few / 1e3),
        many if many < 999_500.0 => format!("{:.0}k", many / 1e3),
        many if many < 999.5e6 => format!("{:.0}M", many / 1e6),
        more => format!("{:.0}G", more / 1e9),
    }
}

/// The values of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MetricValues {
    pub metric: CpuMetric,
    /// In the unit of [`CpuMetric::title`], shares as ratios. A CPU without a value is not in it.
    values: BTreeMap<CpuId, f64>,
    /// The values that are shown as no heat and as most of it.
    pub scale: (f64, f64),
}

impl MetricValues {
    /// Returns the values of a picture.
    pub fn new(metric: CpuMetric, machine: &Machine, picture: &Picture) -> Self {
        let each = |of: &dyn Fn(&crate::CpuUse) -> Option<f64>| -> BTreeMap<CpuId, f64> {
            picture.cpus.iter().filter_map(|one| Some((one.cpu, of(one)?))).collect()
        };
        let values = match metric {
            CpuMetric::Use => each(&|one| Some(one.shares?.busy())),
            CpuMetric::Steal => each(&|one| Some(one.shares?.steal)),
            CpuMetric::Frequency => each(&|one| Some(one.khz? as f64 / 1e6)),
            CpuMetric::Temperature => each(&|one| Some(f64::from(one.millidegrees?) / 1e3)),
            CpuMetric::Wait => each(&|one| one.wait),
            CpuMetric::Interrupts => interrupts(picture),
        };
        let most = values.values().copied().fold(0.0, f64::max);
        let scale = match metric {
            CpuMetric::Use | CpuMetric::Steal => (0.0, 1.0),
            CpuMetric::Wait => (0.0, 2.0),
            CpuMetric::Temperature => (30.0, 100.0),
            CpuMetric::Interrupts => (0.0, round_up(most.max(100.0))),
            CpuMetric::Frequency => {
                let known = machine.core_kinds.iter().filter_map(|kind| kind.max_khz).max().unwrap_or(0);
                (0.0, most.max(known as f64 / 1e6).max(0.1))
            }
        };
        Self { metric, values, scale }
    }

    /// Returns whether no CPU has a value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the sum of the values of some CPUs, or their mean; `None` if none of them has one.
    pub fn of(&self, cpus: &CpuSet) -> Option<f64> {
        let (mut sum, mut known) = (0.0, 0);
        for value in cpus.iter().filter_map(|cpu| self.values.get(&cpu)) {
            sum += value;
            known += 1;
        }
        let mean = if self.metric.is_sum() { 1.0 } else { f64::from(known) };
        (known > 0).then(|| sum / mean)
    }

    /// Returns how hot a value of `cpus` CPUs is, from 0 to 1. Waits and interrupts of a unit are compared by CPU.
    pub fn heat(&self, value: f64, cpus: usize) -> f64 {
        let each = if self.metric.is_sum() { value / cpus.max(1) as f64 } else { value };
        ((each - self.scale.0) / (self.scale.1 - self.scale.0)).clamp(0.0, 1.0)
    }
}

/// Sums interrupts by CPU. Softirqs follow from interrupts, and would count twice.
fn interrupts(picture: &Picture) -> BTreeMap<CpuId, f64> {
    let mut rates: BTreeMap<CpuId, f64> =
        picture.cpus.iter().filter(|_| !picture.interrupts.is_empty()).map(|one| (one.cpu, 0.0)).collect();
    for one in picture.interrupts.iter().filter(|one| !one.name.starts_with("softirq")) {
        for (cpu, rate) in &one.by_cpu {
            if let Some(sum) = rates.get_mut(cpu) {
                *sum += rate;
            }
        }
    }
    rates
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|&step| step >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_their_cells() {
        let shown = |metric: CpuMetric, values: &[f64]| {
            values.iter().map(|&value| metric.short(value)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(CpuMetric::Use, &[0.0, 0.004, 0.5, 1.0]), "0 0 50 100");
        assert_eq!(shown(CpuMetric::Wait, &[0.04, 9.94, 9.96, 120.0]), "0.0 9.9 10 120");
        assert_eq!(shown(CpuMetric::Interrupts, &[999.4, 1000.0, 9_960.0, 1e6, 3e9]), "999 1.0k 10k 1M 3G");
        assert_eq!(
            [round_up(100.0), round_up(101.0), round_up(4_000.0), round_up(6e5)],
            [100.0, 200.0, 5e3, 1e6]
        );
    }
}
