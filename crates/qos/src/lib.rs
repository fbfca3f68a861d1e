//! Limits of cache and memory bandwidth for groups of tasks: the capabilities of a machine, the limits in
//! force, the requests of a user, and their outcome (`Documentation/filesystems/resctrl.rst`).
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
