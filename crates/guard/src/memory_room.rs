//! How much memory can still be had, read again and again without allocating: of the machine (`/proc/meminfo`), of a
//! control group (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`).
//!
//! Files are kept open and read in place. None of them waits for a lock that somebody holds who waits for memory.

use crate::decision::stage::Reading;
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::Path,
};

/// Longest file that is read: `memory.stat` of the latest kernels has some 3 KiB.
const LONGEST: usize = 16 << 10;

/// Groups above one that is watched: deeper nesting is not looked at.
const DEEPEST: usize = 16;

/// The time that stalls are told over, in nanoseconds.
const STALL_WINDOW_NS: u64 = 2_000_000_000;

/// A file that is kept open.
#[derive(Debug)]
struct Kept(File);

impl Kept {
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

    /// A single number; `max` is none.
    fn number(&self, buffer: &mut [u8]) -> Option<u64> {
        number(self.read(buffer)?)
    }
}

/// The number that a text begins with, after blanks.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    value
}

/// The number after `key` at the beginning of a line.
fn field(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(key))?;
    number(&line[key.len()..])
}

/// Where tasks stall for memory (PSI `full`, `Documentation/accounting/psi.rst`).
#[derive(Debug)]
struct Stalls {
    file: Option<Kept>,
    /// When the window began, and the total in microseconds then.
    since: Option<(u64, u64)>,
    share: Option<f64>,
}

impl Stalls {
    fn new(path: &Path) -> Self {
        Self { file: Kept::optional(path), since: None, share: None }
    }

