//! The memory that can still be allocated, read repeatedly without allocating: of the machine
//! (`/proc/meminfo`) or of a control group (`Documentation/admin-guide/cgroup-v2.rst`,
//! `cgroup-v1/memory.rst`).
//!
//! Files are kept open and read in place. Reading them takes no lock that a task may hold while it waits for
//! memory.

use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::Path,
};

/// Longest file that is read. `memory.stat` of recent kernels has about 3 KiB.
const LONGEST: usize = 16 << 10;

/// Largest number of ancestor groups that are considered; deeper nesting is ignored.
const DEEPEST: usize = 16;

/// The window over which stalls are measured, in nanoseconds.
const STALL_WINDOW_NS: u64 = 2_000_000_000;

/// One reading of the memory of the machine, a control group or a set of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReading {
    /// Time of the reading, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Bytes that can be allocated without swapping.
    pub available_bytes: u64,
    /// Total memory in bytes.
    pub total_bytes: u64,
    /// Free swap in bytes.
    pub swap_free_bytes: u64,
    /// Total swap in bytes.
    pub swap_total_bytes: u64,
    /// Memory of `tmpfs` and shared memory in bytes.
    pub shmem_bytes: u64,
    /// Share of the last seconds in which all tasks waited for memory (PSI `full`), 0 to 1; absent if the
    /// kernel does not report it.
    pub stalled: Option<f64>,
}

impl MemoryReading {
    /// Returns the bytes that can still be allocated, including free swap.
    pub fn available_with_swap(&self) -> u64 {
        self.available_bytes.saturating_add(self.swap_free_bytes)
    }
}

/// A file that is kept open.
#[derive(Debug)]
struct OpenFile(File);

impl OpenFile {
    fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    fn optional(path: &Path) -> Option<Self> {
        Self::open(path).ok()
    }

    fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let length = self.0.read_at(buffer, 0).ok()?;
        Some(&buffer[..length])
    }

    /// Reads a single number; `None` for `max`.
    fn number(&self, buffer: &mut [u8]) -> Option<u64> {
        number(self.read(buffer)?)
    }
}

/// Returns the number at the start of a text, after blanks.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    value
}

/// Returns the number after `key` at the start of a line.
fn field(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(key))?;
    number(&line[key.len()..])
}

/// Measures how long tasks stall for memory (PSI `full`, `Documentation/accounting/psi.rst`).
#[derive(Debug)]
struct PressureReader {
    file: Option<OpenFile>,
    /// Start of the window, and the total in microseconds at that time.
    since: Option<(u64, u64)>,
    share: Option<f64>,
}

impl PressureReader {
    fn new(path: &Path) -> Self {
        Self { file: OpenFile::optional(path), since: None, share: None }
    }

    fn read(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<f64> {
        let text = self.file.as_ref()?.read(buffer)?;
        let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"full"))?;
        let at = line.windows(6).position(|word| word == b"total=")?;
        let total = number(&line[at + 6..])?;
        match self.since {
            Some((at, before)) if now_ns.saturating_sub(at) < STALL_WINDOW_NS => {
                // The share so far replaces the last result at once if it is higher. It is computed as if no
                // further stall followed in this window.
                let share = total.saturating_sub(before) as f64 * 1e3 / STALL_WINDOW_NS as f64;
                self.share = Some(self.share.unwrap_or(0.0).max(share).min(1.0));
            }
            Some((at, before)) => {
                let share = total.saturating_sub(before) as f64 * 1e3 / now_ns.saturating_sub(at) as f64;
                (self.share, self.since) = (Some(share.min(1.0)), Some((now_ns, total)));
            }
            None => self.since = Some((now_ns, total)),
        }
        self.share
    }
}

/// The memory of the machine.
#[derive(Debug)]
pub struct MachineMemory {
    meminfo: OpenFile,
    stalls: PressureReader,
    buffer: Box<[u8; LONGEST]>,
}

