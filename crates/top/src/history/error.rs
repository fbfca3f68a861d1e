//! What can go wrong with a recording.

use super::codec::Malformed;
use std::{io, path::PathBuf};

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is a file of this name.
    #[error("{} exists; remove it or record to another file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written, mostly because the disk is full.
    #[error("cannot write {}: {source}; the {samples} samples before this are in it and can be replayed", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Number of samples that can be read from it.
        samples: usize,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a recording, or its head is damaged.
    #[error("{} is not a recording that this version can read: {why}", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A chunk that is as it was written cannot be decoded.
    #[error("{}: samples from number {sample} on cannot be decoded: {source}", path.display())]
    Chunk {
        /// The file.
        path: PathBuf,
        /// Number of the first sample that cannot be decoded, from 0.
        sample: usize,
        /// The reason.
        source: Malformed,
    },
}
