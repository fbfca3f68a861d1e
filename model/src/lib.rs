//! The model of `manycore`: plain data, and decisions as pure functions.
//!
//! This crate reads no files, clocks or random devices, starts no threads and prints nothing. So every
//! decision can be tested exactly, and a [`machine::Machine`] saved last year is evaluated by the same code
//! as a new one.
#![forbid(unsafe_code)]

pub mod audit;
pub mod cpuset;
pub mod distance;
pub mod domain;
pub mod evaluation;
pub mod guard;
pub mod histogram;
pub mod interrupts;
pub mod machine;
pub mod names;
pub mod outline;
pub mod pairs;
pub mod placement;
pub mod qos;
pub mod record;
pub mod sharing;
pub mod spawn;
pub mod stats;
pub mod synthetic;
pub mod units;
pub mod verdict;

pub use cpuset::{CpuId, CpuSet};
pub use distance::Distance;
pub use machine::Machine;
pub use record::Record;
