//! The scheduler: which one is in force, and one of our own, which spreads tasks over clusters of cores or packs them.
//!
//! | what | module |
//! |---|---|
//! | which scheduler is in force, and what follows on this machine | [`show`] |
//! | what is to be spread or packed, and how | [`run`] |
//! | our scheduler in the kernel, by `sched_ext` | [`engine`], and the BPF programs in `bpf/` |
//! | that scheduler as a service: which tasks, which policies, its figures | [`service`] |
//! | the machine as it knows it, what it counts | [`layout`], [`counters`] |
//! | its choice of a CPU, measured alone | [`choice`] |
//! | the same from user space by affinities, for kernels without `sched_ext` | [`affinity`] |
#![forbid(unsafe_code)]

pub mod affinity;
pub mod choice;
pub mod counters;
pub mod engine;
pub mod error;
pub mod layout;
mod maps;
pub mod run;
pub mod service;
pub mod show;
mod turn;

pub use error::{Error, Result};
