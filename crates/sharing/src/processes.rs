//! The processes that are watched, and their threads.

use manycore_linux::{process_reader::ProcessReader, tasks};
use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

/// The list of threads is read again after this time even if no thread was created: descendants of a process may be
/// in another namespace of process ids, whose last id is not known here.
const LONGEST: Duration = Duration::from_millis(500);

/// Where the watched processes begin. Descendants are watched as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedRoots {
    /// These processes.
    Processes(Vec<u32>),
    /// The children of a process but these, and not the process itself. For a subreaper, this includes daemons.
    ChildrenOf {
        /// The process.
        pid: u32,
        /// Children that are not watched, and with them their descendants.
        except: BTreeSet<u32>,
    },
}

impl WatchedRoots {
    /// Returns the children of this process that are started from now on.
    pub fn new_children() -> Self {
        let pid = std::process::id();
        Self::ChildrenOf { pid, except: tasks::children(pid).into_iter().collect() }
    }

    fn processes(&self) -> BTreeSet<u32> {
        match self {
            Self::Processes(pids) => tasks::with_descendants(pids),
            Self::ChildrenOf { pid, except } => {
                let mut roots = tasks::children(*pid);
                roots.retain(|child| !except.contains(child));
                tasks::with_descendants(&roots)
            }
        }
    }
}

/// The threads of the watched processes, read again when a thread was created anywhere on the machine.
#[derive(Debug)]
pub struct WatchedThreads {
    roots: WatchedRoots,
    reader: ProcessReader,
    /// The id that was given last before the threads were listed.
    last_id: Option<u32>,
    listed: Option<Instant>,
}

impl WatchedThreads {
    /// Prepares to list the threads of `roots`.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn new(roots: WatchedRoots) -> io::Result<Self> {
        Ok(Self { roots, reader: ProcessReader::open(Path::new("/"))?, last_id: None, listed: None })
    }

    /// Returns the processes and threads (pid, tid) that exist now, if a thread may have been created since the last
    /// call; otherwise `None`.
    pub fn changed(&mut self) -> Option<BTreeSet<(u32, u32)>> {
        // Before the list is read: a thread that is created meanwhile is found next time.
        let last_id = self.reader.last_id();
        let is_recent = self.listed.is_some_and(|listed| listed.elapsed() < LONGEST);
        if is_recent && last_id.is_some() && last_id == self.last_id {
            return None;
        }
        (self.last_id, self.listed) = (last_id, Some(Instant::now()));
        let of_process = |pid: u32| threads(pid).into_iter().map(move |tid| (pid, tid));
        Some(self.roots.processes().into_iter().flat_map(of_process).collect())
    }
}

/// Returns the threads of a process. Zombies among them have no state later.
fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
