//! The guard that protects a machine from running out of memory. It has two parts:
//!
//! - The **monitor thread** ([`watcher`]) takes readings, assesses them, finds the cause and sends the
//!   signal. It never blocks or allocates.
//! - The **slow path** ([`clerk`]) does everything that may take time: names of control groups, files in
//!   memory, proportional memory, event lines, metrics, queries.
//!
//! They exchange small values through channels that are allocated in advance. If the slow path is late, the
//! monitor thread continues without its answer.

pub mod beam;
pub mod clerk;
pub mod event;
pub mod groups;
pub mod metrics;
pub mod question;
pub mod rules;
pub mod watcher;
