//! Cache and memory bandwidth of groups of tasks: what a machine offers, what is in force, what a user asks for, and
//! what the kernel made of it (`Documentation/filesystems/resctrl.rst`).
#![forbid(unsafe_code)]

pub mod applied;
pub mod ours;
pub mod proof;
pub mod text;
pub mod told;
pub mod translate;
pub mod watch_text;
pub mod wish;
pub mod write;
