//! The courses of a recording: sums and maxima of each moment, of which there are few.

use super::{
    groups::{Group, Unit, rows, units},
    uses::Uses,
};
use crate::{
    history::{Error, Replay},
    picture::{Picture, UnitUse, WaitSums},
    sample::Sample,
};
use manycore_topology::{CpuId, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// Most moments of a course.
const MOST_MOMENTS: usize = 240;
/// Most pictures that are made. With more samples, several are one interval.
const MOST_PICTURES: usize = 20_000;

/// The course of one figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Sum of the values, each times its seconds; seconds; and the largest value, of each moment.
    moments: Vec<(f64, f64, f64)>,
}

impl Course {
    /// Adds the value of an interval.
    pub fn add(&mut self, moment: usize, value: f64, seconds: f64) {
        if self.moments.len() <= moment {
            self.moments.resize(moment + 1, (0.0, 0.0, f64::NAN));
        }
        let (sum, length, largest) = &mut self.moments[moment];
        (*sum, *length, *largest) = (*sum + value * seconds, *length + seconds, largest.max(value));
    }

    /// Returns mean and maximum of each moment; not numbers where nothing is known.
    pub fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        self.moments.iter().map(|(sum, length, largest)| (sum / length, *largest))
    }

    /// Returns the seconds of each moment.
    pub fn lengths(&self) -> impl Iterator<Item = f64> {
        self.moments.iter().map(|one| one.1)
    }

    /// Returns the mean over all moments, and the maximum; `None` without values.
    pub fn summary(&self) -> Option<(f64, f64)> {
        let (sum, length) = self.moments.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        let largest = self.moments.iter().map(|one| one.2).fold(f64::NAN, f64::max);
        (length > 0.0).then_some((sum / length, largest))
    }
}

/// Figures of the whole machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// CPUs that were busy, stolen, in handlers of interrupts and softirqs, and waiting for disks.
    pub busy: Course,
    pub stolen: Course,
    pub interrupts: Course,
    pub disk: Course,
    /// Tasks that waited for a CPU, and context switches per second.
    pub wait: Course,
    pub switches: Course,
}

/// Figures of one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitCourses {
    /// Shares of the CPUs of the unit: busy, stolen, and in handlers of interrupts and softirqs.
    pub busy: Course,
    pub stolen: Course,
    pub interrupts: Course,
    /// Tasks that waited for a CPU.
    pub wait: Course,
}

impl UnitCourses {
    fn add(&mut self, one: &UnitUse, moment: usize, seconds: f64) {
        self.wait.add(moment, one.task_wait, seconds);
        if one.known > 0 {
            let (shares, known) = (&one.shares, one.known as f64);
            self.busy.add(moment, shares.busy() / known, seconds);
            self.stolen.add(moment, shares.steal / known, seconds);
            self.interrupts.add(moment, (shares.irq + shares.softirq) / known, seconds);
        }
    }
}

/// What a process used that ended before the end of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedProcess {
    /// Its id.
    pub pid: u32,
    /// Its name, printable.
    pub name: String,
    /// CPU time in seconds, up to the last sample that has the process.
    pub run_seconds: f64,
    /// Time in seconds in which its threads waited for a CPU.
    pub wait_seconds: f64,
}

/// The courses of a recording.
#[derive(Debug)]
pub struct Courses {
    /// Why the recording was not read to its end.
    pub(super) stopped: Option<String>,
    /// First and last time by the monotonic clock in nanoseconds.
    ends: (u64, u64),
    /// The same in milliseconds since 1970.
    unix_ms: (u64, u64),
    stride: usize,
    /// Moments of each course.
    moments: usize,
    pub(super) totals: Totals,
    waits: WaitSums,
    /// The rows of the map, and the share of each that was busy.
    pub(super) rows: Vec<(Group, Course)>,
    /// The index of the row of each CPU.
    row_of: BTreeMap<CpuId, usize>,
    /// Units of one level.
    pub(super) units: Vec<(Unit, UnitCourses)>,
    /// Processes: CPUs used, and tasks that waited for one.
    pub(super) processes: Uses<(u32, u64), 2>,
    /// Nodes: memory in GiB of programs and the kernel, and of files.
    pub(super) nodes: Uses<u32, 2>,
    /// Control groups: shares of the time in which some task waited for CPUs, memory and disks.
    pub(super) pressure: Uses<String, 3>,
    /// Interrupts and softirqs by name: how often they were handled, per second.
    pub(super) interrupts: Uses<String, 1>,
    /// Virtual machines by process: CPUs used, and virtual CPUs that waited for one.
    pub(super) guests: Uses<u32, 2>,
    /// Groups of resctrl by domain: bytes per second to and from memory, and those of the own node.
    pub(super) bandwidth: Uses<(String, u32), 2>,
}

