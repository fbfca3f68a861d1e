//! Ends the process that exhausts memory before the machine stalls.
//!
//! [`run`] is the guard. Its [`monitor`] thread reads, decides and signals without allocating; its [`slow_path`]
//! does what may take time. [`decision`] is pure: data in, decisions out. [`available_memory`],
//! [`process_scan`] and [`memory_objects`] are what it reads.
#![deny(unsafe_code)]

pub mod available_memory;
pub mod check;
pub mod console;
pub mod decision;
pub mod erlang;
pub mod error;
pub mod event;
pub mod groups;
pub mod helper_process;
pub mod memory_objects;
pub mod metrics;
pub mod monitor;
pub mod outlook;
pub mod pidfd_kill;
pub mod process_scan;
pub mod query;
pub mod rules;
pub mod run;
pub mod slow_path;
pub mod text;

pub use error::{Error, Result};
