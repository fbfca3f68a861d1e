//! The memory of all processes, read without allocating and without a lock that a task may hold while it
//! waits for memory.
//!
//! `/proc/PID/stat` and `status` read counters (`fs/proc/array.c`, `task_mem` in `fs/proc/task_mmu.c`). Files
//! that take `mmap_lock` (`smaps`, `smaps_rollup`, `maps`, `cmdline`, `environ`) are not read here.
//! [`shared`] reads one of them, for callers that may block.

mod single;

pub use single::{owner, shared};

use crate::decision::table::{Name, Process, Seen, Shield, Table};
use manycore_linux::counters::ticks_per_second;
use rustix::{
    fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, seek},
    io::{Errno, read},
    param::page_size,
    time::{ClockId, clock_gettime},
};
use std::{
    fmt::Arguments,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// Longest `status` and `stat` that are read. The `status` of a user in some thousand groups is longer, and
/// the memory fields come after the groups; the memory of such a process is unknown.
const LONGEST: usize = 8 << 10;

/// If the resident set has changed by one part in this many, or by [`LEAST_KIB`], the process's `status` is
/// read again.
const CHANGE: u32 = 64;
/// See [`CHANGE`].
const LEAST_KIB: u32 = 512;

/// Enough for `4194304/task/4194304/status`.
const LONGEST_PATH: usize = 48;

/// Largest number of ids that are checked for new processes at once.
const MOST_NEWBORN: u32 = 512;

/// Bytes of the process list that are read at once. An entry has at least 24 bytes (`linux_dirent64`), which
/// bounds the number of processes in a piece.
const PIECE: usize = 32 << 10;
/// See [`PIECE`].
const MOST_LISTED: usize = PIECE / 24;

/// If the first thread of a process has exited, at most this many others are searched for one that still
/// runs.
const SURVIVORS: usize = 64;

/// `PF_KTHREAD` (`include/linux/sched.h`) in the flags of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Reads all processes.
#[derive(Debug)]
pub struct Survey {
    proc: OwnedFd,
    names: Box<[MaybeUninit<u8>]>,
    /// The ids of one piece of the list.
    pids: Vec<u32>,
    text: Box<[u8; LONGEST]>,
    page_kib: u64,
    tick_ns: u64,
    last_pid: u32,
}

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    name: Name,
    parent: u32,
    session: u32,
    has_terminal: bool,
    is_kernel: bool,
    has_ended: bool,
    threads: u64,
    start: u64,
    resident_kib: u32,
    /// The thread whose files report the memory of the process; not always the first.
    teller: u32,
}

/// Fields of `/proc/PID/status`, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    /// The process that the thread belongs to; 0 if it is not reported.
    process: u32,
    user: u32,
    /// See [`Process::is_contained`].
    is_contained: bool,
    /// Its own pages and swap.
    kib: u32,
    shmem_kib: u32,
}

