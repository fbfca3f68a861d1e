//! Reasons why light processes cannot be measured.

use manycore_experiment::spawning::Runtime;
use manycore_text::units;
use std::{fmt::Display, path::PathBuf};

/// Reason why light processes could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The memory limit up to which light processes are to be started is more than the available memory.
    #[error(
        "{} are more than {} ({memory_source}): choose a smaller limit",
        units::bytes(*.limit), units::bytes(*.available)
    )]
    LimitTooLarge {
        /// The requested limit in bytes.
        limit: u64,
        /// The available memory in bytes.
        available: u64,
        /// Source of the available memory.
        memory_source: String,
    },
    /// The runtime cannot be configured for the count.
    #[error("{} are too many: {limited_by} allows at most {}", units::count(*.count), units::count(*.max_count))]
    TooManyForRuntime {
        /// The requested count.
        count: u64,
        /// The largest count of the runtime.
        max_count: u64,
        /// What limits it.
        limited_by: &'static str,
    },
    /// The count is predicted to need more memory than is available.
    #[error("{}: {arithmetic}; request fewer, or let the limit of a control group stop them", .runtime.name())]
    TooManyForMemory {
        /// The runtime.
        runtime: Runtime,
        /// The prediction: what the count takes, and what may be used.
        arithmetic: String,
    },
    /// The count would take more than nine tenths of a limit of the whole machine.
    #[error(
        "{}: {count} are more than nine tenths of the {allowed} that {limit} allows ({limit_source}), and other \
         processes need some; request fewer, or raise the limit: {raise_command}",
        .runtime.name()
    )]
    TooManyForMachine {
        /// The runtime.
        runtime: Runtime,
        /// The requested count, with the name of the light processes.
        count: String,
        /// The number that the limit still allows.
        allowed: String,
        /// Name of the limit.
        limit: String,
        /// Where the limit is set.
        limit_source: String,
        /// The command that raises it.
        raise_command: String,
    },
    /// The file system has no space for the files.
    #[error(
        "{files} are more than nine tenths of the free space in {}: {free}; use another directory, or request fewer",
        .directory.display()
    )]
    TooManyFiles {
        /// The requested number of files and their size.
        files: String,
        /// Directory that would hold them.
        directory: PathBuf,
        /// The free space.
        free: String,
    },
    /// The available memory must be known but is not.
    #[error("the available memory is unknown on this system")]
    UnknownMemory,
    /// The memory must be limited but no control group can be created.
    #[error("a control group with a memory limit is needed: {0}")]
    NoMemoryGroup(String),
    /// The cleanup process cannot be started or does not answer.
    #[error(transparent)]
    Cleanup(#[from] manycore_control::Error),
    /// A file, program, permission or resource is missing.
    #[error("{0}")]
    Unavailable(String),
    /// The built-in light processes were not started by this program, or received a line that is not a command.
    #[error(
        "the built-in light processes are started by manycore itself (manycore spawn) and read commands from standard \
         input"
    )]
    NotStartedByTool,
    /// A runtime failed.
    #[error("{0}")]
    Failed(String),
    /// The measurement was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns an [`Error::Unavailable`] with this message.
    pub(crate) fn unavailable(message: impl Display) -> Self {
        Self::Unavailable(message.to_string())
    }

    /// Returns whether the request does not fit this machine; a smaller request may.
    pub fn is_too_large(&self) -> bool {
        matches!(
            self,
            Self::LimitTooLarge { .. }
                | Self::TooManyForRuntime { .. }
                | Self::TooManyForMemory { .. }
                | Self::TooManyForMachine { .. }
                | Self::TooManyFiles { .. }
        )
    }

    /// Returns whether this machine lacks something that the request needs.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::UnknownMemory | Self::NoMemoryGroup(_) | Self::Cleanup(_) | Self::Unavailable(_))
    }
}

impl From<manycore_experiment::Error> for Error {
    fn from(error: manycore_experiment::Error) -> Self {
        use manycore_experiment::Error as Cause;
        match error {
            Cause::Unavailable(message) => Self::Unavailable(message),
            Cause::Interrupted => Self::Interrupted,
            error => Self::Failed(error.to_string()),
        }
    }
}
