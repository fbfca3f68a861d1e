//! The counters in the kernel, and how they get into a sample.

use super::{
    Result,
    object::{LATENCY, loader, possible_cpus},
    tables,
    words::{cpu, machine, reason},
};
use crate::{
    resources::{LATENCY_CLASSES, LatencyHistogram, LatencySample},
    sample::Sample,
    units::LevelUnits,
};
use manycore_bpf::{Loader, map::MappedArray, program::Loaded};
use manycore_linux::counters::ticks_per_second;
use manycore_sharing::level::{Units, levels, main_level};
use manycore_topology::{Level, Machine};
use std::{collections::HashMap, fmt, os::fd::OwnedFd, sync::Arc};

/// `ENXIO`, the kernel's answer if a CPU is offline.
const OFFLINE: i32 = 6;

/// Programs in the kernel that count.
pub struct Counters {
    cpus: MappedArray,
    counts: MappedArray,
    clock: MappedArray,
    watched: MappedArray,
    clusters: LevelUnits,
    /// Names of the reasons for which tasks are off the CPU, and the first words of their histograms.
    reasons: [(Arc<str>, usize); 4],
    conflict: Conflict,
    // The programs run no more once these are closed.
    _links: Vec<OwnedFd>,
    loaded: Loaded,
}

impl fmt::Debug for Counters {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Counters").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

/// Sums of waits in nanoseconds since counting began, as they are added to the run delay of `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// After wake-ups.
    pub wakeup_ns: u64,
    /// After being displaced.
    pub displaced_ns: u64,
}

impl Counters {
    /// Begins to count for all tasks.
    ///
    /// # Errors
    /// [`Error`](super::Error) with what is missing: privileges, types of the kernel, or the programs themselves.
    pub fn attach(machine: &Machine) -> Result<Self> {
        Self::load(machine, false)
    }

    /// Begins to count for the tasks of processes only, which [`Counters::watch`] sets; for none at first.
    ///
    /// # Errors
    /// Those of [`Counters::attach`].
    pub fn attach_to_processes(machine: &Machine) -> Result<Self> {
        Self::load(machine, true)
    }

    fn load(machine: &Machine, is_filtered: bool) -> Result<Self> {
        let conflicts = conflict_units(machine);
        let mut object = loader(LATENCY)?;
        declare(&mut object, conflicts.as_ref(), is_filtered)?;
        let loaded = object.load()?;
        let (cpus, counts) = (loaded.map("cpus")?.mapped()?, loaded.map("machine")?.mapped()?);
        fill(&cpus, machine, conflicts.as_ref());
        tables::fill(&loaded.map("tables")?.mapped()?);
        let units = conflicts.map_or(0, |units| units.cpus().len() as u64);
        counts.set_word(0, machine::CLUSTERS, machine::BIAS + units);
        let on_switch = if is_filtered { "on_switch_filter" } else { "on_switch" };
        let links = [on_switch, "on_migrate"]
            .into_iter()
            .map(|name| loaded.attach(name))
            .collect::<std::result::Result<_, _>>()?;
        for number in machine.online.iter() {
            match loaded.run_on("begin", number) {
                // It has gone offline: its next task is seen when it begins.
                Err(manycore_bpf::Error::Attach { source, .. }) if source.raw_os_error() == Some(OFFLINE) => {
                }
                other => other?,
            }
        }
        Ok(Self {
            cpus,
            counts,
            clock: loaded.map("clock")?.mapped()?,
            watched: loaded.map("watched")?.mapped()?,
            clusters: LevelUnits::new(machine, Level::Cluster),
            reasons: [
                (Arc::from("sleep"), cpu::off_times(reason::SLEEP)),
                (Arc::from("disk"), cpu::off_times(reason::DISK)),
                (Arc::from("displaced"), cpu::wait_times(reason::DISPLACED)),
                (Arc::from("stopped"), cpu::off_times(reason::STOPPED)),
            ],
            conflict: Conflict::default(),
            _links: links,
            loaded,
        })
    }