impl MachineMemory {
    /// Opens the files below `root`.
    ///
    /// # Errors
    /// `proc/meminfo` cannot be read, or has no `MemAvailable` (before Linux 3.14).
    pub fn open(root: &Path) -> io::Result<Self> {
        let path = root.join("proc/meminfo");
        let unreadable =
            |error: io::Error| io::Error::other(format!("cannot read {}: {error}", path.display()));
        let meminfo = OpenFile::open(&path).map_err(unreadable)?;
        let stalls = PressureReader::new(&root.join("proc/pressure/memory"));
        let mut machine = Self { meminfo, stalls, buffer: Box::new([0; LONGEST]) };
        match machine.meminfo.read(&mut *machine.buffer).and_then(|text| field(text, b"MemAvailable:")) {
            Some(_) => Ok(machine),
            None => Err(io::Error::other(format!("{} has no MemAvailable", path.display()))),
        }
    }

    /// Whether the kernel reports stalls.
    pub fn has_pressure(&self) -> bool {
        self.stalls.file.is_some()
    }

    /// Takes a reading.
    pub fn read(&mut self, now_ns: u64) -> Option<MemoryReading> {
        let text = self.meminfo.read(&mut *self.buffer)?;
        let kib = |key: &[u8]| field(text, key).map(|kib| kib << 10);
        let mut reading = MemoryReading {
            at_ns: now_ns,
            available_bytes: kib(b"MemAvailable:")?,
            total_bytes: kib(b"MemTotal:")?,
            swap_free_bytes: kib(b"SwapFree:").unwrap_or(0),
            swap_total_bytes: kib(b"SwapTotal:").unwrap_or(0),
            shmem_bytes: kib(b"Shmem:").unwrap_or(0),
            stalled: None,
        };
        reading.stalled = self.stalls.read(now_ns, &mut *self.buffer);
        Some(reading)
    }
}

/// A group or one of its ancestors, whose limit bounds the memory of the group.
#[derive(Debug)]
struct GroupLimit {
    usage: OpenFile,
    limit: OpenFile,
    stat: OpenFile,
    swap_usage: Option<OpenFile>,
    swap_limit: Option<OpenFile>,
    is_unified: bool,
}

/// The memory of a control group.
#[derive(Debug)]
pub struct GroupMemory {
    bounds: Vec<GroupLimit>,
    meminfo: Option<OpenFile>,
    stalls: PressureReader,
    buffer: Box<[u8; LONGEST]>,
}

impl GroupMemory {
    /// Opens the files of the group in `folder`, which is below the mount point `mount` of the memory
    /// controller, and of its ancestors.
    ///
    /// # Errors
    /// The group's files cannot be read; the message names the directory.
    pub fn open(folder: &Path, mount: &Path) -> io::Result<Self> {
        let mut bounds = Vec::new();
        for folder in folder.ancestors().take_while(|path| path.starts_with(mount)).take(DEEPEST) {
            match GroupLimit::open(folder) {
                Ok(bound) => bounds.push(bound),
                // The root of version 2 has no such files.
                Err(_) if !bounds.is_empty() => break,
                Err(error) => {
                    let what =
                        format!("cannot read the memory of the control group {}: {error}", folder.display());
                    return Err(io::Error::other(what));
                }
            }
        }
        let stalls = PressureReader::new(&folder.join("memory.pressure"));
        let meminfo = OpenFile::optional(Path::new("/proc/meminfo"));
        Ok(Self { bounds, meminfo, stalls, buffer: Box::new([0; LONGEST]) })
    }

    /// Whether the kernel reports stalls for the group.
    pub fn has_pressure(&self) -> bool {
        self.stalls.file.is_some()
    }

    /// Takes a reading for the tightest limit of the group and its ancestors. Page cache that can be
    /// reclaimed counts as available. `None` if the group was removed or no limit is set.
    pub fn read(&mut self, now_ns: u64) -> Option<MemoryReading> {
        let buffer = &mut *self.buffer;
        // A group has at most the swap of the machine.
        let swap = self.meminfo.as_ref().and_then(|file| {
            let text = file.read(buffer)?;
            Some((field(text, b"SwapFree:")? << 10, field(text, b"SwapTotal:")? << 10))
        });
        let swap = swap.unwrap_or((0, 0));
        let readings = self.bounds.iter().filter_map(|bound| bound.read(buffer, swap));
        let mut reading = readings.min_by_key(MemoryReading::available_with_swap)?;
        // Growth of shared memory is that of the group itself, even if the limit is an ancestor's.
        reading.shmem_bytes = self.bounds.first()?.shmem(buffer);
        reading.at_ns = now_ns;
        reading.stalled = self.stalls.read(now_ns, buffer);
        Some(reading)
    }
}

