//! What is run, and under which conditions.

use crate::{
    life::{Hooks, IgnoredFailures},
    sharing::SharingMeter,
};
use manycore_control::{placement::WorkerCpus, scheduler::Scheduler, setting::Setting};
use manycore_experiment::metric::MetricReader;
use manycore_topology::CpuSet;
use std::{path::PathBuf, time::Duration};

/// One variant: a command and its placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that are added to our own environment.
    pub env: Vec<(String, String)>,
    /// Number of copies that run at once.
    pub copies: usize,
    /// Placement of the command, or of the service if there is one.
    pub place: WorkerCpus,
    /// Niceness of the command, from -20 to 19; that of this process where it is absent.
    pub nice: Option<i32>,
    /// Settings of the machine while it runs.
    pub settings: Vec<Setting>,
    /// Scheduler of all tasks while it runs; not switched where it is absent.
    pub scheduler: Option<Scheduler>,
    /// Commands around its runs.
    pub hooks: Hooks,
}

/// Settings for measuring runs.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Readers of the output.
    pub readers: Vec<MetricReader>,
    /// Name of the primary metric. `None` means the first metric of the first reader, or wall time.
    pub primary: Option<String>,
    /// Observes what the tasks of each run share, where that is wanted.
    pub sharing: Option<SharingMeter>,
    /// Time limit for one run.
    pub timeout: Duration,
    /// Runs that end with an error and count like any other one.
    pub ignored_failures: IgnoredFailures,
    /// CPUs for the load on a service.
    pub load_cpus: Option<CpuSet>,
    /// The file that each run reads as its standard input.
    pub input: Option<PathBuf>,
    /// Whether caches are dropped before each run.
    pub drop_caches: bool,
}

impl Default for RunSettings {
    /// Returns settings in which wall time is the primary metric and a run may take ten minutes.
    fn default() -> Self {
        Self {
            readers: Vec::new(),
            primary: None,
            sharing: None,
            timeout: Duration::from_mins(10),
            ignored_failures: IgnoredFailures::None,
            load_cpus: None,
            input: None,
            drop_caches: false,
        }
    }
}
