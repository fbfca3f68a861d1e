//! The scheduler: shows it, and schedules over clusters of cores.
//!
//! [`show`] reads which scheduler is in force and what it does on this machine.
#![forbid(unsafe_code)]

pub mod error;
pub mod show;

pub use error::{Error, Result};
