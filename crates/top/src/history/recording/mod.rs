//! Recordings: a file of a head and chunks.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `MCTOPREC` |
//! | 4, 4 | length of the head, its CRC-32 |
//! | | the head as JSON: [`RecordingHead`](head::RecordingHead) |
//! | 40 | the head of a chunk: see [`format::ChunkHead`] |
//! | | its samples: frames of zstd |
//! | ... | more chunks |
//! | 40 | the head of the end, after a recording that was finished |
//!
//! All numbers are little-endian. A chunk has the samples of up to a minute and is written when it is complete. Each
//! tenth chunk stands alone, so that a sample is found without decoding all that are before it.

pub(super) mod format;
pub(super) mod head;
pub(super) mod recorder;
pub(super) mod replay;
