//! Keeping a machine from dying of memory: when something has to be done, to whom, and in which order.
//!
//! All of it is called on the way to a kill, when memory may have run out, so nothing here allocates after it was made;
//! [`holdings`] does, which is found out beside that.

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
