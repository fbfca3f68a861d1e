//! Why a change of the system can fail.

use manycore_linux::absent_process::AbsentProcess;
use manycore_placement::PlacementError;
use manycore_topology::Error as TopologyError;
use std::{io, path::PathBuf};

/// Why a change of the system failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot meet the requested placement.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The memory policy needs memory nodes, and the plan has none.
    #[error("memory policy {policy}: the plan has no memory nodes; name nodes with {policy}=LIST")]
    NoMemoryNodes {
        /// The policy requested.
        policy: String,
    },
    /// A memory policy of running processes that only a process itself can set.
    #[error(
        "memory policy {policy}: a running process keeps its memory policy; only bind can be applied, through a cpuset"
    )]
    KeepsMemoryPolicy {
        /// The policy requested.
        policy: String,
    },
    /// There is no process with this id, or it is hidden.
    #[error(transparent)]
    NoProcess(AbsentProcess),
    /// The process with this id has ended.
    #[error("process {pid} has ended")]
    ProcessEnded {
        /// The id.
        pid: u32,
    },
    /// The id is that of a thread.
    #[error("{pid} is a thread, not a process; pass the id of its process")]
    IsThread {
        /// The id.
        pid: u32,
    },
    /// The id is that of a kernel thread.
    #[error("{pid} ({name}) is a kernel thread and cannot be pinned; name a user process")]
    KernelThread {
        /// The id.
        pid: u32,
        /// The name of the thread.
        name: String,
    },
    /// A task may not be moved. Nothing is changed.
    #[error("{why}; nothing was changed")]
    CannotMove {
        /// The task and the reason.
        why: String,
    },
    /// The affinity of this process cannot be read.
    #[error("cannot read the affinity of this process: {0}")]
    OwnAffinity(io::Error),
    /// This process cannot become the parent of orphans of a command.
    #[error("cannot adopt orphans of the command: {0}")]
    AdoptOrphans(io::Error),
    /// A command cannot be started.
    #[error("cannot start {}: {}", .program.escape_debug(), cannot_start(.error))]
    CannotStart {
        /// The program.
        program: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// The cleanup process cannot be started.
    #[error("cannot start the cleanup process: {0}")]
    CleanupNotStarted(io::Error),
    /// The cleanup process has ended while it was needed.
    #[error("the cleanup process has ended unexpectedly ({0}); run again")]
    CleanupEnded(io::Error),
    /// Waiting for a process failed.
    #[error("cannot wait: {0}")]
    Wait(io::Error),
    /// No journal can be begun. Nothing is changed.
    #[error("cannot write a journal in {}: {error}; nothing was changed", .folder.display())]
    JournalUnwritable {
        /// The folder of the journals.
        folder: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
    /// A change cannot be recorded in the journal.
    #[error("cannot write the journal: {0}")]
    JournalWrite(io::Error),
    /// The journal is still in use by another part of this process, so nothing was restored.
    #[error("{journal} is still in use; run 'manycore undo {journal}' to restore")]
    JournalInUse {
        /// The name of the journal.
        journal: String,
    },
    /// The journal cannot be read, so nothing was restored.
    #[error("cannot read journal {journal}: {error}")]
    JournalUnreadable {
        /// The name of the journal.
        journal: String,
        /// The error of the system call.
        error: io::Error,
    },
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns whether the request is wrong, as opposed to the machine's state: another request can succeed.
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Placement(_)
                | Self::NoMemoryNodes { .. }
                | Self::KeepsMemoryPolicy { .. }
                | Self::NoProcess(_)
                | Self::ProcessEnded { .. }
                | Self::IsThread { .. }
                | Self::KernelThread { .. }
        )
    }
}

fn cannot_start(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        "there is no such program".to_owned()
    } else {
        error.to_string()
    }
}

/// Why no control group can be created. Placements and measurements go on without one.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// `/proc` or `/sys` cannot be opened.
    #[error(transparent)]
    Open(#[from] TopologyError),
    /// No hierarchy of control groups is mounted.
    #[error("no control groups are mounted")]
    NotMounted,
    /// The process has ended.
    #[error("it has ended")]
    Ended,
    /// The cpuset controller is not available to the group of the process.
    #[error("its control group has no cpuset controller")]
    NoCpuset,
    /// The kernel resets the affinities of tasks that enter the group.
    #[error("kernels before 6.2 reset the affinities of tasks that enter a cpuset")]
    ResetsAffinities,
    /// No group above this process lets its children use a controller.
    #[error(
        "no parent control group of this process enables the {0} controller for its children (cgroup.subtree_control)"
    )]
    NoController(String),
    /// The new group would escape a limit of the group of this process.
    #[error("{0} has a limit, which would not apply to a group beside it")]
    Escapes(PathBuf),
    /// The kernel refused it.
    #[error("no {what} can be created in {}: {error}", .parent.display())]
    Create {
        /// `control group`, `cpuset`.
        what: &'static str,
        /// Directory of the parent group.
        parent: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}
