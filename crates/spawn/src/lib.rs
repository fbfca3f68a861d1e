//! Measurement of light processes by the hundred thousand: the time and memory that starting, holding and
//! ending them takes.
//!
//! [`run`] makes the measurement. Each count runs in a fresh runtime (`runtimes`, `session`), so that no run profits
//! from memory which an earlier run allocated. A count that would not fit is refused before it starts
//! (`feasibility`). A control group limits the rest (`cleanup`). `protocol` describes the messages between this
//! program and a runtime. [`builtin`] holds the built-in runtimes.
#![forbid(unsafe_code)]

pub mod builtin;
mod cache;
mod cleanup;
mod cpus;
mod error;
mod feasibility;
mod limits;
mod measurement;
mod options;
mod protocol;
mod runtimes;
mod session;
mod trial;

pub use error::{Error, Result};
pub use measurement::run;
pub use options::SpawnOptions;
