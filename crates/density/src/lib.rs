//! How many instances of a service fit on a machine while its tail holds.
//!
//! The density is the largest number of instances at which a figure of the latency of an observed instance is within a
//! bound (`manycore_experiment::tail_bound`): for example a p99 at most 10 % above that of an instance which runs alone.
//! The search for it (`manycore_stats::largest_count`) takes noisy samples and gives an interval. [`instances`] starts
//! instances as processes, containers or virtual machines, and pauses those that a count does not need. [`memory`] refuses
//! counts that the memory does not hold. [`load`] loads each instance, from this machine or
//! from other [`hosts`], [`resources`] reads what may limit them, and
//! [`session`] measures with all of these and keeps the record.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod client_rate;
pub mod clients;
mod error;
pub mod hosts;
pub mod instances;
pub mod load;
pub mod memory;
pub mod options;
mod remote_load;
pub mod resources;
mod room;
pub mod session;
mod settings;
pub mod slices;
pub mod template;

pub use error::{Error, Result};
