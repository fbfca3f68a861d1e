//! Cache and memory bandwidth of groups of tasks: what a machine offers, what is in force, what a user asks for, and
//! what the kernel made of it (`Documentation/filesystems/resctrl.rst`).

pub mod applied;
pub mod dialect;
pub mod places;
pub mod proof;
pub mod rates;
pub mod schemata;
pub mod state;
pub mod told;
pub mod translate;
pub mod watch;
pub mod wish;
