//! The table of all processes, with the memory that would be freed if each ended, now and at some earlier
//! moments.
//!
//! All memory is allocated when the table is created. The moments ([`Table::mark`]) are thinned out as they
//! age: sixteen of them cover spans from fractions of a second to hours.

mod seen;

pub use seen::{Held, Name, Seen, Shield};

use super::stage::Reading;
use std::cmp::Reverse;

/// Number of moments that are kept.
const MARKS: usize = 16;

/// A mark older than this, in nanoseconds, is discarded first.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// If a parent is at least this large, in KiB, a new child of the same name is taken for a forked copy of it.
const BIG_FORK_KIB: u32 = 32 << 10;

/// Largest number of watches of one guard: the machine, control groups and sets of processes.
pub const WATCHES: usize = 8;

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The latest reading.
    pub seen: Seen,
    /// Resident set size in KiB. A change of it shows that the process has to be read again.
    pub resident_kib: u32,
    /// Its parent when it was first seen. The current parent may be another process.
    pub maker: u32,
    /// Real user id.
    pub user: u32,
    /// Whether it is in a process namespace below that of the reader, as in a container.
    pub is_contained: bool,
    /// Bit `n` is set if the process meets the unit or file that the `n`-th name rule demands.
    pub proof: u64,
    /// KiB that would not be freed because other processes share them (`Rss` less `Pss`), as of some time
    /// ago.
    pub shared_kib: u32,
    /// Memory that it was found to hold in addition.
    pub held: Held,
    /// Why it is never selected.
    pub shield: Option<Shield>,
    /// Why no process of its control group is selected.
    pub group_shield: Option<Shield>,
    /// Bit `n` is set if the `n`-th watch includes it.
    pub watches: u32,
    /// Number that the reader gave its control group; 0 if not yet known.
    pub group: u16,
    /// Whether group, shield and watches are its own, not copied from its parent.
    pub is_known: bool,
    /// KiB at each mark, private and shared; 0 if the process did not exist.
    at: [(u32, u32); MARKS],
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
    room: [u64; WATCHES],
    /// Memory of `tmpfs` and shared memory of each watch.
    shmem: [u64; WATCHES],
    slot: usize,
}

/// The processes, sorted by id.
#[derive(Debug)]
pub struct Table {
    processes: Vec<Process>,
    marks: [Mark; MARKS],
    marked: usize,
    round: u32,
    /// No process in a full table is smaller than this.
    least_kib: u64,
    /// Number of processes that did not fit into the table in the last survey.
    pub left_out: usize,
}

/// A span of time over which growth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    slot: usize,
    /// Start of the window, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Bytes that available memory has fallen by since.
    pub fall: u64,
    /// Bytes that `tmpfs` and shared memory have grown by since.
    pub shmem: u64,
}

impl Table {
    /// Creates a table for `capacity` processes. Writes every page of it, so that the memory is really
    /// allocated.
    pub fn new(capacity: usize) -> Self {
        let one = Process { round: 1, ..Process::default() };
        let mut processes = vec![one; capacity];
        processes.clear();
        Self { processes, marks: [Mark::default(); MARKS], marked: 0, round: 0, least_kib: 0, left_out: 0 }
    }

    /// Returns all processes, sorted by id.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns the process with this id.
    pub fn find(&self, pid: u32) -> Option<&Process> {
        self.place(pid).ok().map(|at| &self.processes[at])
    }

    /// Returns the process with this id for modification.
    pub fn find_mut(&mut self, pid: u32) -> Option<&mut Process> {
        let at = self.place(pid).ok()?;
        Some(&mut self.processes[at])
    }

    fn place(&self, pid: u32) -> Result<usize, usize> {
        self.processes.binary_search_by_key(&pid, |process| process.seen.pid)
    }

    /// Begins a survey. Processes that are not seen in it are removed by [`Self::end`].
    pub fn begin(&mut self) {
        self.round += 1;
        (self.left_out, self.least_kib) = (0, 0);
    }

    /// Records the reading of a process and returns whether the process is new.
    ///
    /// A new process, or one that reuses an id, takes the control group, shield and watches of its parent (or
    /// of another process of its session) until its own are known. Its memory counts as growth since every
    /// mark made after its start.
    pub fn see(&mut self, seen: Seen, resident_kib: u32, now_ns: u64, age_ns: u64) -> bool {
        let round = self.round;
        match self.place(seen.pid) {
            Ok(at) if self.processes[at].seen.start == seen.start => {
                let process = &mut self.processes[at];
                // A process that has executed a new program may have been moved to another control group
                // before.
                process.is_known &= process.seen.name == seen.name;
                (process.seen, process.resident_kib, process.round) = (seen, resident_kib, round);
                false
            }
            Ok(at) => {
                self.processes[at] = self.born(seen, resident_kib, now_ns, age_ns);
                true
            }
            Err(_) if self.processes.len() == self.processes.capacity() && !self.give_way(&seen) => {
                self.left_out += 1;
                false
            }
            Err(_) => {
                let at = self.place(seen.pid).unwrap_or_else(|at| at);
                let process = self.born(seen, resident_kib, now_ns, age_ns);
                self.processes.insert(at, process);
                true
            }
        }
    }

