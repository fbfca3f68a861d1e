//! Memory that processes hold in addition to their own pages, as far as the kernel shows it: files and shared
//! memory in `tmpfs` by open files and mappings, System V segments by their creators, pipes and sockets by
//! their contents, and the charge of control groups with one process.
//!
//! Paths given by a process are never followed. Files are examined through the descriptors in `/proc/PID/fd`,
//! without opening them and without contacting a server (`AT_STATX_DONT_SYNC`). Pipes and sockets are
//! examined through a copy of their descriptor (`pidfd_getfd(2)`, Linux 5.6), which needs permission to trace
//! the process. All of this may take long on a machine with many processes, and it waits for `mmap_lock`.

mod files;
mod group_charge;
mod segments;

use crate::decision::memory_objects::{Holder, ObjectMap};
use files::Classifier;
use manycore_linux::tasks;
use manycore_topology::{SysTree, cgroup::Hierarchies};
use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// `PF_KTHREAD` (`include/linux/sched.h`) in the flags of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A scan stops after this time with what it has found.
const BUDGET: Duration = Duration::from_secs(1);

/// Scans all processes.
#[derive(Debug)]
pub struct Scanner {
    classifier: Classifier,
    hierarchies: Hierarchies,
    tree: SysTree,
    /// Start of the last scan.
    before: SystemTime,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// The objects that were found.
    pub objects: ObjectMap,
    /// Whether all processes were scanned.
    pub is_complete: bool,
}

/// A process that is scanned.
struct ScannedProcess {
    holder: Holder,
    /// KiB of shared memory that it has mapped.
    shmem_kib: u64,
}

impl Scanner {
    /// Creates a scanner.
    ///
    /// # Errors
    /// No shared memory can be created here. Its device is needed to recognise that of others.
    pub fn new() -> io::Result<Self> {
        let tree = SysTree::open(Path::new("/")).map_err(io::Error::other)?;
        let hierarchies = Hierarchies::read(&tree);
        Ok(Self { classifier: Classifier::new()?, hierarchies, tree, before: UNIX_EPOCH })
    }

    /// Scans all processes.
    pub fn scan(&mut self) -> Scan {
        let started = Instant::now();
        let now = SystemTime::now();
        self.classifier.begin(std::mem::replace(&mut self.before, now));
        let mut scan = Scan { is_complete: true, ..Scan::default() };
        let mut groups = group_charge::Groups::default();
        let mut all = Vec::new();
        for pid in tasks::all() {
            if started.elapsed() > BUDGET {
                scan.is_complete = false;
                break;
            }
            let Some(process) = ScannedProcess::of(pid) else { continue };
            self.classifier.add_process(&process, &mut scan.objects);
            groups.add(&self.tree, pid, &process.holder);
            all.push(process.holder);
        }
        segments::add_segments(&all, &mut scan.objects);
        groups.add_charges(&self.hierarchies, &mut scan.objects);
        scan
    }
}

impl ScannedProcess {
    /// Returns `None` for zombies and kernel threads.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let close = stat.iter().rposition(|&byte| byte == b')')?;
        let text = String::from_utf8_lossy(&stat[close + 1..]).into_owned();
        // Fields from the third on.
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at - 3)?.parse::<u64>().ok();
        if matches!(words.first(), Some(&("Z" | "X" | "x"))) || number(9)? & PF_KTHREAD != 0 {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let holder = Holder {
            pid,
            start: number(22)?,
            user: field("Uid:")? as u32,
            session: number(6)? as u32,
            writes: false,
        };
        Some(Self { holder, shmem_kib: field("RssShmem:").unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests;
