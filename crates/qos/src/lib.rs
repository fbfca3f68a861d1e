//! Limits of memory bandwidth and cache for groups of tasks: what a machine can limit, which limits are in force, what is
//! requested, and what the kernel made of it (`Documentation/filesystems/resctrl.rst`). The dialects of
//! kernels are in [`manycore_linux::resctrl::dialect`].
//!
//! ```text
//! LimitRequest -> translate (pure) -> SchemataWrite -> write (the kernel) -> LimitOutcome -> text
//! ```
#![forbid(unsafe_code)]

pub mod changes;
pub mod clear;
pub mod enforcement;
pub mod error;
pub mod limit_outcome;
pub mod prove;
pub mod request;
pub mod set;
pub mod show;
mod system;
pub mod text;
pub mod translate;
pub mod watch;
pub mod watch_text;
pub mod write;

pub use error::{Error, Result};
pub use system::{created_groups, open, system};
