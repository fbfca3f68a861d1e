//! What the running tasks of a command share, as metrics of each of its runs.
//!
//! They are metrics, and no counters beside the sample, because a metric is compared, gated, exported and printed beside
//! the other variants by what is there already. The first one says how well tasks are spread, and more is better: a ratio
//! of it exists also where nothing is ever shared, which is what a scheduler that spreads should reach.

use crate::error::{Error, Result};
use manycore_experiment::{
    metric::MetricReader,
    record::{Direction, Metric},
};
use manycore_sharing::{
    DEFAULT_INTERVAL, Level, ProcfsSource, Sampler, Sharing, WatchedRoots,
    level::{LEVELS, Units, levels, main_level},
};
use manycore_topology::Machine;
use std::{str::FromStr, sync::Arc};

/// Snapshots with two running tasks below which the shares of a run are coarse.
const FEW_SNAPSHOTS: u64 = 30;

/// The level at which sharing is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingLevel {
    /// The one at which the spread of tasks is in question: clusters, otherwise last-level caches, otherwise cores.
    Main,
    /// This one.
    Of(Level),
}

impl FromStr for SharingLevel {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        if given == "auto" {
            return Ok(Self::Main);
        }
        let level = LEVELS.into_iter().find(|level| level.name() == given);
        level.map(Self::Of).ok_or_else(|| "a level is auto, core, cluster or llc".to_owned())
    }
}

/// Observes what the tasks of each run share at one level.
#[derive(Clone, Debug)]
pub struct SharingMeter {
    level: Level,
    units: Arc<[Units]>,
}

impl SharingMeter {
    /// Prepares to observe a level of `machine`.
    ///
    /// # Errors
    /// [`Error::NothingToShare`] if tasks have no choice between units of that level.
    pub fn new(level: SharingLevel, machine: &Machine) -> Result<Self> {
        let found = levels(machine, &machine.usable());
        let wanted = match level {
            SharingLevel::Main => main_level(&found),
            SharingLevel::Of(level) => Some(level),
        };
        let unit = found.iter().find(|units| Some(units.level()) == wanted);
        let unit = unit.ok_or_else(|| {
            let there = found.iter().map(|units| units.level().name()).collect();
            let wanted = if let SharingLevel::Of(level) = level { level.name() } else { "auto" };
            Error::NothingToShare { wanted: wanted.to_owned(), there, usable: machine.usable() }
        })?;
        Ok(Self { level: unit.level(), units: [unit.clone()].into() })
    }

    /// Returns the metrics that each run has: the time apart in percent, then the time with pairs of the same process
    /// and of different processes.
    pub fn metrics(&self) -> [Metric; 3] {
        let level = self.level.name();
        let metric =
            |what: &str, better| Metric { name: format!("{level}_{what}"), unit: "%".to_owned(), better };
        [
            metric("apart", Direction::Higher),
            metric("same_process", Direction::Lower),
            metric("different_processes", Direction::Lower),
        ]
    }

    /// Checks that the user's metrics have other names.
    ///
    /// # Errors
    /// [`Error::SharingMetric`] with the name.
    pub(crate) fn check(&self, readers: &[MetricReader]) -> Result {
        let own = self.metrics();
        let taken = readers.iter().filter_map(MetricReader::metric).map(|metric| &metric.name);
        let twice = taken.filter(|name| own.iter().any(|metric| metric.name == **name)).min();
        twice.map_or(Ok(()), |name| Err(Error::SharingMetric(name.clone())))
    }

    /// Begins to observe a run.
    ///
    /// # Errors
    /// [`Error::System`] if the sampling thread cannot be started.
    pub(crate) fn start(&self, roots: WatchedRoots) -> Result<Sampler> {
        let source = ProcfsSource::new(roots);
        let sampler = source.and_then(|source| Sampler::start(source, self.units.clone(), DEFAULT_INTERVAL));
        sampler.map_err(Error::system("observe what running tasks share"))
    }

    /// Returns the values of [`Self::metrics`]. A run in which two tasks were never running has shared nothing.
    pub(crate) fn values(&self, observed: Option<&Sharing>) -> Vec<(Metric, f64)> {
        let found = observed.and_then(|sharing| sharing.of(self.level));
        let [any, same, different] = found.map_or([0.0; 3], |found| {
            [found.any.share, found.same_process.share, found.different_processes.share]
        });
        let values = [1.0 - any, same, different].map(|share| share * 100.0);
        self.metrics().into_iter().zip(values).collect()
    }

    /// Returns what the user should know about the values of a run of `name`.
    pub(crate) fn note(&self, name: &str, observed: Option<&Sharing>) -> Option<String> {
        let apart = &self.metrics()[0].name;
        match observed.map_or(0, |sharing| sharing.snapshots_with_two) {
            0 => Some(format!(
                "{name}: in some runs two tasks were never seen running at once, and {apart} is 100 % there"
            )),
            few if few < FEW_SNAPSHOTS => Some(format!(
                "{name}: in some runs, {apart} is coarse: two tasks were running in fewer than {FEW_SNAPSHOTS} \
                 snapshots of the CPUs"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};

    fn meter(level: &str, spec: &MachineSpec) -> Result<SharingMeter> {
        let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
        SharingMeter::new(level.parse().unwrap(), &machine)
    }

    #[test]
    fn metrics_are_those_of_the_level() {
        let laboratory = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
        let names = |level: &str| meter(level, &laboratory).unwrap().metrics().map(|metric| metric.name);
        assert_eq!(names("auto"), ["cluster_apart", "cluster_same_process", "cluster_different_processes"]);
        assert_eq!(names("llc")[0], "llc_apart");
        let refused = meter("core", &laboratory).unwrap_err().to_string();
        assert!(refused.contains("cluster, llc"), "{refused}");
        assert!(meter("auto", &MachineSpec::default()).unwrap_err().to_string().contains("no choice"));
        assert!("package".parse::<SharingLevel>().unwrap_err().contains("cluster"));
    }

    #[test]
    fn names_of_other_metrics_differ() {
        let meter =
            meter("auto", &MachineSpec { packages: 2, clusters: 2, ..MachineSpec::default() }).unwrap();
        let readers = |text: &str| vec![text.parse::<MetricReader>().unwrap()];
        let own = format!("{}=(.*)", meter.metrics()[1].name);
        assert!(meter.check(&readers(&own)).unwrap_err().to_string().contains("another name"));
        assert!(meter.check(&readers("rate=(.*)")).is_ok());
    }

    #[test]
    fn a_run_without_two_running_tasks_has_shared_nothing() {
        let meter = meter("llc", &MachineSpec { packages: 2, cores: 2, ..MachineSpec::default() }).unwrap();
        let values: Vec<f64> = meter.values(None).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [100.0, 0.0, 0.0]);
        assert!(meter.note("sleep", None).unwrap().contains("never seen running at once"));
    }
}