impl GroupLimit {
    fn open(folder: &Path) -> io::Result<Self> {
        let is_unified = folder.join("memory.current").exists();
        let (usage, limit, swap_usage, swap_limit) = if is_unified {
            ("memory.current", "memory.max", "memory.swap.current", "memory.swap.max")
        } else {
            let both = ("memory.memsw.usage_in_bytes", "memory.memsw.limit_in_bytes");
            ("memory.usage_in_bytes", "memory.limit_in_bytes", both.0, both.1)
        };
        Ok(Self {
            usage: OpenFile::open(&folder.join(usage))?,
            limit: OpenFile::open(&folder.join(limit))?,
            stat: OpenFile::open(&folder.join("memory.stat"))?,
            swap_usage: OpenFile::optional(&folder.join(swap_usage)),
            swap_limit: OpenFile::optional(&folder.join(swap_limit)),
            is_unified,
        })
    }

    /// Returns `None` without a limit. `swap` is that of the machine: free and total.
    fn read(&self, buffer: &mut [u8], swap: (u64, u64)) -> Option<MemoryReading> {
        // Version 1 reports "no limit" as the largest multiple of the page size.
        let limit = self.limit.number(buffer).filter(|&limit| limit < 1 << 60)?;
        let usage = self.usage.number(buffer)?;
        let cache = self.cache(buffer);
        let mut number = |file: &Option<OpenFile>| file.as_ref().and_then(|file| file.number(buffer));
        let (used, most) =
            (number(&self.swap_usage), number(&self.swap_limit).filter(|&most| most < 1 << 60));
        let mut left = limit.saturating_sub(usage);
        let (mut swap_free, mut swap_total) = swap;
        match (self.is_unified, used, most) {
            (true, Some(used), Some(most)) => {
                swap_free = swap_free.min(most.saturating_sub(used));
                swap_total = swap_total.min(most);
            }
            // Version 1 limits the sum of memory and swap.
            (false, Some(both), Some(most)) => {
                left = left.min(most.saturating_sub(both));
                swap_total = swap_total.min(most.saturating_sub(limit));
                swap_free = swap_free.min(swap_total.saturating_sub(both.saturating_sub(usage)));
            }
            (_, Some(_), None) => {}
            // Swap is not charged to groups.
            (_, None, _) => (swap_free, swap_total) = (0, 0),
        }
        let available = left.saturating_add(cache).min(limit);
        Some(MemoryReading {
            available_bytes: available,
            total_bytes: limit,
            swap_free_bytes: swap_free,
            swap_total_bytes: swap_total,
            ..MemoryReading::default()
        })
    }

    /// Returns the page cache that the kernel can reclaim: file pages on its LRU lists, which exclude shared
    /// memory, and in version 2 reclaimable slab (dentries and inodes).
    fn cache(&self, buffer: &mut [u8]) -> u64 {
        let Some(text) = self.stat.read(buffer) else { return 0 };
        let keys: &[&[u8]] = if self.is_unified {
            &[b"inactive_file ", b"active_file ", b"slab_reclaimable "]
        } else {
            &[b"total_inactive_file ", b"total_active_file "]
        };
        keys.iter().filter_map(|key| field(text, key)).sum()
    }

    fn shmem(&self, buffer: &mut [u8]) -> u64 {
        let key: &[u8] = if self.is_unified { b"shmem " } else { b"total_shmem " };
        self.stat.read(buffer).and_then(|text| field(text, key)).unwrap_or(0)
    }
}

/// A PSI trigger: wakes a waiting thread when tasks have waited for memory for `stall_us` of `window_us`
/// microseconds.
#[derive(Debug)]
pub struct PressureTrigger(File);

impl PressureTrigger {
    /// Sets a trigger on the file `/proc/pressure/memory`, or on `memory.pressure` of a group. `None` if the
    /// kernel does not support triggers or does not permit one (before Linux 6.4 without `CAP_SYS_RESOURCE`).
    pub fn set(path: &Path, stall_us: u32, window_us: u32) -> Option<Self> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        let words = format!("some {stall_us} {window_us}\0");
        file.write_at(words.as_bytes(), 0).ok()?;
        Some(Self(file))
    }
}

impl AsFd for PressureTrigger {
    /// Becomes ready for `POLLPRI`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
