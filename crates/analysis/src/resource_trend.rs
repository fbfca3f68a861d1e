//! Which resource moves with the tail of an observed instance as more instances run.
//!
//! A measurement of density takes pairs of slices: one in which only the observed instance is loaded, and one in which all of
//! a count are. Each slice has a tail of the latency and the figures of resources
//! ([`manycore_experiment::record::Resource`]).
//!
//! # When something has moved
//!
//! At each count, the change is the mean of the differences within pairs. Its interval has the noise of all counts together,
//! and all counts of a figure hold jointly at 99 % (Student's t, Bonferroni). A figure has moved from the smallest count on
//! from which all intervals exclude 0 on the same side.
//!
//! # What is named
//!
//! A resource moves with the tail if its change over the counts has a rank correlation with that of the tail (at least four
//! counts, Holm's procedure over all resources at 5 %), if it has moved, and if it goes on in the direction in which it has
//! moved where the tail rises. Of these, [`ResourceTrends::first_to_move`] names the first in this order:
//!
//! 1. The smaller count from which the resource has moved. What moved before the tail counts as moved with it: it was there
//!    for some counts without an effect.
//! 2. The waiting of the observed instance itself, which is a part of its latency, before resources that it shares.
//!    Throttling before run delay, which contains it.
//! 3. The larger correlation.
//!
//! Totals of the machine are never named. They rise with the number of instances by construction, so that their movement
//! says nothing about a shortage. [`ResourceTrends::moving`] has them at its end.
//!
//! This is no proof of a cause. Whatever rises with the number of instances correlates with a tail that rises with it.

use manycore_experiment::record::{Metric, Resource};
use manycore_stats::{FAMILY_LEVEL, holm_divisors, mean, median, spearman, student_critical};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two-sided level of all changes of a figure jointly.
const MOVE_LEVEL: f64 = 0.01;

/// Minimum number of counts for a correlation.
const MIN_COUNTS: usize = 4;

/// Minimum number of pairs at a count for an interval: the noise of other counts says nothing about a single pair far from
/// them.
const MIN_PAIRS: usize = 2;

/// A pair of slices.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourcePair {
    /// The number of instances that were loaded in the second slice.
    pub count: usize,
    /// Natural logarithm of the tail of the observed instance in the second slice over that of the lone instance.
    pub tail: f64,
    /// Value of each metric, alone and in the second slice.
    pub values: Vec<(f64, f64)>,
}

/// The change of a figure at one count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeAtCount {
    /// The number of loaded instances.
    pub count: usize,
    /// Mean difference to the lone instance, in the unit of the figure.
    pub mean: f64,
    /// Its interval, at 99 % for all counts jointly; absent where the count has a single pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Number of pairs.
    pub pairs: usize,
}

/// A resource over the counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceTrend {
    /// Name of the metric.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Median of the slices in which only the observed instance was loaded.
    pub alone: f64,
    /// The change at each count, ascending.
    pub at_each_count: Vec<ChangeAtCount>,
    /// Rank correlation of the change with that of the tail over the counts; absent below four counts, and where one of
    /// them is the same at all counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    /// Two-sided p-value of that correlation, not corrected for the number of resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_p: Option<f64>,
    /// The smallest count from which the change differs from 0 on the same side at all larger counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_move: Option<usize>,
}

/// The tail and all resources over the counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceTrends {
    /// The change of the logarithm of the tail at each count, ascending.
    pub tail: Vec<ChangeAtCount>,
    /// The count from which the tail has moved, as [`ResourceTrend::first_move`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_first_move: Option<usize>,
    /// The resources, in the order of the metrics.
    pub resources: Vec<ResourceTrend>,
}

impl ResourceTrends {
    /// Evaluates pairs of slices with values of `metrics`. Values that are not finite are left out.
    pub fn new(metrics: &[Metric], pairs: &[ResourcePair]) -> Self {
        let tail = changes(pairs.iter().map(|pair| (pair.count, pair.tail)));
        let trend = |(index, metric): (usize, &Metric)| trend(metric, index, pairs, &tail);
        let resources = metrics.iter().enumerate().filter_map(trend).collect();
        Self { tail_first_move: first_move(&tail), tail, resources }
    }

