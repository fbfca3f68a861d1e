//! How many instances of a service fit on a machine while its tail holds.
//!
//! The density is the largest number of instances at which a figure of the latency of an observed instance is within a
//! [`bound`]: for example a p99 at most 10 % above that of an instance which runs alone. [`search`] finds it from noisy
//! samples, with an interval. [`instances`] starts instances as processes, containers or virtual machines, and pauses those that
//! a count does not need. [`memory`] refuses counts that the memory does not hold. [`session`] measures with all of them.
//! [`resources`] reads what the machine and the observed instance do meanwhile.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod bound;
mod error;
pub mod instances;
pub mod memory;
pub mod resources;
pub mod search;
pub mod session;
pub mod template;

pub use error::{Error, Result};
