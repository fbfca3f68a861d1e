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
    #[error("cannot write {}: {source}; {}", path.display(), left_in(*samples))]
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

/// Returns what a recording has that could not be written further. Without samples, its file is removed.
fn left_in(samples: usize) -> String {
    match samples {
        0 => "nothing was recorded".to_owned(),
        1 => "the sample before this is in it and can be replayed".to_owned(),
        count => format!("the {count} samples before this are in it and can be replayed"),
    }
}