    fn read(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<f64> {
        let text = self.file.as_ref()?.read(buffer)?;
        let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"full"))?;
        let at = line.windows(6).position(|word| word == b"total=")?;
        let total = number(&line[at + 6..])?;
        match self.since {
            Some((at, before)) if now_ns.saturating_sub(at) < STALL_WINDOW_NS => {
                // What came since counts at once where it is more: full of the window that began is what was told last.
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

/// The machine.
#[derive(Debug)]
pub struct MachineRoom {
    meminfo: Kept,
    stalls: Stalls,
    buffer: Box<[u8; LONGEST]>,
}

impl MachineRoom {
    /// Opens the files below `root`.
    ///
    /// # Errors
    /// `proc/meminfo` cannot be read, or has no `MemAvailable` (before Linux 3.14).
    pub fn open(root: &Path) -> io::Result<Self> {
        let path = root.join("proc/meminfo");
        let unreadable =
            |error: io::Error| io::Error::other(format!("cannot read {}: {error}", path.display()));
        let meminfo = Kept::open(&path).map_err(unreadable)?;
        let stalls = Stalls::new(&root.join("proc/pressure/memory"));
        let mut machine = Self { meminfo, stalls, buffer: Box::new([0; LONGEST]) };
        match machine.meminfo.read(&mut *machine.buffer).and_then(|text| field(text, b"MemAvailable:")) {
            Some(_) => Ok(machine),
            None => Err(io::Error::other(format!("{} tells no MemAvailable", path.display()))),
        }
    }

    /// Whether the kernel tells stalls.
    pub fn tells_stalls(&self) -> bool {
        self.stalls.file.is_some()
    }

    /// What is left now.
    pub fn read(&mut self, now_ns: u64) -> Option<Reading> {
        let text = self.meminfo.read(&mut *self.buffer)?;
        let kib = |key: &[u8]| field(text, key).map(|kib| kib << 10);
        let mut reading = Reading {
            at_ns: now_ns,
            available: kib(b"MemAvailable:")?,
            total: kib(b"MemTotal:")?,
            swap_free: kib(b"SwapFree:").unwrap_or(0),
            swap_total: kib(b"SwapTotal:").unwrap_or(0),
            shmem: kib(b"Shmem:").unwrap_or(0),
            stalled: None,
        };
        reading.stalled = self.stalls.read(now_ns, &mut *self.buffer);
        Some(reading)
    }
}

/// A group or one above it, whose limit bounds what the group can have.
#[derive(Debug)]
struct Bound {
    usage: Kept,
    limit: Kept,
    stat: Kept,
    swap_usage: Option<Kept>,
    swap_limit: Option<Kept>,
    is_unified: bool,
}

/// A control group.
#[derive(Debug)]
pub struct GroupRoom {
    bounds: Vec<Bound>,
    meminfo: Option<Kept>,
    stalls: Stalls,
    buffer: Box<[u8; LONGEST]>,
}

impl GroupRoom {
    /// Opens the files of the group in `folder`, which is below the mount point `mount` of the memory controller, and
    /// of the groups above it.
    ///
    /// # Errors
    /// The group's files cannot be read; names the folder.
    pub fn open(folder: &Path, mount: &Path) -> io::Result<Self> {
        let mut bounds = Vec::new();
        for folder in folder.ancestors().take_while(|path| path.starts_with(mount)).take(DEEPEST) {
            match Bound::open(folder) {
                Ok(bound) => bounds.push(bound),
                // The root of version 2 has no such files.
                Err(_) if !bounds.is_empty() => break,
                Err(error) => {
                    let what = format!("cannot read the memory of the group {}: {error}", folder.display());
                    return Err(io::Error::other(what));
                }
            }
        }
        let stalls = Stalls::new(&folder.join("memory.pressure"));
        let meminfo = Kept::optional(Path::new("/proc/meminfo"));
        Ok(Self { bounds, meminfo, stalls, buffer: Box::new([0; LONGEST]) })
    }

    /// Whether the kernel tells stalls of it.
    pub fn tells_stalls(&self) -> bool {
        self.stalls.file.is_some()
    }

    /// What is left now of the tightest limit of it and those above; `None` where the group is gone, or no limit is
    /// set. Page cache that can be given up counts as left.
    pub fn read(&mut self, now_ns: u64) -> Option<Reading> {
        let buffer = &mut *self.buffer;
        // A group has no more swap than the machine.
        let swap = self.meminfo.as_ref().and_then(|file| {
            let text = file.read(buffer)?;
            Some((field(text, b"SwapFree:")? << 10, field(text, b"SwapTotal:")? << 10))
        });
        let swap = swap.unwrap_or((0, 0));
        let readings = self.bounds.iter().filter_map(|bound| bound.read(buffer, swap));
        let mut reading = readings.min_by_key(Reading::room)?;
        // Growth is the group's own, whoever bounds it.
        reading.shmem = self.bounds.first()?.shmem(buffer);
        reading.at_ns = now_ns;
        reading.stalled = self.stalls.read(now_ns, buffer);
        Some(reading)
    }
}

impl Bound {
    fn open(folder: &Path) -> io::Result<Self> {
        let is_unified = folder.join("memory.current").exists();
        let (usage, limit, swap_usage, swap_limit) = if is_unified {
            ("memory.current", "memory.max", "memory.swap.current", "memory.swap.max")
        } else {
            let both = ("memory.memsw.usage_in_bytes", "memory.memsw.limit_in_bytes");
            ("memory.usage_in_bytes", "memory.limit_in_bytes", both.0, both.1)
        };
        Ok(Self {
            usage: Kept::open(&folder.join(usage))?,
            limit: Kept::open(&folder.join(limit))?,
            stat: Kept::open(&folder.join("memory.stat"))?,
            swap_usage: Kept::optional(&folder.join(swap_usage)),
            swap_limit: Kept::optional(&folder.join(swap_limit)),
            is_unified,
        })
    }

    /// `None` without a limit. `swap` is the machine's: free, and all of it.
    fn read(&self, buffer: &mut [u8], swap: (u64, u64)) -> Option<Reading> {
        // Version 1 writes "no limit" as the largest multiple of a page.
        let limit = self.limit.number(buffer).filter(|&limit| limit < 1 << 60)?;
        let usage = self.usage.number(buffer)?;
        let cache = self.cache(buffer);
        let mut number = |file: &Option<Kept>| file.as_ref().and_then(|file| file.number(buffer));
        let (used, most) =
            (number(&self.swap_usage), number(&self.swap_limit).filter(|&most| most < 1 << 60));
        let mut left = limit.saturating_sub(usage);
        let (mut swap_free, mut swap_total) = swap;
        match (self.is_unified, used, most) {
            (true, Some(used), Some(most)) => {
                swap_free = swap_free.min(most.saturating_sub(used));
                swap_total = swap_total.min(most);
            }
            // Memory and swap together are limited there.
            (false, Some(both), Some(most)) => {
                left = left.min(most.saturating_sub(both));
                swap_total = swap_total.min(most.saturating_sub(limit));
                swap_free = swap_free.min(swap_total.saturating_sub(both.saturating_sub(usage)));
            }
            (_, Some(_), None) => {}
            // Swap is not accounted to groups.
            (_, None, _) => (swap_free, swap_total) = (0, 0),
        }
        let available = left.saturating_add(cache).min(limit);
        Some(Reading { available, total: limit, swap_free, swap_total, ..Reading::default() })
    }

    /// Page cache that the kernel would give up: file pages on its lists, which shared memory is not on, and in version 2
    /// names and inodes of files.
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

/// Wakes a sleeper when tasks have waited for memory for `stall_us` of `window_us` microseconds (a PSI trigger). `None`
/// where the kernel has none, or does not let us (below Linux 6.4 without `CAP_SYS_RESOURCE`).
#[derive(Debug)]
pub struct Bell(File);

impl Bell {
    /// On the file `proc/pressure/memory` below `root`, or `memory.pressure` of a group.
    pub fn set(path: &Path, stall_us: u32, window_us: u32) -> Option<Self> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        let words = format!("some {stall_us} {window_us}\0");
        file.write_at(words.as_bytes(), 0).ok()?;
        Some(Self(file))
    }
}

impl AsFd for Bell {
    /// Becomes ready for `POLLPRI`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
