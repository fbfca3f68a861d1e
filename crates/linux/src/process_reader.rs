//! Reads processes from `/proc` again and again without allocating, and without a lock that a task may hold while it
//! waits for memory.
//!
//! `/proc/PID/stat` and `status` read counters (`fs/proc/array.c`, `task_mem` in `fs/proc/task_mmu.c`). Files
//! that take `mmap_lock` (`smaps`, `smaps_rollup`, `maps`, `cmdline`, `environ`) are not read here.
//! [`read_shared_kib`] reads one of them, for callers that may block.

mod parse;
mod single;

pub use parse::{ProcessName, ProcessStat, ProcessStatus};
pub use single::{read_name_and_status, read_shared_kib};

use parse::{number, parse_stat, parse_status};
use rustix::{
    fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, seek},
    io::{Errno, read},
    param::page_size,
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

/// Enough for `4194304/task/4194304/status`.
const LONGEST_PATH: usize = 48;

/// Bytes of the process list that are read at once. An entry has at least 24 bytes (`linux_dirent64`), which
/// bounds the number of processes in a piece.
const PIECE: usize = 32 << 10;
/// See [`PIECE`].
const MOST_LISTED: usize = PIECE / 24;

/// Bytes of the list of a process's threads that are read at once.
const TASKS_PIECE: usize = 2 << 10;

/// If the first thread of a process has exited, at most this many others are searched for one that still
/// runs.
const MAX_THREADS_TRIED: usize = 64;

/// The list of all processes. All memory that it needs is allocated when it is opened.
#[derive(Debug)]
pub struct ProcessList {
    proc: OwnedFd,
    names: Box<[MaybeUninit<u8>]>,
    /// The ids of one piece of the list.
    pids: Vec<u32>,
}

impl ProcessList {
    /// Opens the list of processes below `root`. Their number is not limited.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        let mut pids = vec![1; MOST_LISTED];
        pids.clear();
        Ok(Self { proc: open_proc(root)?, names: vec![MaybeUninit::new(0); PIECE].into_boxed_slice(), pids })
    }

    /// Begins the list anew.
    ///
    /// # Errors
    /// Those of `lseek(2)`.
    pub fn rewind(&mut self) -> io::Result<()> {
        seek(&self.proc, SeekFrom::Start(0))?;
        Ok(())
    }

    /// Reads the next piece of the list. Returns the number of ids in it ([`Self::get`]), or `None` at the end.
    ///
    /// # Errors
    /// Those of `getdents(2)`.
    pub fn next_piece(&mut self) -> io::Result<Option<usize>> {
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
        Ok(is_any.then_some(self.pids.len()))
    }

    /// Returns an id in the piece that [`Self::next_piece`] has read.
    ///
    /// # Panics
    /// If `at` is not below the number of ids in the piece.
    pub fn get(&self, at: usize) -> u32 {
        self.pids[at]
    }
}

/// Opens the directory of processes below `root`.
fn open_proc(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, root.join("proc"), flags, Mode::empty())?)
}

/// Reads processes. All memory that it needs is allocated when it is opened.
#[derive(Debug)]
pub struct ProcessReader {
    proc: OwnedFd,
    text: Box<[u8; LONGEST]>,
    page_kib: u64,
}

impl ProcessReader {
    /// Opens the directory of processes below `root`.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        let page_kib = (page_size() >> 10) as u64;
        Ok(Self { proc: open_proc(root)?, text: Box::new([0; LONGEST]), page_kib })
    }

    /// Returns the `stat` of a process. If its first thread has exited but the process has not, the fields are
    /// those of a thread that runs, with the name and start time of the process.
    pub fn stat(&mut self, pid: u32) -> Option<ProcessStat> {
        let page_kib = self.page_kib;
        let stat = parse_stat(self.file(format_args!("{pid}/stat"))?, page_kib)?;
        if !stat.has_ended || stat.threads < 2 {
            return Some(ProcessStat { reporting_thread: pid, ..stat });
        }
        let alive = self.running_thread(pid);
        Some(alive.map_or(stat, |alive| ProcessStat { start: stat.start, name: stat.name, ..alive }))
    }

    /// Returns a thread of the process that has not exited.
    fn running_thread(&mut self, pid: u32) -> Option<ProcessStat> {
        let mut path = [0u8; LONGEST_PATH];
        let path = write_path(&mut path, format_args!("{pid}/task"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = openat(&self.proc, path, flags, Mode::empty()).ok()?;
        let page_kib = self.page_kib;
        let mut tids = [0u32; MAX_THREADS_TRIED];
        let mut names = [const { MaybeUninit::uninit() }; TASKS_PIECE];
        let mut names = RawDir::new(tasks.as_fd(), &mut names);
        let mut count = 0;
        while let Some(Ok(entry)) = names.next() {
            let tid = number(entry.file_name().to_bytes()).map(|tid| tid as u32);
            if let Some(tid) = tid.filter(|&tid| tid != pid && count < MAX_THREADS_TRIED) {
                (tids[count], count) = (tid, count + 1);
            }
        }
        tids[..count].iter().find_map(|&tid| {
            let stat = parse_stat(self.file(format_args!("{pid}/task/{tid}/stat"))?, page_kib)?;
            (!stat.has_ended).then_some(ProcessStat { reporting_thread: tid, ..stat })
        })
    }

    /// Returns the `status` of a process, as its thread `reporting_thread` reports it (a field of [`ProcessStat`]).
    pub fn status(&mut self, pid: u32, reporting_thread: u32) -> Option<ProcessStatus> {
        match reporting_thread {
            _ if reporting_thread == pid => parse_status(self.file(format_args!("{pid}/status"))?),
            _ => parse_status(self.file(format_args!("{pid}/task/{reporting_thread}/status"))?),
        }
    }

    /// Returns the id that was given to a process or thread last (last field of `/proc/loadavg`, `proc(5)`).
    pub fn last_id(&mut self) -> Option<u32> {
        let text = self.file(format_args!("loadavg"))?;
        let last = text.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next()?;
        number(last).map(|last| last as u32)
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
