//! The decisions of the out-of-memory guard: when to act, on which process, and in which order.
//!
//! Most of this code runs between a reading and a kill, when memory may already be exhausted. It therefore
//! allocates only when a structure is created. [`memory_objects`] is the exception: it runs outside that path.

pub mod assessment;
pub mod cause;
pub mod event_line;
pub mod memory_objects;
pub mod pattern;
pub mod process_table;
pub mod shortage;
pub mod trend;

#[cfg(test)]
mod tests;