    /// Begins again for all tasks, with the units of a machine of which other CPUs are online. The sample gets the counters
    /// as they are then, so that the next one has what happened since. Without effect if an error is returned.
    ///
    /// # Errors
    /// Those of [`Counters::attach`] and [`Counters::read`].
    pub fn begin_again(&mut self, machine: &Machine, sample: &mut Sample) -> Result<()> {
        let mut new = Self::attach(machine)?;
        new.read(sample)?;
        *self = new;
        Ok(())
    }

    /// Counts for the tasks of a process from their next switch on, or no longer. Without effect on counters of all tasks.
    pub fn watch(&self, pid: u32, is_watched: bool) {
        self.watched.set_bit(pid as usize, is_watched);
    }

    /// Sets [`Sample::latency`], and the migrations of the sample's tasks: 0 for tasks that have not migrated since
    /// counting began, and for those beyond the 32,768 that have migrated last.
    ///
    /// # Errors
    /// [`Error::Bpf`](super::Error::Bpf) if the kernel does not return the counters.
    pub fn read(&mut self, sample: &mut Sample) -> Result<()> {
        let now = self.now()?;
        let mut latency = LatencySample {
            wakeup: self.histogram(&reason::WAKEUP.map(cpu::wait_times)),
            displaced: self.histogram(&[cpu::wait_times(reason::DISPLACED)]),
            off_cpu: self
                .reasons
                .iter()
                .map(|(reason, first)| (Arc::clone(reason), self.histogram(&[*first])))
                .collect(),
            migrations: std::array::from_fn(|at| self.sum(cpu::MIGRATIONS + at)),
            conflict_ns: 0,
            run_ns: self.clusters.cpus.iter().map(|cpus| self.run_ns(cpus.iter(), now)).collect(),
        };
        let state = (self.counts.word(0, machine::CLUSTERS), self.counts.word(0, machine::CONFLICT));
        latency.conflict_ns = self.conflict.at(now, state);
        sample.latency = Some(latency);
        self.read_migrations(sample)
    }

    /// Returns the sums of all waits.
    pub fn waits(&self) -> Waits {
        let sum = |reason| self.sum(cpu::waits(reason));
        Waits {
            wakeup_ns: reason::WAKEUP.map(sum).into_iter().fold(0, u64::wrapping_add),
            displaced_ns: sum(reason::DISPLACED),
        }
    }

    /// Returns the time of the scheduler's clocks, up to one tick late.
    fn now(&self) -> Result<u64> {
        self.loaded.run("observe")?;
        Ok(self.clock.word(0, 0))
    }

    fn sum(&self, word: usize) -> u64 {
        (0..self.cpus.len()).fold(0, |sum, number| sum.wrapping_add(self.cpus.word(number, word)))
    }

    /// Returns the sum of the histograms that begin at some words.
    fn histogram(&self, first: &[usize]) -> LatencyHistogram {
        LatencyHistogram(std::array::from_fn(|class| first.iter().map(|word| self.sum(word + class)).sum()))
    }

    /// Returns the time that tasks ran on some CPUs. A task that runs has not been counted yet, however long it runs.
    fn run_ns(&self, cpus: impl Iterator<Item = u32>, now: u64) -> u64 {
        let of = |number: u32| {
            let word = |word| self.cpus.word(number as usize, word);
            let running = match word(cpu::SINCE) {
                0 => 0,
                since => now.saturating_sub(since),
            };
            word(cpu::RUN) + running
        };
        cpus.map(of).sum()
    }

    fn read_migrations(&self, sample: &mut Sample) -> Result<()> {
        let tick_ns = 1_000_000_000 / ticks_per_second();
        let mut migrants: HashMap<(u32, u64), [u64; 4]> = HashMap::new();
        self.loaded.map("migrants")?.for_each(|key, value| {
            let [tid, start] = words(key);
            migrants.insert((tid as u32, start / tick_ns), words(value));
        })?;
        for task in sample.tasks.iter_mut() {
            let counts = migrants.get(&(task.id.tid, task.id.start));
            task.migrations = Some(Box::new(counts.copied().unwrap_or_default()));
        }
        Ok(())
    }
}

/// Returns the units of which two tasks in one of them are a conflict while another is idle; `None` if none is possible.
fn conflict_units(machine: &Machine) -> Option<Units> {
    let levels = levels(machine, &machine.online);
    let main = main_level(&levels)?;
    levels.into_iter().find(|units| units.level() == main)
}

