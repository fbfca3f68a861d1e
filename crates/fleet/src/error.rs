//! Why a fleet cannot be measured or reported.

use std::{io, path::PathBuf};

/// Why a fleet cannot be measured or reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the folder cannot be read or written.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was attempted: `cannot write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// There is no such folder.
    #[error("there is no folder {}: name one that 'manycore fleet eval' has filled, its --out", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The description of a run cannot be used.
    #[error(transparent)]
    Manifest(#[from] manycore_linux::input_file::InputError),
    /// The folder holds another run.
    #[error("{} holds the results of '{there}': give another --out, or the same command to continue it", path.display())]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// The command line of that run.
        there: String,
    },
    /// Another process writes into the folder.
    #[error("another manycore writes into {}: wait for its end, or give another --out", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No record has a property by which nodes were to be grouped.
    #[error("no node has the property {name}: the records have {}", known.join(", "))]
    UnknownProperty {
        /// Its name.
        name: String,
        /// The properties that records have, ascending.
        known: Vec<String>,
    },
    /// The hosts cannot be reached at all.
    #[error(transparent)]
    Remote(#[from] manycore_remote::Error),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;
