//! Why an evaluation can fail.

use std::fmt::Display;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option cannot be used here.
    #[error("{option} {reason}")]
    InvalidOption {
        /// The option.
        option: LoadOption,
        /// What was found and what was expected; it continues a sentence that begins with the option.
        reason: String,
    },
    /// Two options exclude each other.
    #[error("{option} cannot be combined with {other}: {reason}")]
    Conflict {
        /// The first option.
        option: LoadOption,
        /// The option that it excludes.
        other: LoadOption,
        /// Why it excludes the other one.
        reason: &'static str,
    },
    /// There is no load of the requested name.
    #[error("there is no load {name:?}; similar names are: {}", similar.join(", "))]
    UnknownLoad {
        /// The requested name.
        name: String,
        /// Names that exist, the most similar one first.
        similar: Vec<String>,
    },
    /// A needed right, file, program or resource is missing.
    #[error("{0}")]
    Unavailable(String),
    /// A measured command or a worker failed.
    #[error("{0}")]
    Failed(String),
    /// The work was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
}

/// An option of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOption {
    /// [`Bench::cpus`](crate::bench::Bench::cpus).
    Cpus,
    /// [`LoadOptions::workers`](crate::LoadOptions::workers).
    Workers,
    /// [`Bench::seconds`](crate::bench::Bench::seconds).
    Seconds,
    /// [`StreamOptions::kernels`](crate::StreamOptions::kernels).
    Kernels,
    /// [`StreamOptions::array`](crate::StreamOptions::array).
    Array,
    /// [`StreamOptions::nodes`](crate::StreamOptions::nodes).
    Nodes,
    /// [`LoadOptions::unixbench`](crate::LoadOptions::unixbench).
    Unixbench,
    /// [`LoadOptions::unixbench_dir`](crate::LoadOptions::unixbench_dir).
    UnixbenchFolder,
}

impl Display for LoadOption {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(match self {
            Self::Cpus => "the list of CPUs",
            Self::Workers => "the number of workers",
            Self::Seconds => "the time",
            Self::Kernels => "the list of kernels",
            Self::Array => "the array size",
            Self::Nodes => "the list of nodes",
            Self::Unixbench => "the setting of UnixBench",
            Self::UnixbenchFolder => "the directory of UnixBench",
        })
    }
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// [`Error::InvalidOption`] with this reason.
    pub(crate) fn invalid(option: LoadOption, reason: impl Display) -> Self {
        Self::InvalidOption { option, reason: reason.to_string() }
    }

    /// [`Error::Unavailable`] with this message.
    pub(crate) fn unavailable(message: impl Display) -> Self {
        Self::Unavailable(message.to_string())
    }
}

impl From<manycore_control::Error> for Error {
    fn from(error: manycore_control::Error) -> Self {
        Self::unavailable(error)
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
