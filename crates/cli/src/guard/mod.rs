//! The guard that keeps a machine from dying of memory.
//!
//! - The **watcher** reads, judges, finds the cause and sends the signal: a thread that never waits or allocates.
//! - The **clerk** does everything that may take time: names of control groups, files in memory, proportional memory,
//!   lines for people and programs, metrics, questions.
//!
//! They pass each other small values through channels that are allocated beforehand. Where the clerk is late, the
//! watcher goes on without him.

pub mod beam;
pub mod clerk;
pub mod event;
pub mod groups;
pub mod metrics;
pub mod question;
pub mod rules;
pub mod watcher;
