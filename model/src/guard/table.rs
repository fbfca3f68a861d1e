//! The processes of the machine with the memory that would come back if they ended, now and at some moments before.
//!
//! All of it is allocated when it is made. Moments ([`Table::mark`]) are thinned as they age, so that sixteen of them
//! reach from fractions of a second to hours.

use super::stage::Reading;

/// Moments that are remembered.
const MARKS: usize = 16;

/// A mark that is older, in nanoseconds, goes first.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// From this size of its maker on, a new process of the same name is taken for a copy of it, in KiB.
const BIG_FORK_KIB: u32 = 32 << 10;

/// Watches at most: the machine, control groups and sets of processes that one guard keeps.
pub const WATCHES: usize = 8;

/// A process's name as the kernel keeps it (`comm`): up to 15 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name([u8; 16]);

impl Name {
    /// The first 15 bytes.
    pub fn new(text: &[u8]) -> Self {
        let mut name = Self::default();
        let count = text.len().min(15);
        name.0[..count].copy_from_slice(&text[..count]);
        name
    }

    /// Without what is unused.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

/// Why a process is never chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shield {
    /// It is process 1.
    Init,
    /// It is the guard.
    Guard,
    /// It is a thread of the kernel.
    Kernel,
    /// The kernel is told to spare it (`oom_score_adj` is -1000).
    Spared,
    /// A rule names it: the number of the rule.
    Rule(u16),
}

/// What was read of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Process id.
    pub pid: u32,
    /// Start in clock ticks since boot (`starttime` of `/proc/PID/stat`): with the id it names one process for good.
    pub start: u64,
    /// Parent.
    pub parent: u32,
    /// Session.
    pub session: u32,
    /// Whether the session has a terminal.
    pub has_terminal: bool,
    /// Name.
    pub name: Name,
    /// Its own pages and swap, in KiB.
    pub kib: u32,
    /// Shared memory and files in memory that it has mapped, in KiB.
    pub shmem_kib: u32,
}

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
    /// KiB of its memory that would not come back, because others have it too (`Rss` less `Pss`), as seen some time ago.
    pub shared_kib: u32,
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
        Self { processes, marks: [Mark::default(); MARKS], marked: 0, round: 0, left_out: 0 }
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
        self.left_out = 0;
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
            Err(_) if self.processes.len() == self.processes.capacity() => {
                self.left_out += 1;
                false
            }
            Err(at) => {
                let process = self.born(seen, resident_kib, now_ns, age_ns);
                self.processes.insert(at, process);
                true
            }
        }
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
            shared_kib: 0,
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

    /// Bytes that a process has grown by in a window. Shared memory that it maps is its growth only as far as there is
    /// more of that on the machine: what was there before is only used by one more.
    pub fn growth(process: &Process, window: &Window) -> u64 {
        let (own, shared) = process.at[window.slot];
        let bytes = |now: u32, before: u32| u64::from(now.saturating_sub(before)) << 10;
        bytes(process.seen.kib, own) + bytes(process.seen.shmem_kib, shared).min(window.shmem)
    }

    /// All that was said of processes by rules counts no more; what they had does.
    pub fn forget_rules(&mut self) {
        for process in &mut self.processes {
            process.is_known = false;
            process.watches = 0;
            process.group_shield = None;
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
    /// Whether a watch includes it, and nothing spares it.
    pub fn may_end(&self, watch: usize) -> bool {
        self.shield.is_none() && self.watches >> watch & 1 == 1
    }

    /// Bytes that would come back if it ended, as far as is known.
    pub fn bytes(&self) -> u64 {
        let kib = u64::from(self.seen.kib) + u64::from(self.seen.shmem_kib);
        kib.saturating_sub(self.shared_kib.into()) << 10
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
