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
use manycore_linux::{
    process_reader::{ProcessReader, ProcessStat},
    tasks,
};
use manycore_topology::{SysTree, cgroup::Hierarchies};
use std::{
    io,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A scan stops after this time with what it has found.
const BUDGET: Duration = Duration::from_secs(1);

/// Scans all processes.
#[derive(Debug)]
pub struct Scanner {
    classifier: Classifier,
    hierarchies: Hierarchies,
    tree: SysTree,
    reader: ProcessReader,
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
        let reader = ProcessReader::open(Path::new("/"))?;
        Ok(Self { classifier: Classifier::new()?, hierarchies, tree, reader, before: UNIX_EPOCH })
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
            let Some(process) = ScannedProcess::read(&mut self.reader, pid) else { continue };
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
    fn read(reader: &mut ProcessReader, pid: u32) -> Option<Self> {
        let stat = reader.stat(pid).filter(|stat| !stat.has_ended && !stat.is_kernel)?;
        let status = reader.status(pid, stat.reporting_thread)?;
        let ProcessStat { start, session, .. } = stat;
        let holder = Holder { pid, start, user: status.user, session, writes: false };
        Some(Self { holder, shmem_kib: u64::from(status.shmem_kib) })
    }
}

#[cfg(test)]
mod tests;
