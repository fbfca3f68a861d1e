//! Reasons why a virtual machine cannot be planned, checked or watched.

use crate::{domain::DomainXmlError, remedy::Remedy};
use manycore_linux::{resctrl, targets::TargetError};
use manycore_placement::PlacementError;
use std::{io, time::Duration};

/// Reason why a request about virtual machines cannot be met.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The domain cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// virsh gave no XML of the domain.
    #[error(transparent)]
    Virsh(#[from] VirshError),
    /// The XML that libvirt has for a domain cannot be read.
    #[error("domain '{name}' cannot be checked: {error}")]
    Xml {
        /// Name of the domain as the user gave it.
        name: String,
        /// What is wrong with the XML.
        error: DomainXmlError,
    },
    /// No emulator runs the domain, or several match.
    #[error("{error}; if it is defined but not running, start it: virsh start {name}")]
    NotRunning {
        /// Name of the domain as the user gave it.
        name: String,
        /// What was found instead.
        error: TargetError,
    },
    /// Threads of the emulator cannot be identified as virtual CPUs.
    #[error(
        "threads of domain '{name}' (pid {pid}) have no names, so that virtual CPUs cannot be identified: start QEMU \
         with -name {name},debug-threads=on, as libvirt does"
    )]
    UnnamedThreads {
        /// Name of the domain as the user gave it.
        name: String,
        /// Process id of the emulator.
        pid: u32,
    },
    /// The files of the system cannot be read.
    #[error(transparent)]
    System(#[from] manycore_topology::Error),
    /// The directory given as resctrl is not one.
    #[error(transparent)]
    NoResctrl(#[from] resctrl::FindError),
    /// The mounted resctrl cannot be read.
    #[error(transparent)]
    Resctrl(manycore_topology::Error),
}

/// Reason why a domain cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The XML cannot be planned.
    #[error(transparent)]
    Xml(#[from] DomainXmlError),
    /// The machine cannot meet the requested placement.
    #[error("{0}")]
    Placement(PlacementError),
    /// There are more virtual CPUs than CPUs.
    #[error("{vcpus} virtual CPUs cannot have a CPU each on {cpus} CPUs: let them share, or reduce <vcpu>")]
    TooFewCpus {
        /// Virtual CPUs to place.
        vcpus: usize,
        /// CPUs available for them.
        cpus: usize,
    },
    /// Another request that this machine or this libvirt cannot meet.
    #[error("{reason}")]
    Unsupported {
        /// What was requested, what was found, and what to do.
        reason: String,
        /// The part of the request that can be changed, if there is one.
        remedy: Option<Remedy>,
    },
}

impl PlanError {
    /// Returns a [`PlanError::Unsupported`] without a remedy in the request.
    pub(crate) fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported { reason: reason.into(), remedy: None }
    }

    /// Returns a [`PlanError::Unsupported`] that another value of that part of the request can resolve.
    pub(crate) fn resolved_by(remedy: Remedy, reason: impl Into<String>) -> Self {
        Self::Unsupported { reason: reason.into(), remedy: Some(remedy) }
    }

    /// Returns the part of the request that can be changed so that the domain can be planned.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::TooFewCpus { .. } => Some(Remedy::Overcommit),
            Self::Unsupported { remedy, .. } => *remedy,
            Self::Xml(_) | Self::Placement(_) => None,
        }
    }
}

/// Reason why virsh gave no result.
#[derive(Debug, thiserror::Error)]
pub enum VirshError {
    /// virsh is not installed or cannot be run.
    #[error("cannot run virsh ({0}): install libvirt-clients (Debian) or libvirt-client (openEuler)")]
    NotInstalled(io::Error),
    /// virsh does not end.
    #[error(
        "virsh got no answer from libvirt after {0:?}: the daemon hangs, or waits for a domain that hangs; look at \
         'systemctl status libvirtd virtqemud' (domains keep running while it restarts)"
    )]
    Timeout(Duration),
    /// There is no daemon, or it refuses the connection.
    #[error(
        "virsh cannot reach libvirt: {0}; check that libvirtd or virtqemud is running and that you may connect to it"
    )]
    Unreachable(String),
    /// There is no such domain.
    #[error("libvirt has no domain '{0}' (virsh list --all lists the existing ones)")]
    NoDomain(String),
    /// Another error of virsh.
    #[error("virsh: {0}")]
    Other(String),
}

/// Reason why a text is not a value of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not a version.
    #[error("'{0}' is not a version; write it as 9.1 or 7.2.22")]
    Version(String),
    /// Not a share of a cache.
    #[error("'{0}' is not a cache share; write l3=50%, l3=4ways, l3code=8MiB or l3data=8MiB")]
    CacheShare(String),
    /// A share of the L2 cache.
    #[error(
        "{0}: libvirt supports only shares of the L3 cache; limit the L2 cache of the running domain through resctrl"
    )]
    L2Share(String),
}