    /// Returns the resource that is named as the one that moves with the tail, by the rule at the head of `resource_trend.rs`.
    /// `None` where nothing that was measured moves with the tail but totals of the machine, or the tail does not rise.
    pub fn first_to_move(&self) -> Option<&ResourceTrend> {
        self.moving().into_iter().find(|trend| Kind::of(&trend.name) != Kind::Total)
    }

    /// Returns all resources that move with the tail, the one that is named first, and totals of the machine last.
    pub fn moving(&self) -> Vec<&ResourceTrend> {
        let Some(tail_move) = self.tail_first_move.filter(|_| is_upward(&self.tail)) else {
            return Vec::new();
        };
        let p_values: Vec<f64> = self.resources.iter().filter_map(|trend| trend.correlation_p).collect();
        let divisors = holm_divisors(&p_values, FAMILY_LEVEL);
        let tested = self.resources.iter().filter(|trend| trend.correlation_p.is_some());
        let is_significant = |(p, divisor): (&f64, &usize)| p * *divisor as f64 <= FAMILY_LEVEL;
        let mut moving: Vec<(usize, &ResourceTrend)> = tested
            .zip(p_values.iter().zip(&divisors))
            .filter(|(trend, test)| is_significant(*test) && trend.goes_on_with_tail())
            .filter_map(|(trend, _)| Some((trend.first_move?.max(tail_move), trend)))
            .collect();
        moving.sort_by(|(a_move, a), (b_move, b)| {
            let key = |moved: usize, trend: &ResourceTrend| {
                let kind = Kind::of(&trend.name);
                (kind == Kind::Total, moved, kind)
            };
            let strength = |trend: &ResourceTrend| trend.correlation.unwrap_or(0.0).abs();
            key(*a_move, a).cmp(&key(*b_move, b)).then_with(|| strength(b).total_cmp(&strength(a)))
        });
        moving.into_iter().map(|(_, trend)| trend).collect()
    }
}

impl ResourceTrend {
    /// Whether it goes further in the direction in which it has moved where the tail rises.
    fn goes_on_with_tail(&self) -> bool {
        let is_positive = self.correlation.is_some_and(|rho| rho > 0.0);
        self.first_move.is_some() && is_upward(&self.at_each_count) == is_positive
    }
}

/// What a resource is to the observed instance, in the order in which resources are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// It waits because of a limit of its own. The kernel counts this wait as run delay too.
    OwnLimit,
    /// It waits for another reason.
    OwnWaiting,
    /// It shares it with others. Its own CPU time for the same requests depends on what it shares.
    Shared,
    /// A total that rises with the number of instances by construction.
    Total,
}

impl Kind {
    fn of(name: &str) -> Self {
        match Resource::from_name(name) {
            Some(Resource::Throttled) => Self::OwnLimit,
            Some(Resource::RunDelay) => Self::OwnWaiting,
            Some(Resource::CpusBusy | Resource::CpuPressure) => Self::Total,
            _ => Self::Shared,
        }
    }
}

/// Returns what to try next where the resource `name` moves with the tail, in one phrase. `None` for totals, which leave
/// open what is short, and for unknown names.
pub fn next_step(name: &str) -> Option<&'static str> {
    Some(match Resource::from_name(name)? {
        Resource::RunDelay => {
            "another placement ('--variant place=spread') or weight ('observed:weight=400'), fewer instances for each CPU, or \
             another scheduler \
             ('manycore sched run')"
        }
        // The same requests take more CPU time where others use the core or the caches.
        Resource::CpuUse => {
            "fewer instances that share a core or a cache ('--variant place=spread@core', 'spread@cluster', 'spread@llc'), memory \
             of their own node ('memory=bind'), or huge pages ('thp=always')"
        }
        Resource::Throttled => "a larger limit of CPU time for each instance ('--cpu-limit')",
        Resource::SiblingsBusy => "a core for each instance ('--variant place=spread@core')",
        Resource::InterruptTime | Resource::DeviceInterrupts => {
            "interrupts on CPUs that no instance uses ('--variant irq:DEVICE=beside', 'manycore irq place')"
        }
        Resource::Steal => {
            "fewer virtual CPUs for each CPU of the host, or CPUs of the host for this virtual machine alone"
        }
        Resource::MemoryPressure | Resource::MajorFaults => "more memory, or fewer instances that share it",
        Resource::SoftnetOverruns | Resource::TcpLosses => {
            "the network: packets on more CPUs ('manycore irq place'), longer queues ('net.core.netdev_max_backlog', \
             'net.core.somaxconn')"
        }
        Resource::CacheOccupancy | Resource::MemoryBandwidth => {
            "limits of memory bandwidth and cache for the other instances ('--variant qos:others=30%', 'manycore qos set')"
        }
        Resource::CpusBusy | Resource::CpuPressure => return None,
    })
}