    /// Makes space in a full table for a process at least twice as large as the smallest one, which is
    /// removed (the youngest of several). This way many small processes cannot hide a large one. Returns
    /// whether there is space.
    fn give_way(&mut self, seen: &Seen) -> bool {
        let size = |seen: &Seen| u64::from(seen.kib) + u64::from(seen.shmem_kib);
        if size(seen) < 2 * self.least_kib.max(1) {
            return false;
        }
        let all = self.processes.iter().enumerate();
        let weight = |process: &Process| size(&process.seen) + u64::from(process.held.growth_kib);
        let least = all.min_by_key(|(_, process)| (weight(process), Reverse(process.seen.start)));
        let Some((at, kib)) = least.map(|(at, process)| (at, weight(process))) else { return false };
        // This only rises during a survey, so most later candidates are rejected without a search.
        self.least_kib = kib;
        let is_worth_it = size(seen) >= 2 * kib.max(1);
        if is_worth_it {
            self.processes.remove(at);
            self.left_out += 1;
        }
        is_worth_it
    }

    /// Copies all contents of another table, up to the capacity of this one.
    pub fn take_over(&mut self, other: &Self) {
        let room = self.processes.capacity();
        self.processes.clear();
        self.processes.extend_from_slice(&other.processes[..other.processes.len().min(room)]);
        (self.marks, self.marked, self.round) = (other.marks, other.marked, other.round);
    }

    /// Returns the number of processes that fit.
    pub fn capacity(&self) -> usize {
        self.processes.capacity()
    }

    /// Returns the smallest id above `pid` of a process for which `wanted` is true.
    pub fn after(&self, pid: u32, wanted: impl Fn(&Process) -> bool) -> Option<u32> {
        let at = self.place(pid.checked_add(1)?).unwrap_or_else(|at| at);
        self.processes[at..].iter().find(|process| wanted(process)).map(|process| process.seen.pid)
    }

    /// Records that a process still exists and that its memory has not changed.
    pub fn keep(&mut self, pid: u32) {
        let round = self.round;
        if let Some(process) = self.find_mut(pid) {
            process.round = round;
        }
    }

    fn born(&self, seen: Seen, resident_kib: u32, now_ns: u64, age_ns: u64) -> Process {
        // If its parent has exited, the process is a child of a process in another session. Other members of
        // its own session show its origin better.
        let parent = self.find(seen.parent);
        let kin = |other: &&Process| other.seen.session == seen.session && seen.session != 0;
        let heir = parent.filter(kin).or_else(|| self.processes.iter().find(kin)).or(parent);
        let heir = heir.copied().unwrap_or_default();
        // A fork of a large process shares the memory of its parent. This memory was not allocated again.
        let is_fork =
            heir.seen.pid == seen.parent && heir.seen.name == seen.name && heir.seen.kib >= BIG_FORK_KIB;
        let given = if is_fork { seen.kib.min(heir.seen.kib) } else { 0 };
        let mut at = [(given, 0); MARKS];
        for mark in &self.marks[..self.marked] {
            if now_ns.saturating_sub(age_ns) < mark.at_ns {
                at[mark.slot] = (seen.kib, seen.shmem_kib);
            }
        }
        Process {
            seen,
            resident_kib,
            maker: seen.parent,
            user: heir.user,
            is_contained: heir.is_contained,
            proof: 0,
            shared_kib: 0,
            held: Held::default(),
            group: heir.group,
            // Name rules are evaluated again. What follows from the control group is inherited.
            shield: None,
            group_shield: heir.group_shield,
            watches: heir.watches,
            is_known: false,
            at,
            first_ns: now_ns,
            round: self.round,
        }
    }

    /// Ends a survey: removes processes that were not seen in it.
    pub fn end(&mut self) {
        let round = self.round;
        self.processes.retain(|process| process.round == round);
    }

    /// Removes a process that has exited.
    pub fn remove(&mut self, pid: u32) {
        if let Ok(at) = self.place(pid) {
            self.processes.remove(at);
        }
    }

    /// Records this moment as one from which growth can be measured. The least useful mark is discarded for
    /// it: the one whose neighbours are nearest in proportion to its age.
    ///
    /// `readings` has one reading for each watch, in their order.
    pub fn mark(&mut self, at_ns: u64, readings: &[Reading]) {
        if self.last_mark_ns().is_some_and(|last| at_ns <= last) {
            return;
        }
        let slot = if self.marked < MARKS { self.marked } else { self.give_up(at_ns) };
        let mut mark = Mark { at_ns, slot, ..Mark::default() };
        for (at, reading) in readings.iter().take(WATCHES).enumerate() {
            (mark.room[at], mark.shmem[at]) = (reading.room(), reading.shmem);
        }
        self.marks[self.marked.min(MARKS - 1)] = mark;
        self.marked = (self.marked + 1).min(MARKS);
        for process in &mut self.processes {
            process.at[slot] = (process.seen.kib, process.seen.shmem_kib);
        }
    }

