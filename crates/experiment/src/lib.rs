//! Experiments in randomised blocks, and the records that they produce.
#![deny(unsafe_code)]

pub mod board;
pub mod record;
pub mod spawning;

pub use record::Record;
