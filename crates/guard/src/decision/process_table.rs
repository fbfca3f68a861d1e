//! The table of all processes, with the memory that would be freed if each ended, now and at some earlier
//! moments.
//!
//! All memory is allocated when the table is created. The moments ([`ProcessTable::mark`]) are thinned out as they
//! age: sixteen of them cover spans from fractions of a second to hours.

mod marks;
mod process_reading;

pub use process_reading::{ExtraMemory, ProcessReading, Protection};

use marks::marked;
use std::cmp::Reverse;

/// Number of moments that are kept.
const MARKS: usize = 16;

/// If a parent is at least this large, in KiB, a new child of the same name is taken for a forked copy of it.
const BIG_FORK_KIB: u32 = 32 << 10;

/// Largest number of watches of one guard: the machine, control groups and sets of processes.
pub const WATCHES: usize = 8;

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessEntry {
    /// The latest reading.
    pub reading: ProcessReading,
    /// Resident set size in KiB. A change of it shows that the process has to be read again.
    pub resident_kib: u32,
    /// Its parent when it was first seen. The current parent may be another process.
    pub first_parent: u32,
    /// Real user id.
    pub user: u32,
    /// Whether it is in a process namespace below that of the reader, as in a container.
    pub is_contained: bool,
    /// Bit `n` is set if the process meets the unit or file that the `n`-th name rule demands.
    pub met_rules: u64,
    /// KiB that would not be freed because other processes share them (`Rss` less `Pss`), as of some time
    /// ago.
    pub shared_kib: u32,
    /// Memory that it was found to hold in addition.
    pub held: ExtraMemory,
    /// Why it is never selected.
    pub protection: Option<Protection>,
    /// Why no process of its control group is selected.
    pub group_protection: Option<Protection>,
    /// Bit `n` is set if the `n`-th watch includes it.
    pub watches: u32,
    /// Number that the reader gave its control group; 0 if not yet known.
    pub group: u16,
    /// Whether group, shield and watches are its own, not copied from its parent.
    pub is_known: bool,
    /// KiB of its own pages at each mark; 0 if the process did not exist. See [`marked`].
    marked_kib: [u32; MARKS],
    /// Time when it was first seen, in nanoseconds of `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// Number of the last survey that found it.
    round: u32,
}

/// A moment at which the memory of all processes was recorded.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at_ns: u64,
    /// Available memory of each watch.
    available: [u64; WATCHES],
    /// Memory of `tmpfs` and shared memory of each watch.
    shmem: [u64; WATCHES],
    slot: usize,
}

/// The processes, sorted by id.
#[derive(Debug)]
pub struct ProcessTable {
    processes: Vec<ProcessEntry>,
    marks: [Mark; MARKS],
    marked: usize,
    round: u32,
    /// No process in a full table is smaller than this.
    least_kib: u64,
    /// Number of processes that did not fit into the table in the last survey.
    pub dropped: usize,
}

/// A span of time over which growth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthWindow {
    slot: usize,
    /// Start of the window, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Bytes that available memory has fallen by since.
    pub decrease: u64,
    /// Bytes that `tmpfs` and shared memory have grown by since.
    pub shmem: u64,
}

impl ProcessTable {
    /// Creates a table for `capacity` processes. Writes every page of it, so that the memory is really
    /// allocated.
    pub fn new(capacity: usize) -> Self {
        let one = ProcessEntry { round: 1, ..ProcessEntry::default() };
        let mut processes = vec![one; capacity];
        processes.clear();
        Self { processes, marks: [Mark::default(); MARKS], marked: 0, round: 0, least_kib: 0, dropped: 0 }
    }

    /// Returns all processes, sorted by id.
    pub fn processes(&self) -> &[ProcessEntry] {
        &self.processes
    }

    /// Returns the process with this id.
    pub fn find(&self, pid: u32) -> Option<&ProcessEntry> {
        self.position(pid).ok().map(|at| &self.processes[at])
    }

    /// Returns the process with this id for modification.
    pub fn find_mut(&mut self, pid: u32) -> Option<&mut ProcessEntry> {
        let at = self.position(pid).ok()?;
        Some(&mut self.processes[at])
    }

    fn position(&self, pid: u32) -> Result<usize, usize> {
        self.processes.binary_search_by_key(&pid, |process| process.reading.pid)
    }

    /// Begins a survey. Processes that are not seen in it are removed by [`Self::end_survey`].
    pub fn begin_survey(&mut self) {
        self.round += 1;
        (self.dropped, self.least_kib) = (0, 0);
    }

    /// Records the reading of a process and returns whether the process is new.
    ///
    /// A new process, or one that reuses an id, takes the control group, shield and watches of its parent (or
    /// of another process of its session) until its own are known. Its memory counts as growth since every
    /// mark made after its start.
    pub fn update(&mut self, reading: ProcessReading, resident_kib: u32, now_ns: u64, age_ns: u64) -> bool {
        let round = self.round;
        match self.position(reading.pid) {
            Ok(at) if self.processes[at].reading.start == reading.start => {
                let process = &mut self.processes[at];
                // A process that has executed a new program may have been moved to another control group
                // before.
                process.is_known &= process.reading.name == reading.name;
                (process.reading, process.resident_kib, process.round) = (reading, resident_kib, round);
                false
            }
            Ok(at) => {
                self.processes[at] = self.new_entry(reading, resident_kib, now_ns, age_ns);
                true
            }
            Err(_) if self.processes.len() == self.processes.capacity() && !self.evict_smallest(&reading) => {
                self.dropped += 1;
                false
            }
            Err(_) => {
                let at = self.position(reading.pid).unwrap_or_else(|at| at);
                let process = self.new_entry(reading, resident_kib, now_ns, age_ns);
                self.processes.insert(at, process);
                true
            }
        }
    }

