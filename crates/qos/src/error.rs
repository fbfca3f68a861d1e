//! Why limits cannot be shown, set, checked or undone.

use crate::{translate::RequestError, write::WriteError};
use manycore_linux::{resctrl::FindError, targets::TargetError};
use manycore_topology::{CpuSet, Error as TopologyError};

/// Why an operation on limits failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no usable resctrl file system.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The files of the system or of resctrl cannot be opened or parsed.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The target does not exist, or several things have its name.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No limit is requested.
    #[error("no limit is requested: at least one of bandwidth, priority or cache is needed")]
    NoLimit,
    /// The requested limits cannot be set here.
    #[error("{}", join(.0.iter().map(ToString::to_string)))]
    Request(Vec<RequestError>),
    /// A group cannot have this name.
    #[error("a group cannot be named {name:?}: {why}")]
    GroupName {
        /// The requested name.
        name: String,
        /// Why it is not possible.
        why: &'static str,
    },
    /// There is no group of this name.
    #[error("there is no group {name:?}; {instead}")]
    NoGroup {
        /// The requested name.
        name: String,
        /// The groups that exist.
        instead: String,
    },
    /// A monitoring group has no limits of its own.
    #[error("{name} is a monitoring group, set the limits of {parent} instead")]
    MonitoringGroup {
        /// The requested group.
        name: String,
        /// The group whose limits apply to it.
        parent: String,
    },
    /// The domain has several groups, of which one has to be named.
    #[error(
        "libvirt has made {} groups for {domain}, each for some of its virtual CPUs: {}; choose one",
        .groups.len(), .groups.join(", ")
    )]
    SeveralGroups {
        /// The libvirt domain.
        domain: String,
        /// Its groups.
        groups: Vec<String>,
    },
    /// A name was requested for a group that has one.
    #[error("the group {0} exists already and cannot be renamed")]
    Rename(String),
    /// Another name was requested for the group that an earlier request created for this target.
    #[error("the group {group} was made for this target before and keeps its name")]
    KeepsName {
        /// The existing group.
        group: String,
        /// The requested name.
        name: String,
    },
    /// New tasks of the target cannot be moved into a group that manycore did not create.
    #[error("no tasks are moved into the group {0}, which exists already")]
    NotFollowed(String),
    /// A new group cannot have the name of an existing one.
    #[error("the group {0} exists already")]
    GroupExists(String),
    /// The hardware supports no further group.
    #[error(
        "the hardware has room for {count} {what}, including the default group, and there are {count}: remove one \
         (listed by 'manycore qos show')"
    )]
    NoGroupLeft {
        /// Number of existing groups.
        count: usize,
        /// What is counted: `groups`.
        what: &'static str,
    },
    /// The requested CPUs cannot be limited.
    #[error("{}; online are {}", absent_cpus(.absent), .online.brief())]
    Cpus {
        /// The requested CPUs.
        requested: CpuSet,
        /// Those that are not online; empty if no CPU was requested.
        absent: CpuSet,
        /// CPUs that are online.
        online: CpuSet,
    },
    /// The kernel refused a change.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The target has ended while its limits were set.
    #[error("{0} has ended meanwhile")]
    TargetEnded(String),
    /// A signal was received.
    #[error("interrupted")]
    Interrupted,
    /// An error after which all changes were undone.
    #[error("{0}; all changes were undone")]
    Undone(Box<Self>),
    /// Some changes could not be undone.
    #[error("{0}")]
    NotUndone(String),
    /// The journals cannot be read or written.
    #[error("{0}")]
    Journal(String),
    /// manycore has not changed the group.
    #[error(
        "manycore has changed no group {0:?}: 'manycore qos show' lists the groups with their owners, and only the owner \
         can remove a group"
    )]
    NotOurs(String),
    /// Another process still manages the group.
    #[error("{journal} ({request}) is still running and undoes its own changes: stop it first")]
    Running {
        /// Name of the journal.
        journal: String,
        /// The request that the process carries out.
        request: String,
    },
    /// No group has a monitor.
    #[error(
        "{0} monitors nothing: no group has a readable file below mon_data (the CPU or the kernel does not support \
         monitoring)"
    )]
    NoMonitors(String),
    /// The requested NUMA node cannot be loaded.
    #[error("no such node with memory and usable CPUs")]
    Node(u32),
    /// No NUMA node can be loaded.
    #[error("no node has both memory and usable CPUs")]
    NoNode,
    /// The load that checks limits failed.
    #[error(transparent)]
    Experiment(#[from] manycore_experiment::Error),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same error, after all changes were undone.
    #[must_use]
    pub fn undone(self) -> Self {
        Self::Undone(Box::new(self))
    }
}

/// Joins reasons; a reason that several limits have is given once.
pub fn join(reasons: impl Iterator<Item = String>) -> String {
    let mut reasons: Vec<String> = reasons.collect();
    reasons.dedup();
    reasons.join("; also, ")
}

fn absent_cpus(absent: &CpuSet) -> String {
    if absent.is_empty() { "an empty list".to_owned() } else { format!("{} not online", absent.brief()) }
}
