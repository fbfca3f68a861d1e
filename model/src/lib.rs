//! What `manycore` knows and decides, as plain data and pure functions.
//!
//! Nothing here reads a file, a clock or a random device, starts a thread or prints. So every decision can
//! be tested exactly, and a [`machine::Machine`] of last year is judged by the same code as one of today.
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
