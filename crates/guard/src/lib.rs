//! Ends the process that exhausts memory before the machine stalls.
#![deny(unsafe_code)]

pub mod beam;
pub mod clerk;
pub mod console;
pub mod decision;
pub mod deputy;
pub mod ending;
pub mod error;
pub mod event;
pub mod groups;
pub mod holdings;
pub mod memory_room;
pub mod memory_use;
pub mod metrics;
pub mod question;
pub mod rules;
pub mod text;
pub mod watcher;

pub use error::{Error, Result};
