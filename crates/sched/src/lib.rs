//! The scheduler: which one is in force, and one of our own, which spreads tasks over clusters of cores or packs them.
//!
//! | what | module |
//! |---|---|
//! | which scheduler is in force, and what follows on this machine | [`show`] |
//! | the machine as our scheduler knows it | [`layout`] |
//! | our scheduler in the kernel, by `sched_ext` | [`engine`], and the BPF programs in `bpf/` |
//! | what it counts | [`counters`] |
//! | the choice of a CPU, measured alone | [`choice`] |
#![forbid(unsafe_code)]

pub mod choice;
pub mod counters;
pub mod engine;
pub mod error;
pub mod layout;
mod maps;
pub mod show;

pub use error::{Error, Result};
