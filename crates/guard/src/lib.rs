//! Ends the process that exhausts memory before the machine stalls.
#![deny(unsafe_code)]

pub mod decision;
pub mod deputy;
pub mod ending;
pub mod holdings;
pub mod memory_room;
pub mod memory_use;
