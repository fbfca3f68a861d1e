//! The processes of the machine with the memory that would come back if they ended, now and at some moments before.
//!
//! All of it is allocated when it is made. Moments ([`Table::mark`]) are thinned as they age, so that sixteen of them
//! reach from fractions of a second to hours.

mod seen;

pub use seen::{Held, Name, Seen, Shield};

use super::stage::Reading;
use std::cmp::Reverse;

/// Moments that are remembered.
const MARKS: usize = 16;

/// A mark that is older, in nanoseconds, goes first.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// From this size of its maker on, a new process of the same name is taken for a copy of it, in KiB.
const BIG_FORK_KIB: u32 = 32 << 10;

/// Watches at most: the machine, control groups and sets of processes that one guard keeps.
pub const WATCHES: usize = 8;

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// As it was seen last.
    pub seen: Seen,
    /// Resident set in KiB, by which it is told whether anything has changed.
    pub resident_kib: u32,
    /// Its parent when it was seen first, whoever it is with now.
    pub maker: u32,
    /// Real user.
    pub user: u32,
    /// Whether it is in a process namespace below that of whoever reads these, as in a container.
    pub is_contained: bool,
    /// Bit `n`: the `n`-th rule by name that asks for a unit or a file holds for it.
    pub proof: u64,
    /// KiB of its memory that would not come back, because others have it too (`Rss` less `Pss`), as seen some time ago.
    pub shared_kib: u32,
    /// What it was found to hold beside.
    pub held: Held,
    /// Why it is never chosen.
    pub shield: Option<Shield>,
    /// Why nobody in its control group is chosen.
    pub group_shield: Option<Shield>,
    /// Bit `n`: the `n`-th watch includes it.
    pub watches: u32,
    /// Number of its control group with whoever reads these; 0: not known yet.
    pub group: u16,
    /// Whether group, shield and watches are its own, not its parent's.
    pub is_known: bool,
    /// KiB at each mark, its own and shared; 0 where it was not there.
    at: [(u32, u32); MARKS],
    /// When it was seen first, in nanoseconds of `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// Survey that it was found in last.
    round: u32,
}

/// A moment at which all processes were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at_ns: u64,
    /// Room of each watch.
    room: [u64; WATCHES],
    /// Memory of `tmpfs` and shared memory, likewise.
    shmem: [u64; WATCHES],
    slot: usize,
}

/// The processes, by id.
#[derive(Debug)]
pub struct Table {
    processes: Vec<Process>,
    marks: [Mark; MARKS],
    marked: usize,
    round: u32,
    /// Nobody in a full table is smaller.
    least_kib: u64,
    /// Processes that there was no place for in the last survey.
    pub left_out: usize,
}

/// A span of time over which growth is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    slot: usize,
    /// When it began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Bytes that the room has fallen by since.
    pub fall: u64,
    /// Bytes that `tmpfs` and shared memory have grown by since.
    pub shmem: u64,
}

impl Table {
    /// For so many processes; every page of it is written, so that it is there.
    pub fn new(capacity: usize) -> Self {
        let one = Process { round: 1, ..Process::default() };
        let mut processes = vec![one; capacity];
        processes.clear();
        Self { processes, marks: [Mark::default(); MARKS], marked: 0, round: 0, least_kib: 0, left_out: 0 }
    }

    /// All of them, by id.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The one with this id.
    pub fn find(&self, pid: u32) -> Option<&Process> {
        self.place(pid).ok().map(|at| &self.processes[at])
    }

    /// The same, to change it.
    pub fn find_mut(&mut self, pid: u32) -> Option<&mut Process> {
        let at = self.place(pid).ok()?;
        Some(&mut self.processes[at])
    }

    fn place(&self, pid: u32) -> Result<usize, usize> {
        self.processes.binary_search_by_key(&pid, |process| process.seen.pid)
    }

