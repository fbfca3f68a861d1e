//! The CPUs that handle the interrupts of devices: which interrupts occurred where, and moving them.
#![forbid(unsafe_code)]

mod device;
pub mod error;
pub mod place;
pub mod report;
pub mod show;
pub mod text;

pub use error::{Error, Result};