    /// Removes the least useful mark and returns its slot.
    fn give_up(&mut self, now_ns: u64) -> usize {
        let worth = |at: usize| {
            let gap = self.marks[at + 1].at_ns - self.marks[at - 1].at_ns;
            gap as f64 / now_ns.saturating_sub(self.marks[at].at_ns).max(1) as f64
        };
        // The oldest mark is discarded after an hour, so that the distant past does not count for ever.
        let least = if now_ns.saturating_sub(self.marks[0].at_ns) > LONGEST_NS {
            0
        } else {
            (1..MARKS - 1).min_by(|&a, &b| worth(a).total_cmp(&worth(b))).unwrap_or(1)
        };
        let slot = self.marks[least].slot;
        self.marks.copy_within(least + 1..MARKS, least);
        slot
    }

    /// Discards all marks: the time since then is unknown (the machine was suspended).
    pub fn forget(&mut self) {
        self.marked = 0;
    }

    /// Returns the time of the last mark.
    pub fn last_mark_ns(&self) -> Option<u64> {
        self.marked.checked_sub(1).map(|last| self.marks[last].at_ns)
    }

    /// Returns the shortest window over which the available memory of a watch has fallen by `least` bytes. If
    /// it has not fallen that much, returns the whole decrease.
    pub fn recent(&self, watch: usize, now: &Reading, least: u64) -> Option<Window> {
        let enough = |mark: &&Mark| mark.room[watch].saturating_sub(now.room()) >= least.max(1);
        let mark = self.marks[..self.marked].iter().rev().find(enough);
        mark.map(|mark| window(mark, watch, now)).or_else(|| self.whole(watch, now))
    }

    /// Returns the window since the available memory of a watch was largest.
    pub fn whole(&self, watch: usize, now: &Reading) -> Option<Window> {
        // Among equal marks this finds the latest.
        let mark = self.marks[..self.marked].iter().max_by_key(|mark| mark.room[watch])?;
        Some(window(mark, watch, now)).filter(|window| window.fall > 0)
    }

    /// Whether a process did not exist when a window began.
    pub fn is_young(process: &Process, window: &Window) -> bool {
        process.at[window.slot] == (0, 0)
    }

    /// Returns the growth of a process in a window, in bytes: of its own pages, and of the other memory that
    /// it was found to hold, up to the growth of that memory in total. Shared memory that a process only maps
    /// may belong to any process.
    pub fn growth(process: &Process, window: &Window) -> u64 {
        let own = process.seen.kib.saturating_sub(process.at[window.slot].0);
        let most = if process.held.kind.is_shmem() { window.shmem } else { window.fall };
        (u64::from(own) << 10) + (u64::from(process.held.growth_kib) << 10).min(most)
    }

    /// Returns the bytes of a decrease that the growth of the processes of the watch does not explain.
    pub fn unexplained(&self, watch: usize, window: &Window) -> u64 {
        let members = self.processes.iter().filter(|process| process.watches >> watch & 1 == 1);
        let explained = members.map(|process| Self::growth(process, window)).sum();
        window.fall.saturating_sub(explained)
    }

    /// Discards everything that follows from rules. The readings stay.
    pub fn forget_rules(&mut self) {
        for process in &mut self.processes {
            process.is_known = false;
            process.watches = 0;
            process.group_shield = None;
            process.proof = 0;
            if matches!(process.shield, Some(Shield::Rule(_))) {
                process.shield = None;
            }
        }
    }

    /// Returns all processes for modification, to apply rules again.
    pub fn all_mut(&mut self) -> &mut [Process] {
        &mut self.processes
    }
}

impl Process {
    /// Returns a process of which nothing else is known.
    pub fn new(seen: Seen, user: u32, is_contained: bool) -> Self {
        Self { seen, user, is_contained, ..Self::default() }
    }

    /// Whether a watch includes the process and nothing protects it.
    pub fn may_end(&self, watch: usize) -> bool {
        self.shield.is_none() && self.watches >> watch & 1 == 1
    }

    /// Returns the bytes that would be freed if the process ended, as far as is known.
    pub fn bytes(&self) -> u64 {
        let held = if self.held.stays { 0 } else { self.held.growth_kib };
        let mapped = self.seen.shmem_kib.saturating_sub(self.shared_kib);
        let own = self.seen.kib.saturating_sub(self.shared_kib.saturating_sub(self.seen.shmem_kib));
        (u64::from(own) + u64::from(mapped.max(held))) << 10
    }
}

fn window(mark: &Mark, watch: usize, now: &Reading) -> Window {
    Window {
        slot: mark.slot,
        from_ns: mark.at_ns,
        fall: mark.room[watch].saturating_sub(now.room()),
        shmem: now.shmem.saturating_sub(mark.shmem[watch]),
    }
}

#[cfg(test)]
mod tests;