fn trend(
    metric: &Metric,
    index: usize,
    pairs: &[ResourcePair],
    tail: &[ChangeAtCount],
) -> Option<ResourceTrend> {
    let value = |pair: &ResourcePair| Some((pair.count, *pair.values.get(index)?));
    let values: Vec<(usize, (f64, f64))> = pairs.iter().filter_map(value).collect();
    let alone: Vec<f64> = values.iter().map(|(_, (alone, _))| *alone).collect();
    let at_each_count = changes(values.iter().map(|(count, (alone, at))| (*count, at - alone)));
    let correlation = correlation(&at_each_count, tail);
    Some(ResourceTrend {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        alone: median(&alone)?,
        first_move: first_move(&at_each_count),
        at_each_count,
        correlation: correlation.map(|(rho, _)| rho),
        correlation_p: correlation.map(|(_, p)| p),
    })
}

/// Returns the rank correlation over the counts that both have.
fn correlation(resource: &[ChangeAtCount], tail: &[ChangeAtCount]) -> Option<(f64, f64)> {
    let both = resource.iter().filter_map(|change| {
        let tail = tail.iter().find(|tail| tail.count == change.count)?;
        Some((change.mean, tail.mean))
    });
    let (resource, tail): (Vec<f64>, Vec<f64>) = both.unzip();
    (resource.len() >= MIN_COUNTS).then(|| spearman(&resource, &tail)).flatten()
}

/// Returns the mean difference at each count, ascending.
fn changes(differences: impl Iterator<Item = (usize, f64)>) -> Vec<ChangeAtCount> {
    let mut by_count: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (count, difference) in differences.filter(|(_, difference)| difference.is_finite()) {
        by_count.entry(count).or_default().push(difference);
    }
    let squares = |values: &Vec<f64>| {
        let mean = mean(values).unwrap_or(0.0);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let freedom = by_count.values().map(|values| values.len() - 1).sum::<usize>() as f64;
    let pooled = by_count.values().map(squares).sum::<f64>() / freedom;
    let critical = student_critical(MOVE_LEVEL / by_count.len() as f64, freedom);
    let change = |(count, values): (usize, Vec<f64>)| {
        let mean = mean(&values)?;
        let half = critical * (pooled / values.len() as f64).sqrt();
        let interval = (values.len() >= MIN_PAIRS).then_some((mean - half, mean + half));
        Some(ChangeAtCount { count, mean, interval, pairs: values.len() })
    };
    by_count.into_iter().filter_map(change).collect()
}

/// Returns the smallest count from which all changes differ from 0 on the same side. Counts without an interval are left out.
fn first_move(changes: &[ChangeAtCount]) -> Option<usize> {
    let changes: Vec<&ChangeAtCount> = changes.iter().filter(|change| change.interval.is_some()).collect();
    let side = |change: &ChangeAtCount| match change.interval {
        Some((low, _)) if low > 0.0 => Some(true),
        Some((_, high)) if high < 0.0 => Some(false),
        _ => None,
    };
    let last = side(changes.last()?)?;
    changes
        .into_iter()
        .rev()
        .take_while(|change| side(change) == Some(last))
        .last()
        .map(|change| change.count)
}

/// Whether the change at the largest count is an increase.
fn is_upward(changes: &[ChangeAtCount]) -> bool {
    changes.last().is_some_and(|change| change.mean > 0.0)
}

#[cfg(test)]
mod tests;