impl Survey {
    /// Opens the list of processes below `root`. Their number is not limited.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut pids = vec![1; MOST_LISTED];
        pids.clear();
        Ok(Self {
            proc: openat(CWD, root.join("proc"), flags, Mode::empty())?,
            names: vec![MaybeUninit::new(0); PIECE].into_boxed_slice(),
            pids,
            text: Box::new([0; LONGEST]),
            page_kib: (page_size() >> 10) as u64,
            tick_ns: 1_000_000_000 / ticks_per_second(),
            last_pid: 0,
        })
    }

    /// Updates the table. `judge` is called for each process that is new or has changed, to apply the rules
    /// to it. If `swaps` is true, `status` is read for all processes, because swapped-out memory does not
    /// show in the resident set.
    ///
    /// # Errors
    /// The list of processes cannot be read.
    pub fn run(
        &mut self,
        table: &mut Table,
        now_ns: u64,
        swaps: bool,
        mut judge: impl FnMut(&mut Process),
    ) -> io::Result<()> {
        seek(&self.proc, SeekFrom::Start(0))?;
        let since_boot = clock_gettime(ClockId::Boottime);
        let since_boot = since_boot.tv_sec as u64 * 1_000_000_000 + since_boot.tv_nsec as u64;
        table.begin();
        while self.list()? {
            for at in 0..self.pids.len() {
                let pid = self.pids[at];
                self.look(table, pid, now_ns, since_boot, swaps, &mut judge);
            }
        }
        table.end();
        Ok(())
    }

    /// Updates the processes for which `wanted` is true, without searching for others.
    pub fn again(
        &mut self,
        table: &mut Table,
        now_ns: u64,
        wanted: impl Fn(&Process) -> bool,
        mut judge: impl FnMut(&mut Process),
    ) {
        let mut last = 0;
        while let Some(pid) = table.after(last, &wanted) {
            last = pid;
            if !self.look(table, pid, now_ns, 0, false, &mut judge) {
                table.remove(pid);
            }
        }
    }

    /// Reads the processes that were started since the last call. They are found by the last process id (last
    /// field of `/proc/loadavg`, proc(5)). If there are many, they are left to the next [`Survey::run`].
    pub fn newborn(&mut self, table: &mut Table, now_ns: u64, mut judge: impl FnMut(&mut Process)) {
        let last = self.file(format_args!("loadavg")).and_then(|text| {
            let last = text.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next()?;
            number(last).map(|last| last as u32)
        });
        let Some(last) = last else { return };
        let before = std::mem::replace(&mut self.last_pid, last);
        if before == 0 || last.wrapping_sub(before) > MOST_NEWBORN {
            return;
        }
        for pid in before + 1..=last {
            self.look(table, pid, now_ns, 0, false, &mut judge);
        }
    }

    /// Reads one process. Returns whether it exists.
    fn look(
        &mut self,
        table: &mut Table,
        pid: u32,
        now_ns: u64,
        since_boot: u64,
        swaps: bool,
        judge: &mut impl FnMut(&mut Process),
    ) -> bool {
        let Some(stat) = self.stat(pid).filter(|stat| !stat.has_ended) else { return false };
        let known = table.find(pid).filter(|known| known.seen.start == stat.start);
        let is_same = known.is_some_and(|known| {
            let change = stat.resident_kib.abs_diff(known.resident_kib);
            let is_small = change < LEAST_KIB && change <= known.resident_kib / CHANGE;
            is_small
                && known.seen.name == stat.name
                && known.seen.parent == stat.parent
                && (!swaps || stat.is_kernel)
        });
        if is_same {
            table.keep(pid);
            return true;
        }
        let before = known.map(|known| Status {
            process: pid,
            user: known.user,
            is_contained: known.is_contained,
            kib: known.seen.kib,
            shmem_kib: known.seen.shmem_kib,
        });
        let status =
            if stat.is_kernel { Some(Status::default()) } else { self.status(pid, stat.teller).or(before) };
        // The owner of a new process that cannot be read is unknown. The next survey reads it again.
        let Some(status) = status else { return false };
        if status.process != pid && status.process != 0 {
            return false;
        }
        let seen = Seen {
            pid,
            start: stat.start,
            parent: stat.parent,
            session: stat.session,
            has_terminal: stat.has_terminal,
            name: stat.name,
            kib: status.kib,
            shmem_kib: status.shmem_kib,
        };
        // The start time is given in whole ticks. The age is rounded down, so that a process that started
        // just after a mark is not taken for an older one.
        let age_ns = since_boot.saturating_sub((stat.start + 1) * self.tick_ns);
        table.see(seen, stat.resident_kib, now_ns, age_ns);
        if let Some(process) = table.find_mut(pid) {
            (process.user, process.is_contained) = (status.user, status.is_contained);
            if stat.is_kernel {
                process.shield = Some(Shield::Kernel);
            }
            judge(process);
        }
        true
    }

    /// Lists the ids in the next piece of all processes. Returns whether there was a piece.
    fn list(&mut self) -> io::Result<bool> {
        self.pids.clear();
        let mut names = RawDir::new(self.proc.as_fd(), &mut self.names);
        let mut is_any = false;
        while let Some(entry) = names.next() {
            is_any = true;
            let pid = number(entry?.file_name().to_bytes());
            if let Some(pid) = pid.filter(|_| self.pids.len() < MOST_LISTED) {
                self.pids.push(pid as u32);
            }
            if names.is_buffer_empty() {
                break;
            }
        }
        Ok(is_any)
    }

    fn stat(&mut self, pid: u32) -> Option<Stat> {
        let page_kib = self.page_kib;
        let stat = parse_stat(self.file(format_args!("{pid}/stat"))?, page_kib)?;
        if !stat.has_ended || stat.threads < 2 {
            return Some(Stat { teller: pid, ..stat });
        }
        // Its first thread has exited, but the process has not.
        let alive = self.survivor(pid);
        Some(alive.map_or(stat, |alive| Stat { start: stat.start, name: stat.name, ..alive }))
    }

    /// Returns a thread of the process that has not exited.
    fn survivor(&mut self, pid: u32) -> Option<Stat> {
        let mut path = [0u8; LONGEST_PATH];
        let path = write_path(&mut path, format_args!("{pid}/task"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = openat(&self.proc, path, flags, Mode::empty()).ok()?;
        let page_kib = self.page_kib;
        let mut tids = [0u32; SURVIVORS];
        let mut names = RawDir::new(tasks.as_fd(), &mut self.names);
        let mut count = 0;
        while let Some(Ok(entry)) = names.next() {
            let tid = number(entry.file_name().to_bytes()).map(|tid| tid as u32);
            if let Some(tid) = tid.filter(|&tid| tid != pid && count < SURVIVORS) {
                (tids[count], count) = (tid, count + 1);
            }
        }
        tids[..count].iter().find_map(|&tid| {
            let stat = parse_stat(self.file(format_args!("{pid}/task/{tid}/stat"))?, page_kib)?;
            (!stat.has_ended).then_some(Stat { teller: tid, ..stat })
        })
    }

    fn status(&mut self, pid: u32, teller: u32) -> Option<Status> {
        match teller {
            _ if teller == pid => parse_status(self.file(format_args!("{pid}/status"))?),
            _ => parse_status(self.file(format_args!("{pid}/task/{teller}/status"))?),
        }
    }

    /// Returns the start time of a process in ticks since boot, and whether it is a zombie. `None` if there
    /// is no such process.
    pub fn start(&mut self, pid: u32) -> Option<(u64, bool)> {
        self.stat(pid).map(|stat| (stat.start, stat.has_ended))
    }

    /// Returns the badness by which the kernel's OOM killer selects, 0 to 2000 (`oom_badness`,
    /// `mm/oom_kill.c`).
    pub fn oom_score(&mut self, pid: u32) -> Option<u32> {
        number(self.file(format_args!("{pid}/oom_score"))?.trim_ascii()).map(|score| score as u32)
    }

    /// Whether the kernel must not kill it (`oom_score_adj` is -1000).
    pub fn is_spared(&mut self, pid: u32) -> bool {
        self.file(format_args!("{pid}/oom_score_adj")).is_some_and(|text| text.starts_with(b"-1000"))
    }

    fn file(&mut self, path: Arguments) -> Option<&[u8]> {
        let mut buffer = [0u8; LONGEST_PATH];
        let path = write_path(&mut buffer, path)?;
        let file = openat(&self.proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let length = loop {
            match read(&file, &mut self.text[..]) {
                Err(Errno::INTR) => {}
                other => break other.ok()?,
            }
        };
        Some(&self.text[..length])
    }
}

/// Formats a path without allocating.
fn write_path<'a>(buffer: &'a mut [u8; LONGEST_PATH], path: Arguments) -> Option<&'a str> {
    use std::io::Write;
    let mut rest = &mut buffer[..];
    rest.write_fmt(path).ok()?;
    let length = LONGEST_PATH - rest.len();
    std::str::from_utf8(&buffer[..length]).ok()
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn parse_stat(text: &[u8], page_kib: u64) -> Option<Stat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    // A name may contain brackets and blanks.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let mut stat = Stat { name: Name::new(text.get(open + 1..close)?), ..Stat::default() };
    let words = text[close + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (field, word) in (3..).zip(words) {
        match field {
            3 => stat.has_ended = matches!(word, b"Z" | b"X" | b"x"),
            4 => stat.parent = number(word)? as u32,
            6 => stat.session = number(word)? as u32,
            7 => stat.has_terminal = number(word)? != 0,
            9 => stat.is_kernel = number(word)? & PF_KTHREAD != 0,
            20 => stat.threads = number(word)?,
            22 => stat.start = number(word)?,
            24 => {
                stat.resident_kib = u32::try_from(number(word)?.saturating_mul(page_kib)).unwrap_or(u32::MAX);
                return Some(stat);
            }
            _ => {}
        }
    }
    None
}

fn parse_status(text: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    let mut found = false;
    for line in text.split(|&byte| byte == b'\n') {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let value = || {
            let mut words = line[colon + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.next().and_then(number).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        };
        match &line[..colon] {
            b"Tgid" => status.process = value()?,
            b"Uid" => {
                status.user = value()?;
                found = true;
            }
            // There is one id for each process namespace, from that of `/proc` down to its own.
            b"NSpid" => status.is_contained = line[colon + 1..].trim_ascii().contains(&b'\t'),
            b"RssAnon" | b"VmSwap" => status.kib = status.kib.saturating_add(value()?),
            b"RssShmem" => status.shmem_kib = value()?,
            _ => {}
        }
    }
    found.then_some(status)
}

#[cfg(test)]
mod tests;
