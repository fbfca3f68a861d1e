//! Reads the memory by node of busy processes in turn: seldom, because the kernel visits each page table of a process.

use crate::{details::ProcessDetails, history::History, picture::Picture, sample::Sample};
use manycore_topology::Machine;
use std::collections::BTreeMap;

/// A process is read once in this many nanoseconds.
const AGAIN_NS: u64 = 30_000_000_000;
/// Most samples that are looked at for what was known at a moment.
const MOST_SAMPLES: usize = 120;
/// A process that uses less than this, in CPUs, is not read.
const BUSY: f64 = 0.25;
/// Resident memory in KiB above which reading the memory by node takes seconds.
pub const LARGE_PROCESS_KIB: u64 = 16 << 20;
/// Resident memory in KiB of processes that are read in turn: less is no problem.
const RESIDENT_KIB: std::ops::RangeInclusive<u64> = (64 << 10)..=LARGE_PROCESS_KIB;

/// Returns whether memory can be near or far.
pub(crate) fn has_memory_nodes(machine: &Machine) -> bool {
    machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count() > 1
}

/// What was read of a process, and when.
#[derive(Debug)]
struct Visit {
    start: u64,
    at_ns: u64,
    details: Option<ProcessDetails>,
}

/// The processes whose memory by node is known.
#[derive(Debug)]
pub struct MemoryTour {
    has_nodes: bool,
    visits: BTreeMap<u32, Visit>,
    next: Option<u32>,
    now_ns: u64,
}

impl MemoryTour {
    /// Begins without processes. On a machine with memory on one node, none is ever read.
    pub fn new(machine: &Machine) -> Self {
        Self { has_nodes: has_memory_nodes(machine), visits: BTreeMap::new(), next: None, now_ns: 0 }
    }

    /// Returns the process whose memory by node the next sample should have.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Takes what a picture has of the process that was asked for, and adds what is known of others.
    pub fn follow(&mut self, picture: &mut Picture) {
        if !self.has_nodes {
            return;
        }
        let starts = self.begin(picture);
        let read = picture.details.iter().find(|(pid, _)| Some(*pid) == self.next);
        if let Some(visit) = self.next.and_then(|pid| self.visits.get_mut(&pid)) {
            visit.details = read.map(|(_, details)| details.clone());
        }
        self.remember_read(picture, &starts);
        self.add_known(picture);
        self.next = self.choose(picture);
        if let Some((pid, start)) = self.next.and_then(|pid| Some((pid, *starts.get(&pid)?))) {
            let details = self.visits.remove(&pid).and_then(|visit| visit.details);
            self.visits.insert(pid, Visit { start, at_ns: self.now_ns, details });
        }
    }

    /// Takes the memory by node of all processes of which a picture has it, and adds what is known of others. For pictures
    /// of a recording, in which each process was read once in many samples; in place of [`follow`](Self::follow).
    pub fn remember(&mut self, picture: &mut Picture) {
        if !self.has_nodes {
            return;
        }
        let starts = self.begin(picture);
        self.remember_read(picture, &starts);
        self.add_known(picture);
    }

    /// Takes the memory by node that a picture has, for whatever reason it was read.
    fn remember_read(&mut self, picture: &Picture, starts: &BTreeMap<u32, u64>) {
        for (pid, details) in picture.details.iter().filter(|(_, details)| details.node_kib.is_some()) {
            if let Some(&start) = starts.get(pid) {
                let visit = Visit { start, at_ns: self.now_ns, details: Some(details.clone()) };
                self.visits.insert(*pid, visit);
            }
        }
    }

    /// Returns what was known at an earlier moment: the memory by node that the samples before it have, up to half a minute
    /// back, after which a process is read again.
    pub fn of_moment(machine: &Machine, history: &mut History, number: usize) -> Self {
        let mut tour = Self::new(machine);
        let Some(moment) = history.unix_ms(number).filter(|_| tour.has_nodes) else { return tour };
        let is_recent = |one: &usize| {
            let ms = history.unix_ms(*one);
            ms.is_some_and(|ms| moment.saturating_sub(ms) <= AGAIN_NS / 1_000_000)
        };
        let first = (0..number).rev().take(MOST_SAMPLES).take_while(is_recent).last();
        for one in first.map_or(0..0, |first| first..number) {
            if let Some(sample) = history.at(one) {
                tour.recall(sample);
            }
        }
        tour
    }

