//! Running virtual machines, found by the command lines of their emulators, and what they use.

pub mod bandwidth;
pub mod command_line;
pub mod counters;
pub mod domains;
pub mod memory;
pub mod status;
pub mod usage;
pub mod xml;

pub use counters::host;
pub use domains::{Domains, Wanted};