impl Courses {
    /// Reads the samples of a recording. One that cannot be decoded to its end is read up to there, and the page says so.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn of(replay: &mut Replay) -> Result<Self, Error> {
        let mut courses = Self::new(&replay.head().machine);
        match courses.read(replay) {
            Err(error @ Error::Chunk { .. }) => courses.stopped = Some(error.to_string()),
            other => other?,
        }
        Ok(courses)
    }

    fn new(machine: &Machine) -> Self {
        let rows: Vec<(Group, Course)> =
            rows(machine).into_iter().map(|group| (group, Course::default())).collect();
        let row_of = rows.iter().enumerate();
        Self {
            stopped: None,
            ends: (0, 0),
            unix_ms: (0, 0),
            stride: 1,
            moments: 1,
            totals: Totals::default(),
            waits: WaitSums::default(),
            row_of: row_of.flat_map(|(at, (group, _))| group.cpus.iter().map(move |cpu| (cpu, at))).collect(),
            rows,
            units: units(machine).into_iter().map(|unit| (unit, UnitCourses::default())).collect(),
            processes: Uses::default(),
            nodes: Uses::default(),
            pressure: Uses::default(),
            interrupts: Uses::default(),
            guests: Uses::default(),
            bandwidth: Uses::default(),
        }
    }

    /// Returns the length of the recording in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.ends.1.saturating_sub(self.ends.0) as f64 / 1e9
    }

    /// Returns when the first and the last sample were taken, in milliseconds since 1970.
    pub(super) fn unix_ms(&self) -> (u64, u64) {
        self.unix_ms
    }

    /// Returns the waits for a CPU in all of it.
    pub fn waits(&self) -> &WaitSums {
        &self.waits
    }

    /// Returns the number of moments of each course. The last ones of a course may be missing.
    pub(super) fn moments(&self) -> usize {
        self.moments
    }

    /// Returns how many samples are one interval.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the names of the virtual machines that a picture of the end of the recording does not have.
    pub fn ended_guests(&self, last: &Picture) -> Vec<&str> {
        let living: BTreeSet<u32> = last.guests.iter().map(|one| one.pid).collect();
        let ended = self.guests.all().filter(|(pid, _)| !living.contains(pid));
        ended.map(|(_, one)| one.name.as_str()).collect()
    }

    /// Returns the processes that a picture of the end of the recording does not have, the one with most CPU time first: up
    /// to 1024 are known.
    pub fn ended(&self, last: &Picture) -> Vec<EndedProcess> {
        let living: BTreeSet<(u32, u64)> = last.processes.iter().map(|one| (one.pid, one.start)).collect();
        let ended = self.processes.all().filter(|(key, _)| !living.contains(key));
        let mut ended: Vec<EndedProcess> = ended
            .map(|((pid, _), one)| EndedProcess {
                pid: *pid,
                name: one.name.clone(),
                run_seconds: one.sums[0],
                wait_seconds: one.sums[1],
            })
            .collect();
        ended.sort_by(|a, b| b.run_seconds.total_cmp(&a.run_seconds));
        ended
    }

    fn read(&mut self, replay: &mut Replay) -> Result<(), Error> {
        let machine = replay.head().machine.clone();
        let last = replay.len().saturating_sub(1);
        self.unix_ms = replay.unix_ms().unwrap_or_default();
        self.stride = replay.len().div_ceil(MOST_PICTURES).max(1);
        // With a sample in each moment or more, none is empty.
        self.moments = (last / self.stride).clamp(1, MOST_MOMENTS);
        let at_ns = |replay: &mut Replay, number| Ok(replay.at(number)?.map_or(0, |sample| sample.at_ns));
        self.ends = (at_ns(replay, 0)?, at_ns(replay, last)?);
        let [mut before, mut now] = [Sample::default(), Sample::default()];
        for number in (0..=last).step_by(self.stride) {
            let Some(sample) = replay.at(number)? else { break };
            now.clone_from(sample);
            if let Some(picture) = Picture::new(&machine, &before, &now).filter(|_| number > 0) {
                self.add(&picture, now.at_ns);
            }
            std::mem::swap(&mut before, &mut now);
        }
        Ok(())
    }

    fn add(&mut self, picture: &Picture, at_ns: u64) {
        let span = self.ends.1.saturating_sub(self.ends.0).max(1);
        let moments = self.moments as f64;
        // The middle of the interval, as its end may be just behind that of a moment.
        let [from, middle, to] = [1.0, 0.5, 0.0].map(|part| {
            (at_ns.saturating_sub(self.ends.0) as f64 - part * picture.seconds * 1e9) / span as f64 * moments
        });
        let moment = (middle as usize).min(self.moments - 1);
        // Intervals differ in length: a moment in which none has its middle has the one that covers its own middle.
        let is_covered = |at: &usize| *at == moment || (from..to).contains(&(*at as f64 + 0.5));
        let covered: Vec<usize> = (0..self.moments).filter(is_covered).collect();
        self.add_cpus(picture, moment, &covered);
        self.waits.add(picture);
        let seconds = picture.seconds;
        for (unit, courses) in &mut self.units {
            if let Some(one) = picture.units_of(unit.level).find(|one| one.cpus == unit.cpus) {
                courses.add(one, moment, seconds);
            }
        }
        self.add_processes(picture, moment);
        self.add_resources(picture, moment);
    }

    fn add_processes(&mut self, picture: &Picture, moment: usize) {
        let mut waits: BTreeMap<u32, (f64, f64, String)> = BTreeMap::new();
        for task in &picture.tasks {
            let (run, wait, name) = waits.entry(task.id.pid).or_default();
            (*run, *wait) = (*run + task.run, *wait + task.wait.unwrap_or(0.0));
            if name.is_empty() || task.id.tid == task.id.pid {
                *name = task.name.printable();
            }
        }
        for process in &picture.processes {
            let Some((run, wait, name)) = waits.get(&process.pid) else { continue };
            let values = [process.run.unwrap_or(*run), *wait];
            self.processes.add((process.pid, process.start), name, moment, values, picture.seconds);
        }
    }

    fn add_resources(&mut self, picture: &Picture, moment: usize) {
        let seconds = picture.seconds;
        for node in &picture.nodes {
            let gib = |kib: u64| kib as f64 / f64::from(1 << 20);
            let used = node.now.total_kib.saturating_sub(node.now.free_kib);
            let values = [gib(used.saturating_sub(node.now.file_kib)), gib(node.now.file_kib)];
            let name = format!("node {} of {:.0} GiB", node.now.node, gib(node.now.total_kib));
            self.nodes.add(node.now.node, &name, moment, values, seconds);
        }
        for group in &picture.groups {
            let Some(pressure) = group.pressure else { continue };
            self.pressure.add(group.now.path.to_string(), &group.now.path, moment, pressure, seconds);
        }
        for one in &picture.interrupts {
            let name = [&*one.name, &*one.handlers].join(" ");
            self.interrupts.add(one.name.to_string(), name.trim(), moment, [one.per_second], seconds);
        }
        for one in picture.guest_uses() {
            let values = [one.run(), one.wait().unwrap_or(0.0)];
            self.guests.add(one.guest.pid, &one.guest.name, moment, values, seconds);
        }
        for one in &picture.bandwidth {
            let name = format!("{} in domain {}", one.group, one.domain);
            let values = [one.total, one.local].map(|rate| rate.unwrap_or(0.0));
            self.bandwidth.add((one.group.to_string(), one.domain), &name, moment, values, seconds);
        }
    }

    /// `covered`: the moments of the heat map.
    fn add_cpus(&mut self, picture: &Picture, moment: usize, covered: &[usize]) {
        let seconds = picture.seconds;
        let mut sums = vec![(0.0, 0.0); self.rows.len()];
        let mut all = [0.0; 4];
        for one in &picture.cpus {
            let Some(shares) = one.shares else { continue };
            let values = [shares.busy(), shares.steal, shares.irq + shares.softirq, shares.iowait];
            all.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            if let Some(&row) = self.row_of.get(&one.cpu) {
                sums[row] = (sums[row].0 + shares.busy(), sums[row].1 + 1.0);
            }
        }
        for ((_, course), (sum, known)) in self.rows.iter_mut().zip(sums).filter(|(_, sum)| sum.1 > 0.0) {
            for &moment in covered {
                course.add(moment, sum / known, seconds);
            }
        }
        let totals = &mut self.totals;
        let courses = [&mut totals.busy, &mut totals.stolen, &mut totals.interrupts, &mut totals.disk];
        courses.into_iter().zip(all).for_each(|(course, value)| course.add(moment, value, seconds));
        totals.wait.add(moment, picture.wait().unwrap_or(0.0), seconds);
        if let Some(switches) = picture.switches {
            totals.switches.add(moment, switches, seconds);
        }
    }
}
