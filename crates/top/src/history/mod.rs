//! Samples that are kept: the last minutes in memory, and recordings in files.
//!
//! [`codec`] turns samples into chunks of bytes. [`History`] keeps the last chunks, [`Recorder`] writes them to a file, and
//! [`Replay`] reads it. Samples have numbers that do not change while older ones are forgotten.

pub mod codec;
mod error;
mod memory;
mod recording;

pub use error::Error;
pub use memory::{History, HistoryLimits};
pub use recording::{
    head::{RECORDING_SCHEMA, RecordingHead},
    recorder::Recorder,
    replay::{RecordingEnd, Replay},
};
