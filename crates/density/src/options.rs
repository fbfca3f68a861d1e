//! What a measurement of density is given.

use crate::{
    instances::{InstanceTuning, ServiceSpec},
    load::{InstanceLoad, SliceTimes},
};
use manycore_control::setting::Setting;
use manycore_experiment::tail_bound::{LatencyFigure, TailBound};
use manycore_stats::largest_count::{Search, SearchOptions};
use manycore_text::units::counted;
use manycore_topology::CpuSet;
use std::time::Duration;

/// How often each instance gets requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Requests per second.
    PerSecond(f64),
    /// A share of what a lone instance serves in a closed loop.
    ShareOfCapacity(f64),
}

/// Instances that are placed and favoured in one way, on a machine with these settings.
#[derive(Clone, Debug, Default)]
pub struct DensityVariant {
    /// The user's name for it.
    pub name: Option<String>,
    /// What it is: `place=close,thp=never`.
    pub description: String,
    /// What its instances get.
    pub tuning: InstanceTuning,
    /// Settings of the machine while its instances are loaded. Those that only another variant names have their original
    /// values then.
    pub settings: Vec<Setting>,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct DensityOptions {
    /// The service. Its tuning is that of the variants.
    pub service: ServiceSpec,
    /// What the record calls it: its command.
    pub subject: String,
    /// The variants, the reference first; at least one.
    pub variants: Vec<DensityVariant>,
    /// The load of each instance.
    pub load: InstanceLoad,
    /// The request of that load, as text.
    pub request: String,
    /// CPUs of the loads; those of this process if empty.
    pub load_cpus: CpuSet,
    /// How often each instance gets requests.
    pub rate: Rate,
    /// The bound of the observed instance.
    pub bound: TailBound,
    /// The largest count.
    pub most: usize,
    /// Whether a smaller one is taken where the memory does not hold so many. Otherwise that is an error.
    pub may_reduce: bool,
    /// Pairs of slices of each variant, at most.
    pub pairs: usize,
    /// Lengths of a slice.
    pub times: SliceTimes,
    /// Seed of the order of slices, and of the loads.
    pub seed: u64,
}

impl DensityOptions {
    /// Returns the longest time that it takes, without starting instances. `None` if that is not known.
    pub fn longest(&self) -> Option<Duration> {
        Some(self.pair_time()? * (self.pairs * self.variants.len()) as u32)
    }

    /// Returns how long a pair takes. `None` for clients, which end when they have done their work.
    pub(crate) fn pair_time(&self) -> Option<Duration> {
        let is_ours = matches!(self.load, InstanceLoad::Generator { .. });
        is_ours.then(|| (self.times.length + self.times.settle) * 2)
    }

    pub(crate) fn search(&self, most: usize) -> Search {
        Search::new(SearchOptions {
            bound: self.bound.log_limit(),
            first: self.bound.first_count(),
            most,
            samples: self.pairs,
        })
    }

    /// Returns a note if an instance is limited to more CPUs than its placement gives it.
    pub(crate) fn few_cpus(&self) -> Option<String> {
        let limit = self.service.limits.cpus?;
        let places = self.variants.iter().filter_map(|variant| variant.tuning.place(0));
        let narrow = places.min_by_key(|place| place.len()).filter(|place| (place.len() as f64) < limit)?;
        Some(format!(
            "The placement gives an instance {}, fewer than its limit of {limit}.",
            counted(narrow.len(), "CPU")
        ))
    }

    /// Returns a note if a slice has too few requests for the quantile of the bound.
    pub(crate) fn few_requests(&self, rate: f64) -> Option<String> {
        let LatencyFigure::Quantile(q) = self.bound.figure else { return None };
        let requests = rate * self.times.length.as_secs_f64();
        (rate > 0.0 && (1.0 - q) * requests < 1.0).then(|| {
            format!(
                "A slice has about {requests:.0} requests, so its {} is its slowest request: take longer slices or a higher rate.",
                self.bound.figure
            )
        })
    }
}
