//! Which CPUs handle the interrupts of devices: shows it, plans a distribution over chosen CPUs, and applies it
//! through the journal. Reading and writing the kernel's files is in `manycore_linux::interrupts`.
#![forbid(unsafe_code)]

mod device;
pub mod error;
pub mod place;
pub mod report;
pub mod show;
pub mod text;

pub use error::{Error, Result};
