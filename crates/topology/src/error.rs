//! Why a machine cannot be read.

use crate::capture::CaptureError;
use std::io;

/// Why a tree cannot be opened, or does not describe a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder or file cannot be opened.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// The file is not a capture.
    #[error("{path}: {error}")]
    NotACapture {
        /// The path as given.
        path: String,
        /// The line and its problem.
        error: CaptureError,
    },
    /// The tree has no CPUs.
    #[error(
        "{root} has no CPUs in sys/devices/system/cpu; pass the root of a copied sysfs and procfs, or a capture"
    )]
    NoCpus {
        /// The root folder or the capture.
        root: String,
    },
    /// A file has contents that the kernel does not write.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file, below its root or in its capture.
        file: String,
        /// What was found and what was expected.
        problem: String,
    },
}
