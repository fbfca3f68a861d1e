//! Experiments in randomised blocks, and the records that they produce.
#![deny(unsafe_code)]

pub mod board;
pub mod command;
pub mod crew;
pub mod engine;
pub mod error;
pub mod interrupt;
pub mod live;
pub mod loaders;
pub mod metric;
pub mod observe;
pub mod opening;
pub mod pace;
pub mod rally;
pub mod record;
pub mod session;
pub mod spawning;
pub mod worker;

pub use error::{Error, Result};

pub use record::Record;
