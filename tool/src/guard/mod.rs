//! The guard that keeps a machine from dying of memory.
//!
//!     Watcher   reads, judges, finds the cause, sends the signal: its own thread, which never waits or allocates
//!     Clerk     everything that may take time: names of control groups, files in memory, proportional memory, lines for
//!               people and programs, metrics, questions
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
