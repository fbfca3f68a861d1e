//! Experiments in randomised blocks, and the records that they produce.
#![deny(unsafe_code)]

pub mod command;
pub mod control_block;
pub mod counters;
pub mod engine;
pub mod error;
pub mod interrupt;
pub mod memory_loaders;
pub mod metric;
pub mod new_record;
pub mod ping_pong;
pub mod pool_subject;
pub mod record;
pub mod sampling;
pub mod session;
pub mod spawning;
pub mod worker;
pub mod worker_pool;

pub use error::{Error, Result};

pub use record::Record;
