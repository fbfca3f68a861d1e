//! The schedulers of variants: put in force before a run, and checked after it.

use super::Variant;
use crate::{Error, error::Result};
use manycore_control::{
    cleanup::Program,
    journal,
    scheduler::{Scheduler, SchedulerSwitch},
};
use manycore_experiment::interrupt;
use manycore_stats::median;
use manycore_topology::SysTree;
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

/// Time between a switch and the next run. Load averages, from which schedulers and frequency governors conclude, forget
/// half of the past in 32 ms (`LOAD_AVG_PERIOD` in `kernel/sched`): after 200 ms, 1.3 % of it is left, less than the
/// margin of equivalence.
pub(crate) const SETTLE: Duration = Duration::from_millis(200);

/// Switches schedulers between runs, and remembers how long that took.
pub(crate) struct SchedulerRuns {
    switch: SchedulerSwitch,
    /// Seconds of the switches between runs, without settling, by label.
    seconds: BTreeMap<String, Vec<f64>>,
}

impl SchedulerRuns {
    /// Begins to switch the schedulers of the variants, if they have any. Each of them is loaded once: one that fails is
    /// found before anything is measured.
    ///
    /// # Errors
    /// [`Error::Scheduler`] if one of them cannot be loaded here, or one is loaded already.
    pub(crate) fn begin(subcommand: &str, variants: &[Variant]) -> Result<Option<Self>> {
        let mut all: Vec<Scheduler> = Vec::new();
        for scheduler in variants.iter().filter_map(|variant| variant.scheduler.as_ref()) {
            if !all.contains(scheduler) {
                all.push(scheduler.clone());
            }
        }
        if all.is_empty() {
            return Ok(None);
        }
        let labels: Vec<&str> = all.iter().map(|scheduler| scheduler.label.as_str()).collect();
        let request = format!("{subcommand}: schedulers {}", labels.join(", "));
        let tree = SysTree::open(Path::new("/"))
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(Error::system("read /sys"))?;
        let (folder, about) = (journal::folder(), (subcommand, request.as_str()));
        let mut switch =
            SchedulerSwitch::begin(&all, tree, &folder, about, &Program::own(), interrupt::requested)?;
        for scheduler in &all {
            switch.apply(scheduler)?;
        }
        switch.apply(&Scheduler::kernel())?;
        Ok(Some(Self { switch, seconds: BTreeMap::new() }))
    }

    /// Puts the scheduler of a variant in force, and waits until it has settled. Returns how long that took in
    /// nanoseconds; nothing if it is in force already.
    ///
    /// # Errors
    /// [`Error::Scheduler`], [`Error::Interrupted`].
    pub(super) fn apply(&mut self, scheduler: &Scheduler) -> Result<Option<u64>> {
        let began = Instant::now();
        let Some(switched) = self.switch.apply(scheduler)? else { return Ok(None) };
        self.seconds.entry(scheduler.label.clone()).or_default().push(switched.took.as_secs_f64());
        interrupt::sleep(SETTLE)?;
        Ok(Some(began.elapsed().as_nanos() as u64))
    }

    /// Checks during a run that the program of the scheduler still runs.
    ///
    /// # Errors
    /// [`Error::Scheduler`] if it has ended.
    pub(super) fn check_program(&mut self) -> Result {
        Ok(self.switch.check_program()?)
    }

    /// Checks after a run that the scheduler was in force all the time.
    ///
    /// # Errors
    /// [`Error::Scheduler`] if it was not.
    pub(super) fn check(&mut self) -> Result {
        Ok(self.switch.check()?)
    }

    /// Returns the kernel's name of a scheduler, by label.
    pub(crate) fn names(&self) -> &BTreeMap<String, String> {
        self.switch.names()
    }

    /// Gives the machine back to the kernel's own scheduler. Returns what did not succeed.
    pub(super) fn end(&mut self) -> Vec<String> {
        self.switch.restore()
    }

    /// Returns how often the scheduler was switched, and how long that took; nothing if it never was.
    pub(super) fn summary(&self) -> Option<String> {
        let each: Vec<String> = self
            .seconds
            .iter()
            .map(|(label, seconds)| {
                let typical = median(seconds).unwrap_or_default();
                format!("{} times to {label} ({:.0} ms in the median)", seconds.len(), typical * 1e3)
            })
            .collect();
        (!each.is_empty()).then(|| {
            format!(
                "The scheduler was switched {}, and settled for {} ms each time; none of this is in a sample.",
                each.join(", "),
                SETTLE.as_millis()
            )
        })
    }
}
