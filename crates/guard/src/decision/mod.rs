//! The decisions of the out-of-memory guard: when to act, on which process, and in which order.
//!
//! Most of this code runs between a reading and a kill, when memory may already be exhausted. It therefore
//! allocates only when a structure is created. [`holdings`] is the exception: it runs outside that path.

pub mod choice;
pub mod holdings;
pub mod incident;
pub mod line;
pub mod node;
pub mod pattern;
pub mod stage;
pub mod table;
pub mod trend;

#[cfg(test)]
mod tests;
