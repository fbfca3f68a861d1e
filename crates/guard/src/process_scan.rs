//! Keeps the table of processes up to date, without allocating and without a lock that a task may hold while it
//! waits for memory.

use crate::decision::process_table::{ProcessEntry, ProcessReading, ProcessTable, Protection};
use manycore_linux::{
    counters::ticks_per_second,
    process_reader::{ProcessList, ProcessReader, ProcessStat, ProcessStatus, read_name_and_status},
};
use rustix::time::{ClockId, clock_gettime};
use std::{io, path::Path};

/// If the resident set has changed by one part in this many, or by [`LEAST_KIB`], the process's `status` is
/// read again.
const CHANGE: u32 = 64;
/// See [`CHANGE`].
const LEAST_KIB: u32 = 512;

/// Largest number of ids that are checked for new processes at once.
const MAX_NEW: u32 = 512;

/// Reads all processes into a table.
#[derive(Debug)]
pub struct ProcessScanner {
    list: ProcessList,
    /// Reads one process.
    pub reader: ProcessReader,
    tick_ns: u64,
    last_pid: u32,
}

impl ProcessScanner {
    /// Opens the list of processes below `root`. Their number is not limited.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        let (list, reader) = (ProcessList::open(root)?, ProcessReader::open(root)?);
        Ok(Self { list, reader, tick_ns: 1_000_000_000 / ticks_per_second(), last_pid: 0 })
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
        self.list.rewind()?;
        let how = Scan::of_all(now_ns, swaps);
        table.begin_survey();
        while let Some(count) = self.list.next_piece()? {
            for at in 0..count {
                let pid = self.list.get(at);
                self.scan_process(table, pid, &how, &mut apply_rules);
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
            if !self.scan_process(table, pid, &Scan::of_some(now_ns), &mut apply_rules) {
                table.remove(pid);
            }
        }
    }

    /// Reads the processes that were started since the last call. They are found by the last process id.
    /// If there are many, they are left to the next [`ProcessScanner::scan_all`].
    pub fn scan_new(
        &mut self,
        table: &mut ProcessTable,
        now_ns: u64,
        mut apply_rules: impl FnMut(&mut ProcessEntry),
    ) {
        let Some(last) = self.reader.last_id() else { return };
        let before = std::mem::replace(&mut self.last_pid, last);
        if before == 0 || last.wrapping_sub(before) > MAX_NEW {
            return;
        }
        for pid in before + 1..=last {
            self.scan_process(table, pid, &Scan::of_some(now_ns), &mut apply_rules);
        }
    }

    /// Reads one process, whether it is in the table or not.
    pub fn scan_one(
        &mut self,
        table: &mut ProcessTable,
        pid: u32,
        now_ns: u64,
        mut apply_rules: impl FnMut(&mut ProcessEntry),
    ) {
        if !self.scan_process(table, pid, &Scan::of_all(now_ns, false), &mut apply_rules) {
            table.remove(pid);
        }
    }

    /// Reads one process. Returns whether it exists.
    fn scan_process(
        &mut self,
        table: &mut ProcessTable,
        pid: u32,
        how: &Scan,
        apply_rules: &mut impl FnMut(&mut ProcessEntry),
    ) -> bool {
        let Some(stat) = self.reader.stat(pid).filter(|stat| !stat.has_ended) else { return false };
        let known = table.find(pid).filter(|known| known.reading.start == stat.start);
        if known.is_some_and(|known| is_unchanged(known, &stat, how.swaps)) {
            table.mark_unchanged(pid);
            return true;
        }
        // The owner of a new process that cannot be read is unknown. The next survey reads it again.
        let before = known.map(last_status);
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
        let age_ns = how.boottime_ns.saturating_sub((stat.start + 1) * self.tick_ns);
        table.update(reading, stat.resident_kib, how.now_ns, age_ns);
        if let Some(process) = table.find_mut(pid) {
            (process.user, process.is_contained) = (status.user, status.is_contained);
            if stat.is_kernel {
                process.protection = Some(Protection::Kernel);
            }
            apply_rules(process);
        }
        true
    }

    /// Returns the status of a process: that of a kernel thread is empty, and `before` stands for one that cannot
    /// be read. `None` if the id is that of a thread of another process.
    fn status_or(
        &mut self,
        pid: u32,
        stat: &ProcessStat,
        before: Option<ProcessStatus>,
    ) -> Option<ProcessStatus> {
        let status = if stat.is_kernel {
            ProcessStatus::default()
        } else {
            self.reader.status(pid, stat.reporting_thread).or(before)?
        };
        (status.process == pid || status.process == 0).then_some(status)
    }
}

/// How processes are scanned.
struct Scan {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    now_ns: u64,
    /// `CLOCK_BOOTTIME` in nanoseconds, from which ages follow; 0 if a new process is to count as created now.
    boottime_ns: u64,
    /// See [`ProcessScanner::scan_all`].
    swaps: bool,
}

impl Scan {
    /// A scan of processes of any age.
    fn of_all(now_ns: u64, swaps: bool) -> Self {
        let since_boot = clock_gettime(ClockId::Boottime);
        let boottime_ns = since_boot.tv_sec as u64 * 1_000_000_000 + since_boot.tv_nsec as u64;
        Self { now_ns, boottime_ns, swaps }
    }

    /// A scan of some processes: new ones have just been created.
    fn of_some(now_ns: u64) -> Self {
        Self { now_ns, boottime_ns: 0, swaps: false }
    }
}

/// Whether the `status` of a process needs no new reading.
fn is_unchanged(known: &ProcessEntry, stat: &ProcessStat, swaps: bool) -> bool {
    let change = stat.resident_kib.abs_diff(known.resident_kib);
    let is_small = change < LEAST_KIB && change <= known.resident_kib / CHANGE;
    is_small
        && known.reading.name == stat.name
        && known.reading.parent == stat.parent
        && (!swaps || stat.is_kernel)
}

/// Returns the status that was read last.
fn last_status(known: &ProcessEntry) -> ProcessStatus {
    ProcessStatus {
        process: known.reading.pid,
        user: known.user,
        is_contained: known.is_contained,
        kib: known.reading.kib,
        shmem_kib: known.reading.shmem_kib,
    }
}

/// Returns the name and user of a process, and whether it is in a container. Its memory is not read.
pub fn read_owner(root: &Path, pid: u32) -> Option<ProcessEntry> {
    let (name, status) = read_name_and_status(root, pid)?;
    let reading = ProcessReading { pid, name, ..ProcessReading::default() };
    Some(ProcessEntry::new(reading, status.user, status.is_contained))
}

#[cfg(test)]
mod tests;