    /// Takes the memory by node that a sample has of which there is no picture.
    pub fn recall(&mut self, sample: &Sample) {
        for (pid, details) in sample.details.iter().filter(|(_, details)| details.node_kib.is_some()) {
            if let Ok(at) = sample.processes.binary_search_by_key(pid, |process| process.pid) {
                let start = sample.processes[at].start;
                self.visits.insert(*pid, Visit { start, at_ns: self.now_ns, details: Some(details.clone()) });
            }
        }
    }

    /// Begins a picture: forgets processes that have ended. Returns the start times of processes.
    fn begin(&mut self, picture: &Picture) -> BTreeMap<u32, u64> {
        self.now_ns = self.now_ns.saturating_add((picture.seconds * 1e9) as u64);
        let starts: BTreeMap<u32, u64> = picture.processes.iter().map(|one| (one.pid, one.start)).collect();
        self.visits.retain(|pid, visit| starts.get(pid) == Some(&visit.start));
        starts
    }

    /// Adds what is known of processes whose memory by node a picture does not have.
    fn add_known(&self, picture: &mut Picture) {
        for (pid, details) in
            self.visits.iter().filter_map(|(pid, visit)| Some((pid, visit.details.as_ref()?)))
        {
            match picture.details.binary_search_by_key(pid, |(pid, _)| *pid) {
                // All else is of the moment at which it was read.
                Err(at) => {
                    let node_kib = details.node_kib.clone();
                    picture
                        .details
                        .insert(at, (*pid, ProcessDetails { node_kib, ..ProcessDetails::default() }));
                }
                // Read for other reasons, without the memory.
                Ok(at) => {
                    let node_kib = &mut picture.details[at].1.node_kib;
                    *node_kib = node_kib.take().or_else(|| details.node_kib.clone());
                }
            }
        }
    }

    /// Returns the process that has waited longest for its turn.
    fn choose(&self, picture: &Picture) -> Option<u32> {
        let busy = picture.processes.iter().filter(|one| one.run.is_some_and(|run| run >= BUSY));
        let resident = |pid: u32| {
            let first = picture.tasks.partition_point(|task| task.id.pid < pid);
            picture.tasks.get(first).filter(|task| task.id.pid == pid).map_or(0, |task| task.resident_kib)
        };
        let due = busy.map(|one| one.pid).filter(|&pid| RESIDENT_KIB.contains(&resident(pid)));
        let last = |pid: &u32| self.visits.get(pid).map_or(0, |visit| visit.at_ns);
        let is_due = |pid: &u32| !self.visits.contains_key(pid) || self.now_ns - last(pid) >= AGAIN_NS;
        due.filter(is_due).min_by_key(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::HistoryLimits,
        picture::ProcessUse,
        sample::{CpuTimes, ProcessSample},
    };
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};

    fn machine(packages: u32) -> Machine {
        let spec = MachineSpec { packages, ..MachineSpec::default() };
        read(&SysTree::from_capture(spec.capture())).unwrap()
    }

    fn picture(processes: &[(u32, f64, u64)], details: Vec<(u32, ProcessDetails)>) -> Picture {
        let mut picture = Picture { seconds: 1.0, details, ..Picture::default() };
        for &(pid, run, resident_kib) in processes {
            picture.processes.push(ProcessUse {
                pid,
                start: 1,
                run: Some(run),
                threads: 1,
                wait: None,
                counted: None,
            });
            let task = crate::findings::tests::task(pid, 0, run, 0.0, "0");
            picture.tasks.push(crate::TaskUse {
                id: crate::TaskId { pid, tid: pid, start: 1 },
                resident_kib,
                ..task
            });
        }
        picture
    }