    /// Makes space in a full table for a process at least twice as large as the smallest one, which is
    /// removed (the youngest of several). This way many small processes cannot hide a large one. Returns
    /// whether there is space.
    fn evict_smallest(&mut self, reading: &ProcessReading) -> bool {
        let size = |reading: &ProcessReading| u64::from(reading.kib) + u64::from(reading.shmem_kib);
        if size(reading) < 2 * self.least_kib.max(1) {
            return false;
        }
        let all = self.processes.iter().enumerate();
        let weight = |process: &ProcessEntry| size(&process.reading) + u64::from(process.held.growth_kib);
        let least = all.min_by_key(|(_, process)| (weight(process), Reverse(process.reading.start)));
        let Some((at, kib)) = least.map(|(at, process)| (at, weight(process))) else { return false };
        // This only rises during a survey, so most later candidates are rejected without a search.
        self.least_kib = kib;
        let is_worth_it = size(reading) >= 2 * kib.max(1);
        if is_worth_it {
            self.processes.remove(at);
            self.dropped += 1;
        }
        is_worth_it
    }

    /// Copies all contents of another table, up to the capacity of this one.
    pub fn copy_from(&mut self, other: &Self) {
        let available = self.processes.capacity();
        self.processes.clear();
        self.processes.extend_from_slice(&other.processes[..other.processes.len().min(available)]);
        (self.marks, self.marked, self.round) = (other.marks, other.marked, other.round);
    }

    /// Returns the number of processes that fit.
    pub fn capacity(&self) -> usize {
        self.processes.capacity()
    }

    /// Returns the smallest id above `pid` of a process for which `wanted` is true.
    pub fn next_after(&self, pid: u32, wanted: impl Fn(&ProcessEntry) -> bool) -> Option<u32> {
        let at = self.position(pid.checked_add(1)?).unwrap_or_else(|at| at);
        self.processes[at..].iter().find(|process| wanted(process)).map(|process| process.reading.pid)
    }

    /// Records that a process still exists and that its memory has not changed.
    pub fn mark_unchanged(&mut self, pid: u32) {
        let round = self.round;
        if let Some(process) = self.find_mut(pid) {
            process.round = round;
        }
    }

    fn new_entry(
        &self,
        reading: ProcessReading,
        resident_kib: u32,
        now_ns: u64,
        age_ns: u64,
    ) -> ProcessEntry {
        // If its parent has exited, the process is a child of a process in another session. Other members of
        // its own session show its origin better.
        let parent = self.find(reading.parent);
        let family = |other: &&ProcessEntry| other.reading.session == reading.session && reading.session != 0;
        let heir = parent.filter(family).or_else(|| self.processes.iter().find(family)).or(parent);
        let heir = heir.copied().unwrap_or_default();
        // A fork of a large process shares the memory of its parent. This memory was not allocated again.
        let is_fork = heir.reading.pid == reading.parent
            && heir.reading.name == reading.name
            && heir.reading.kib >= BIG_FORK_KIB;
        let given = if is_fork { reading.kib.min(heir.reading.kib) } else { 0 };
        let mut marked_kib = [given; MARKS];
        for mark in &self.marks[..self.marked] {
            if now_ns.saturating_sub(age_ns) < mark.at_ns {
                marked_kib[mark.slot] = marked(&reading);
            }
        }
        ProcessEntry {
            reading,
            resident_kib,
            first_parent: reading.parent,
            user: heir.user,
            is_contained: heir.is_contained,
            met_rules: 0,
            shared_kib: 0,
            held: ExtraMemory::default(),
            group: heir.group,
            // Name rules are evaluated again. What follows from the control group is inherited.
            protection: None,
            group_protection: heir.group_protection,
            watches: heir.watches,
            is_known: false,
            marked_kib,
            first_ns: now_ns,
            round: self.round,
        }
    }

    /// Ends a survey: removes processes that were not seen in it.
    pub fn end_survey(&mut self) {
        let round = self.round;
        self.processes.retain(|process| process.round == round);
    }

    /// Removes a process that has exited.
    pub fn remove(&mut self, pid: u32) {
        if let Ok(at) = self.position(pid) {
            self.processes.remove(at);
        }
    }

    /// Discards everything that follows from rules. The readings stay.
    pub fn discard_rules(&mut self) {
        for process in &mut self.processes {
            process.is_known = false;
            process.watches = 0;
            process.group_protection = None;
            process.met_rules = 0;
            if matches!(process.protection, Some(Protection::Rule(_))) {
                process.protection = None;
            }
        }
    }

    /// Returns all processes for modification, to apply rules again.
    pub fn all_mut(&mut self) -> &mut [ProcessEntry] {
        &mut self.processes
    }
}

impl ProcessEntry {
    /// Returns a process of which nothing else is known.
    pub fn new(reading: ProcessReading, user: u32, is_contained: bool) -> Self {
        Self { reading, user, is_contained, ..Self::default() }
    }

    /// Whether a watch includes the process and nothing protects it.
    pub fn is_eligible(&self, watch: usize) -> bool {
        self.protection.is_none() && self.watches >> watch & 1 == 1
    }

    /// Returns the bytes that would be freed if the process ended, as far as is known.
    pub fn freeable_bytes(&self) -> u64 {
        let held = if self.held.is_persistent { 0 } else { self.held.growth_kib };
        let mapped = self.reading.shmem_kib.saturating_sub(self.shared_kib);
        let own = self.reading.kib.saturating_sub(self.shared_kib.saturating_sub(self.reading.shmem_kib));
        (u64::from(own) + u64::from(mapped.max(held))) << 10
    }
}

#[cfg(test)]
mod tests;
