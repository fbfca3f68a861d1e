//! The scheduler: shows it, and schedules over clusters of cores.
//!
//! [`show`] reads which scheduler is in force and what it does on this machine. [`run`] says what is to be placed and how;
//! [`affinity`] does that from user space, for kernels without `sched_ext`.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod error;
pub mod run;
pub mod show;

pub use error::{Error, Result};