/// Sets sizes and constants.
fn declare(object: &mut Loader, conflicts: Option<&Units>, is_filtered: bool) -> Result<()> {
    let cpus = possible_cpus()?.next_power_of_two();
    object.set_entries("cpus", cpus)?;
    let clusters = conflicts.map_or(1, |units| units.cpus().len() as u32);
    object.set_entries("clusters", clusters)?;
    object.set("cluster_count", u64::from(clusters));
    object.set("cpu_mask", u64::from(cpus - 1));
    object.set("is_filtered", u64::from(is_filtered));
    object.set("counts_conflicts", u64::from(conflicts.is_some()));
    Ok(())
}

/// Writes the units of each CPU.
fn fill(cpus: &MappedArray, machine: &Machine, conflicts: Option<&Units>) {
    let levels = [(Level::Cluster, cpu::CLUSTER), (Level::Llc, cpu::LLC), (Level::Node, cpu::NODE)];
    for (level, word) in levels {
        let units = LevelUnits::new(machine, level);
        for number in machine.online.iter() {
            let unit = units.of(number).map_or(0, |unit| unit as u64 + 1);
            cpus.set_word(number as usize, word, unit);
        }
    }
    for number in (0..cpus.len() as u32).filter(|_| conflicts.is_some()) {
        // CPUs that come online later belong to no unit: there is no such cluster.
        let unit = conflicts.and_then(|units| units.of(number));
        cpus.set_word(number as usize, cpu::SHARED, unit.map_or(u64::from(u32::MAX), |unit| unit as u64));
    }
}

/// Returns words of 64 bits; 0 beyond the end.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let word = |at: usize| bytes.get(at * 8..at * 8 + 8).and_then(|word| word.try_into().ok());
    std::array::from_fn(|at| word(at).map_or(0, u64::from_ne_bytes))
}

/// The time of conflicts until the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conflict {
    at: u64,
    ns: u64,
}

impl Conflict {
    /// Returns the time of conflicts at a moment from the words of `struct machine`. The two words change one after the
    /// other; a reading between is one of an impossible time, and replaced by the nearest possible one.
    fn at(&mut self, now: u64, (clusters, conflict): (u64, u64)) -> u64 {
        let shared = (clusters >> 32) as u32 as i32;
        let is_now = shared > 0 && i64::from(clusters as u32 as i32) > machine::BIAS as i64;
        let ns = if is_now { conflict.wrapping_add(now) } else { conflict };
        let most = self.ns + now.saturating_sub(self.at);
        // A time below 0 is one above any possible time here.
        let ns = if ns > u64::MAX / 2 { self.ns } else { ns.clamp(self.ns, most) };
        *self = Self { at: now, ns };
        ns
    }
}

const _: () = assert!(LATENCY_CLASSES == 32, "the histograms of latency.bpf.c have 32 classes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_that_lasts_counts_until_now() {
        let [calm, conflict] = [machine::BIAS + 2, 1 << 32 | (machine::BIAS + 1)];
        let mut known = Conflict::default();
        assert_eq!(known.at(1000, (calm, 0)), 0);
        // Began at 1200.
        assert_eq!(known.at(1500, (conflict, 1200_u64.wrapping_neg())), 300);
        assert_eq!(known.at(1600, (conflict, 1200_u64.wrapping_neg())), 400);
        assert_eq!(known.at(2000, (calm, 500)), 500);
        // One cluster is shared, but none is idle.
        assert_eq!(known.at(2100, (1 << 32 | machine::BIAS, 500)), 500);
    }

    #[test]
    fn readings_between_two_changes_are_possible_times() {
        let conflict = 1 << 32 | (machine::BIAS + 1);
        let mut known = Conflict { at: 1000, ns: 10 };
        // A conflict has begun, whose begin is not subtracted yet.
        assert_eq!(known.at(1100, (conflict, 10)), 110);
        // It has ended, and its end is not added yet.
        assert_eq!(known.at(1200, (machine::BIAS + 2, 1050_u64.wrapping_neg())), 110);
    }
}