    #[test]
    fn busy_processes_are_read_in_turn_and_remembered() {
        let busy =
            [(1, 1.0, 1 << 20), (2, 0.5, 1 << 20), (3, 0.0, 1 << 20), (4, 1.0, 10), (5, 1.0, 99 << 20)];
        let mut tour = MemoryTour::new(&machine(2));
        assert_eq!(tour.next(), None);
        let mut asked = Vec::new();
        for _ in 0..40 {
            let read = tour.next().map(|pid| (pid, ProcessDetails::default()));
            let mut picture = picture(&busy, read.into_iter().collect());
            tour.follow(&mut picture);
            asked.push((tour.next(), picture.details.len()));
        }
        assert_eq!(asked[..4], [(Some(1), 0), (Some(2), 1), (None, 2), (None, 2)]);
        assert_eq!(asked.iter().filter(|(pid, _)| *pid == Some(1)).count(), 2, "again after 30 s: {asked:?}");
        let mut gone = picture(&[], Vec::new());
        tour.follow(&mut gone);
        assert_eq!((gone.details.len(), tour.next()), (0, None));
    }

    #[test]
    fn memory_that_a_recording_has_once_is_known_until_the_process_ends() {
        let processes = [(1, 1.0, 1 << 20), (2, 1.0, 1 << 20)];
        let read =
            |kib: u64| ProcessDetails { node_kib: Some([(1, kib)].into()), ..ProcessDetails::default() };
        let mut tour = MemoryTour::new(&machine(2));
        let mut known = |mut picture: Picture| {
            tour.remember(&mut picture);
            let of = |(pid, details): (u32, ProcessDetails)| (pid, details.node_kib.map(|kib| kib[&1]));
            picture.details.into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(known(picture(&processes, vec![(1, read(5))])), [(1, Some(5))]);
        assert_eq!(known(picture(&processes, vec![(2, read(6))])), [(1, Some(5)), (2, Some(6))]);
        // Details that were read without memory.
        let plain = vec![(1, ProcessDetails::default())];
        assert_eq!(known(picture(&processes, plain)), [(1, Some(5)), (2, Some(6))]);
        assert_eq!(known(picture(&processes, vec![(2, read(7))])), [(1, Some(5)), (2, Some(7))]);
        let mut other = picture(&processes, Vec::new());
        other.processes[0].start = 9;
        assert_eq!(known(other), [(2, Some(7))]);
    }

    #[test]
    fn memory_of_a_sample_that_was_passed_over_is_known() {
        let mut tour = MemoryTour::new(&machine(2));
        let details = ProcessDetails { node_kib: Some([(1, 5)].into()), ..ProcessDetails::default() };
        let process = ProcessSample { pid: 1, start: 0, cpu_ns: None, threads: 1 };
        tour.recall(&Sample { processes: vec![process], details: vec![(1, details)], ..Sample::default() });
        let mut later = picture(&[(1, 1.0, 1 << 20)], Vec::new());
        later.processes[0].start = 0;
        tour.remember(&mut later);
        assert_eq!(later.details[0].1.node_kib.as_ref().unwrap()[&1], 5);
    }

    #[test]
    fn what_was_known_at_a_moment_is_found_in_the_history() {
        let read =
            |kib: u64| ProcessDetails { node_kib: Some([(1, kib)].into()), ..ProcessDetails::default() };
        let mut history = History::new(HistoryLimits::default());
        for second in 0..100 {
            history.push(&Sample {
                at_ns: second * 1_000_000_000,
                unix_ms: second * 1000,
                cpus: vec![CpuTimes::default()],
                processes: [1, 2].map(|pid| ProcessSample { pid, start: 1, cpu_ns: None, threads: 1 }).into(),
                details: if second % 50 == 10 { vec![(1, read(second))] } else { Vec::new() },
                ..Sample::default()
            });
        }
        let mut known = |number: usize| {
            let mut picture = picture(&[(1, 1.0, 1 << 20), (2, 1.0, 1 << 20)], Vec::new());
            MemoryTour::of_moment(&machine(2), &mut history, number).remember(&mut picture);
            picture.details.into_iter().map(|(pid, one)| (pid, one.node_kib.unwrap()[&1])).collect::<Vec<_>>()
        };
        // Neither what was read later, nor what is older than half a minute.
        assert_eq!(known(9), []);
        assert_eq!(known(11), [(1, 10)]);
        assert_eq!(known(40), [(1, 10)]);
        assert_eq!(known(41), []);
        assert_eq!(known(70), [(1, 60)]);
        assert_eq!(known(500), []);
    }

    #[test]
    fn nothing_is_read_on_one_node() {
        let mut tour = MemoryTour::new(&machine(1));
        tour.follow(&mut picture(&[(1, 1.0, 1 << 20)], Vec::new()));
        assert_eq!(tour.next(), None);
    }
}
