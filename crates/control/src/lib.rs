//! Changes to a running system that are journalled first and can be undone.
#![deny(unsafe_code)]

pub mod cleanup;
pub mod command_group;
pub mod cpuset;
pub mod error;
mod group_dir;
pub mod journal;
pub mod memory_group;
pub mod placement;

pub use error::{Error, GroupError, Result};