    /// Begins a survey: those that are not seen in it are gone at its end.
    pub fn begin(&mut self) {
        self.round += 1;
        (self.left_out, self.least_kib) = (0, 0);
    }

    /// Takes in what was read. A process that is new, or another one with this id, takes `heir` for its group and so on
    /// until its own are known: those of its parent. Its memory counts as growth since all marks, unless it is older
    /// than they are. Returns whether it is new.
    pub fn see(&mut self, seen: Seen, resident_kib: u32, now_ns: u64, age_ns: u64) -> bool {
        let round = self.round;
        match self.place(seen.pid) {
            Ok(at) if self.processes[at].seen.start == seen.start => {
                let process = &mut self.processes[at];
                // A program that was started may have been put into another control group before.
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

    /// Makes a place in a full table for one that is at least twice as big as the smallest: that, the youngest of several,
    /// goes. So a crowd of small ones hides nobody. Returns whether there is a place.
    fn give_way(&mut self, seen: &Seen) -> bool {
        let size = |seen: &Seen| u64::from(seen.kib) + u64::from(seen.shmem_kib);
        if size(seen) < 2 * self.least_kib.max(1) {
            return false;
        }
        let all = self.processes.iter().enumerate();
        let weight = |process: &Process| size(&process.seen) + u64::from(process.held.growth_kib);
        let least = all.min_by_key(|(_, process)| (weight(process), Reverse(process.seen.start)));
        let Some((at, kib)) = least.map(|(at, process)| (at, weight(process))) else { return false };
        // It only grows while one survey goes on, so most are turned down at once.
        self.least_kib = kib;
        let is_worth_it = size(seen) >= 2 * kib.max(1);
        if is_worth_it {
            self.processes.remove(at);
            self.left_out += 1;
        }
        is_worth_it
    }

    /// Takes all of another one, which has no more processes than there is room for here.
    pub fn take_over(&mut self, other: &Self) {
        let room = self.processes.capacity();
        self.processes.clear();
        self.processes.extend_from_slice(&other.processes[..other.processes.len().min(room)]);
        (self.marks, self.marked, self.round) = (other.marks, other.marked, other.round);
    }

    /// Processes that there is room for.
    pub fn capacity(&self) -> usize {
        self.processes.capacity()
    }

    /// The first one with a larger id than `pid` that is `wanted`.
    pub fn after(&self, pid: u32, wanted: impl Fn(&Process) -> bool) -> Option<u32> {
        let at = self.place(pid.checked_add(1)?).unwrap_or_else(|at| at);
        self.processes[at..].iter().find(|process| wanted(process)).map(|process| process.seen.pid)
    }

    /// Notes that it is still there, with the memory that it had.
    pub fn keep(&mut self, pid: u32) {
        let round = self.round;
        if let Some(process) = self.find_mut(pid) {
            process.round = round;
        }
    }

    fn born(&self, seen: Seen, resident_kib: u32, now_ns: u64, age_ns: u64) -> Process {
        // One whose maker has died comes to somebody of another session, but those of its own tell where it is from.
        let parent = self.find(seen.parent);
        let kin = |other: &&Process| other.seen.session == seen.session && seen.session != 0;
        let heir = parent.filter(kin).or_else(|| self.processes.iter().find(kin)).or(parent);
        let heir = heir.copied().unwrap_or_default();
        // A fork of a big process has its maker's memory, which is not taken again.
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
            // Rules that name processes are looked at again; those of groups are inherited.
            shield: None,
            group_shield: heir.group_shield,
            watches: heir.watches,
            is_known: false,
            at,
            first_ns: now_ns,
            round: self.round,
        }
    }

    /// Ends a survey: who was not seen is gone.
    pub fn end(&mut self) {
        let round = self.round;
        self.processes.retain(|process| process.round == round);
    }

    /// Removes one that is gone.
    pub fn remove(&mut self, pid: u32) {
        if let Ok(at) = self.place(pid) {
            self.processes.remove(at);
        }
    }

    /// Makes this moment one from which growth can be told. The mark that tells least is given up for it: that with the
    /// nearest neighbours in proportion to its age.
    ///
    /// `readings` has one for each watch, in their order.
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

    /// Takes the least useful mark out; its slot.
    fn give_up(&mut self, now_ns: u64) -> usize {
        let worth = |at: usize| {
            let gap = self.marks[at + 1].at_ns - self.marks[at - 1].at_ns;
            gap as f64 / now_ns.saturating_sub(self.marks[at].at_ns).max(1) as f64
        };
        // The oldest goes once it is beyond an hour, so that the past does not weigh for ever.
        let least = if now_ns.saturating_sub(self.marks[0].at_ns) > LONGEST_NS {
            0
        } else {
            (1..MARKS - 1).min_by(|&a, &b| worth(a).total_cmp(&worth(b))).unwrap_or(1)
        };
        let slot = self.marks[least].slot;
        self.marks.copy_within(least + 1..MARKS, least);
        slot
    }

    /// Forgets all marks: the time between them is not known (the machine slept).
    pub fn forget(&mut self) {
        self.marked = 0;
    }

    /// When the last mark was made.
    pub fn last_mark_ns(&self) -> Option<u64> {
        self.marked.checked_sub(1).map(|last| self.marks[last].at_ns)
    }

    /// The shortest window over which the room of a watch has fallen by `least` bytes; where none is so long, the whole
    /// fall.
    pub fn recent(&self, watch: usize, now: &Reading, least: u64) -> Option<Window> {
        let enough = |mark: &&Mark| mark.room[watch].saturating_sub(now.room()) >= least.max(1);
        let mark = self.marks[..self.marked].iter().rev().find(enough);
        mark.map(|mark| window(mark, watch, now)).or_else(|| self.whole(watch, now))
    }

    /// The window since the room of a watch was largest.
    pub fn whole(&self, watch: usize, now: &Reading) -> Option<Window> {
        // Of equal ones the latest.
        let mark = self.marks[..self.marked].iter().max_by_key(|mark| mark.room[watch])?;
        Some(window(mark, watch, now)).filter(|window| window.fall > 0)
    }

    /// Whether a process was not there when a window began.
    pub fn is_young(process: &Process, window: &Window) -> bool {
        process.at[window.slot] == (0, 0)
    }

    /// Bytes that a process has grown by in a window: its own pages, and what else it was found to hold as far as there is
    /// more of that. Shared memory that it only maps may be anybody's.
    pub fn growth(process: &Process, window: &Window) -> u64 {
        let own = process.seen.kib.saturating_sub(process.at[window.slot].0);
        let most = if process.held.kind.is_shmem() { window.shmem } else { window.fall };
        (u64::from(own) << 10) + (u64::from(process.held.growth_kib) << 10).min(most)
    }

    /// Bytes of a fall that the growth of no process of the watch explains.
    pub fn unexplained(&self, watch: usize, window: &Window) -> u64 {
        let members = self.processes.iter().filter(|process| process.watches >> watch & 1 == 1);
        let explained = members.map(|process| Self::growth(process, window)).sum();
        window.fall.saturating_sub(explained)
    }

    /// All that was said of processes by rules counts no more; what they had does.
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

    /// All of them, to be judged again.
    pub fn all_mut(&mut self) -> &mut [Process] {
        &mut self.processes
    }
}

impl Process {
    /// One of which nothing else is known.
    pub fn new(seen: Seen, user: u32, is_contained: bool) -> Self {
        Self { seen, user, is_contained, ..Self::default() }
    }

    /// Whether a watch includes it, and nothing spares it.
    pub fn may_end(&self, watch: usize) -> bool {
        self.shield.is_none() && self.watches >> watch & 1 == 1
    }

    /// Bytes that would come back if it ended, as far as is known.
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
