//! The memory of all processes, read without allocating and without a lock that a task may hold while it
//! waits for memory.
//!
//! `/proc/PID/stat` and `status` read counters (`fs/proc/array.c`, `task_mem` in `fs/proc/task_mmu.c`). Files
//! that take `mmap_lock` (`smaps`, `smaps_rollup`, `maps`, `cmdline`, `environ`) are not read here.
//! [`read_shared_kib`] reads one of them, for callers that may block.

mod parse;
mod single;

pub use single::{read_owner, read_shared_kib};

use crate::decision::process_table::{ProcessEntry, ProcessReading, ProcessTable, Protection};
use manycore_linux::counters::ticks_per_second;
use parse::{Stat, Status, number, parse_stat, parse_status};
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
const MAX_NEW: u32 = 512;

/// Bytes of the process list that are read at once. An entry has at least 24 bytes (`linux_dirent64`), which
/// bounds the number of processes in a piece.
const PIECE: usize = 32 << 10;
/// See [`PIECE`].
const MOST_LISTED: usize = PIECE / 24;

/// If the first thread of a process has exited, at most this many others are searched for one that still
/// runs.
const MAX_THREADS_TRIED: usize = 64;

/// Reads all processes.
#[derive(Debug)]
pub struct ProcessScanner {
    proc: OwnedFd,
    names: Box<[MaybeUninit<u8>]>,
    /// The ids of one piece of the list.
    pids: Vec<u32>,
    text: Box<[u8; LONGEST]>,
    page_kib: u64,
    tick_ns: u64,
    last_pid: u32,
}

impl ProcessScanner {
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

    /// Updates the table. `apply_rules` is called for each process that is new or has changed, to apply the rules
    /// to it. If `swaps` is true, `status` is read for all processes, because swapped-out memory does not
    /// show in the resident set.
    ///
    /// # Errors
    /// The list of processes cannot be read.
    pub fn scan_all(
        &mut self,
        table: &mut ProcessTable,
        now_ns: u64,
        swaps: bool,
        mut apply_rules: impl FnMut(&mut ProcessEntry),
    ) -> io::Result<()> {
        seek(&self.proc, SeekFrom::Start(0))?;
        let since_boot = clock_gettime(ClockId::Boottime);
        let since_boot = since_boot.tv_sec as u64 * 1_000_000_000 + since_boot.tv_nsec as u64;
        table.begin_survey();
        while self.list()? {
            for at in 0..self.pids.len() {
                let pid = self.pids[at];
                self.scan_process(table, pid, now_ns, since_boot, swaps, &mut apply_rules);
            }
        }
        table.end_survey();
        Ok(())
    }

    /// Updates the processes for which `wanted` is true, without searching for others.
    pub fn rescan(
        &mut self,
        table: &mut ProcessTable,
        now_ns: u64,
        wanted: impl Fn(&ProcessEntry) -> bool,
        mut apply_rules: impl FnMut(&mut ProcessEntry),
    ) {
        let mut last = 0;
        while let Some(pid) = table.next_after(last, &wanted) {
            last = pid;
            if !self.scan_process(table, pid, now_ns, 0, false, &mut apply_rules) {
                table.remove(pid);
            }
        }
    }

    /// Reads the processes that were started since the last call. They are found by the last process id (last
    /// field of `/proc/loadavg`, proc(5)). If there are many, they are left to the next [`ProcessScanner::scan_all`].
    pub fn scan_new(
        &mut self,
        table: &mut ProcessTable,
        now_ns: u64,
        mut apply_rules: impl FnMut(&mut ProcessEntry),
    ) {
        let last = self.file(format_args!("loadavg")).and_then(|text| {
            let last = text.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next()?;
            number(last).map(|last| last as u32)
        });
        let Some(last) = last else { return };
        let before = std::mem::replace(&mut self.last_pid, last);
        if before == 0 || last.wrapping_sub(before) > MAX_NEW {
            return;
        }
        for pid in before + 1..=last {
            self.scan_process(table, pid, now_ns, 0, false, &mut apply_rules);
        }
    }

    /// Reads one process. Returns whether it exists.
    fn scan_process(
        &mut self,
        table: &mut ProcessTable,
        pid: u32,
        now_ns: u64,
        since_boot: u64,
        swaps: bool,
        apply_rules: &mut impl FnMut(&mut ProcessEntry),
    ) -> bool {
        let Some(stat) = self.stat(pid).filter(|stat| !stat.has_ended) else { return false };
        let known = table.find(pid).filter(|known| known.reading.start == stat.start);
        let before = known.map(|known| Status {
            process: pid,
            user: known.user,
            is_contained: known.is_contained,
            kib: known.reading.kib,
            shmem_kib: known.reading.shmem_kib,
        });
        let is_same = known.is_some_and(|known| {
            let change = stat.resident_kib.abs_diff(known.resident_kib);
            let is_small = change < LEAST_KIB && change <= known.resident_kib / CHANGE;
            is_small
                && known.reading.name == stat.name
                && known.reading.parent == stat.parent
                && (!swaps || stat.is_kernel)
        });
        if is_same {
            table.mark_unchanged(pid);
            return true;
        }
        // The owner of a new process that cannot be read is unknown. The next survey reads it again.
        let Some(status) = self.status_or(pid, &stat, before) else { return false };
        let reading = ProcessReading {
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
        table.update(reading, stat.resident_kib, now_ns, age_ns);
        if let Some(process) = table.find_mut(pid) {
            (process.user, process.is_contained) = (status.user, status.is_contained);
            if stat.is_kernel {
                process.protection = Some(Protection::Kernel);
            }
            apply_rules(process);
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
            return Some(Stat { reporting_thread: pid, ..stat });
        }
        // Its first thread has exited, but the process has not.
        let alive = self.running_thread(pid);
        Some(alive.map_or(stat, |alive| Stat { start: stat.start, name: stat.name, ..alive }))
    }

    /// Returns a thread of the process that has not exited.
    fn running_thread(&mut self, pid: u32) -> Option<Stat> {
        let mut path = [0u8; LONGEST_PATH];
        let path = write_path(&mut path, format_args!("{pid}/task"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = openat(&self.proc, path, flags, Mode::empty()).ok()?;
        let page_kib = self.page_kib;
        let mut tids = [0u32; MAX_THREADS_TRIED];
        let mut names = RawDir::new(tasks.as_fd(), &mut self.names);
        let mut count = 0;
        while let Some(Ok(entry)) = names.next() {
            let tid = number(entry.file_name().to_bytes()).map(|tid| tid as u32);
            if let Some(tid) = tid.filter(|&tid| tid != pid && count < MAX_THREADS_TRIED) {
                (tids[count], count) = (tid, count + 1);
            }
        }
        tids[..count].iter().find_map(|&tid| {
            let stat = parse_stat(self.file(format_args!("{pid}/task/{tid}/stat"))?, page_kib)?;
            (!stat.has_ended).then_some(Stat { reporting_thread: tid, ..stat })
        })
    }

    /// Returns the status of a process: that of a kernel thread is empty, and `before` stands for one that cannot
    /// be read. `None` if the id is that of a thread of another process.
    fn status_or(&mut self, pid: u32, stat: &Stat, before: Option<Status>) -> Option<Status> {
        let status = if stat.is_kernel {
            Status::default()
        } else {
            self.status(pid, stat.reporting_thread).or(before)?
        };
        (status.process == pid || status.process == 0).then_some(status)
    }

    fn status(&mut self, pid: u32, reporting_thread: u32) -> Option<Status> {
        match reporting_thread {
            _ if reporting_thread == pid => parse_status(self.file(format_args!("{pid}/status"))?),
            _ => parse_status(self.file(format_args!("{pid}/task/{reporting_thread}/status"))?),
        }
    }

    /// Returns the start time of a process in ticks since boot, and whether it is a zombie. `None` if there
    /// is no such process.
    pub fn start_time(&mut self, pid: u32) -> Option<(u64, bool)> {
        self.stat(pid).map(|stat| (stat.start, stat.has_ended))
    }

    /// Returns the badness by which the kernel's OOM killer selects, 0 to 2000 (`oom_badness`,
    /// `mm/oom_kill.c`).
    pub fn oom_score(&mut self, pid: u32) -> Option<u32> {
        number(self.file(format_args!("{pid}/oom_score"))?.trim_ascii()).map(|score| score as u32)
    }

    /// Whether the kernel must not kill it (`oom_score_adj` is -1000).
    pub fn is_oom_exempt(&mut self, pid: u32) -> bool {
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

#[cfg(test)]
mod tests;
